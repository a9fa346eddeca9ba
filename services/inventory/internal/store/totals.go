package store

import (
	"context"
	"database/sql"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// totalsStatement returns the stock rows first, so that their moment is soon after the call. The databases read all
// rows of one statement as of one moment. The rows of the ledger are counted in the index by activity and state.
const totalsStatement = "SELECT 'stock', sku_id, total, available, reserved, sold FROM stocks WHERE activity_id = ? " +
	"UNION ALL SELECT state, 0, COUNT(*), 0, 0, 0 FROM reservations WHERE activity_id = ? GROUP BY state " +
	"UNION ALL SELECT 'allowances', 0, COALESCE(SUM(held), 0), 0, 0, 0 FROM allowances WHERE activity_id = ?"

// Totals implements reconcile.Activities.
func (s *Store) Totals(ctx context.Context, activityID string) (reconcile.Totals, error) {
	id := number(activityID)
	t := reconcile.Totals{Stock: map[string]core.Stock{}, Rows: map[ledger.State]int64{}}
	err := sqldb.Query(s.read(ctx), totalsStatement, []any{id, id, id}, func(rows *sql.Rows) error {
		var what string
		var sku, n, available, reserved, sold int64
		if err := rows.Scan(&what, &sku, &n, &available, &reserved, &sold); err != nil {
			return err
		}
		switch what {
		case "stock":
			t.Stock[text(sku)] = core.Stock{
				SKUID: text(sku), Total: n, Available: available, Reserved: reserved, Sold: sold,
			}
		case "allowances":
			t.Allowances = n
		default:
			t.Rows[ledger.State(what)] = n
		}
		return nil
	})
	return t, err
}
