package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/store"
)

// The statements of a re-encryption read an index, so that their time does not grow with the table.
func TestContactsAreFoundByKeyInTheIndex(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, db *gorm.DB) {
		rows := make([]map[string]any, 1200)
		for i := range rows {
			rows[i] = map[string]any{
				"order_sn": i + 1, "user_id": "u", "activity_id": 7, "key_id": "b", "sealed": []byte("sealed"), "kept_from": start,
			}
		}
		rows[7]["key_id"], rows[8]["key_id"], rows[9]["key_id"] = "a", "a", "c"
		require.NoError(t, db.Table("contacts").CreateInBatches(rows, 400).Error)
		var statements []string
		require.NoError(t, db.Callback().Query().After("*").Register("keep", func(tx *gorm.DB) {
			statements = append(statements, db.Explain(tx.Statement.SQL.String(), tx.Statement.Vars...))
		}))
		keys, err := s.ContactKeys(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, keys)
		page, err := s.ContactsUnder(t.Context(), "a", "8", 10)
		require.NoError(t, err)
		require.Len(t, page, 1)
		require.Equal(t, "9", page[0].OrderSN)
		n, err := s.CountUnder(t.Context(), "b")
		require.NoError(t, err)
		require.EqualValues(t, 1197, n)
		require.NoError(t, db.Callback().Query().Remove("keep"))
		require.Len(t, statements, 6)
		explain, index := "EXPLAIN ", "by_key"
		if sqldb.IsSQLite(db) {
			explain, index = "EXPLAIN QUERY PLAN ", "contacts_by_key"
		}
		for _, statement := range statements {
			var plan []map[string]any
			require.NoError(t, db.Raw(explain+statement).Scan(&plan).Error)
			require.Len(t, plan, 1, statement)
			if sqldb.IsSQLite(db) {
				require.Contains(t, plan[0]["detail"], index, statement)
				continue
			}
			require.Equal(t, index, fmt.Sprintf("%s", plan[0]["key"]), statement)
		}
	})
}
