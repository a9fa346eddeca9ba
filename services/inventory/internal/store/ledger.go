package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"sort"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// Ledger implements core.Store.
func (s *Store) Ledger(ctx context.Context, activityIDs []string, fn func(tx core.LedgerTx) error) error {
	return s.ledger(ctx, activityIDs, func(tx *ledgerTx) error { return fn(tx) })
}

// ChangeAllowances implements reconcile.Rows.
func (s *Store) ChangeAllowances(ctx context.Context, activityID string, fn func(tx reconcile.AllowanceTx) error) error {
	return s.ledger(ctx, []string{activityID}, func(tx *ledgerTx) error { return fn(tx) })
}

func (s *Store) ledger(ctx context.Context, activityIDs []string, fn func(tx *ledgerTx) error) error {
	ids := numbers(activityIDs)
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		l := &ledgerTx{tx: tx, clock: s.clock, activities: map[string]*core.Activity{}}
		for _, id := range ids {
			items, err := lockStocks(tx, id)
			if err != nil {
				return err
			}
			a, at, err := datedActivityOf(tx, id, items, s.clock)
			if err != nil {
				return err
			}
			if a != nil {
				l.activities[a.ID], l.now = a, at
			}
		}
		return fn(l)
	}, sqldb.RetryDuplicates())
}

type ledgerTx struct {
	tx         *gorm.DB
	clock      func() time.Time
	now        time.Time // when the last activity was read, by the time of the database; zero: none was read
	activities map[string]*core.Activity
	// hasAllowance reports, for each buyer whose allowance this transaction has read, whether there is a row. The
	// locks on the activity's stock keep this valid until the end of the transaction.
	hasAllowance map[ledger.Buyer]bool
}

// Now implements core.LedgerTx. It makes no statement while the locks are held if an activity was read.
func (l *ledgerTx) Now() (time.Time, error) {
	if !l.now.IsZero() {
		return l.now, nil
	}
	return sqldb.Now(l.tx, l.clock)
}

func (l *ledgerTx) Activity(id string) *core.Activity { return l.activities[id] }

func (l *ledgerTx) Reservations(orderSNs []string) (map[string]ledger.Row, error) {
	return rowsBySN(l.tx, orderSNs)
}

func (l *ledgerTx) ReadableReservations(orderSNs []string) (map[string]ledger.Row, []ledger.Row, error) {
	return readableBySN(l.tx, orderSNs)
}

type allowanceRow struct {
	ActivityID int64  `gorm:"primaryKey;autoIncrement:false"`
	UserID     string `gorm:"primaryKey"`
	Held       int64
}

func (allowanceRow) TableName() string { return "allowances" }

func (l *ledgerTx) Allowances(activityID string, userIDs []string) (map[string]int64, error) {
	held := make(map[string]int64, len(userIDs))
	err := chunked(userIDs, func(c []string) error {
		args := []any{number(activityID)}
		for _, u := range c {
			args = append(args, u)
		}
		return sqldb.Query(l.tx, "SELECT user_id, held FROM allowances WHERE activity_id = ? AND user_id IN "+sqldb.List(len(c)),
			args, func(rows *sql.Rows) error {
				var user string
				var n int64
				err := rows.Scan(&user, &n)
				held[user] = n
				return err
			})
	})
	if l.hasAllowance == nil {
		l.hasAllowance = make(map[ledger.Buyer]bool, len(userIDs))
	}
	for _, id := range userIDs {
		_, l.hasAllowance[ledger.Buyer{ActivityID: activityID, UserID: id}] = held[id]
	}
	return held, err
}

// DecidedAdjustments implements core.LedgerTx.
func (l *ledgerTx) DecidedAdjustments(activityID string) ([]string, error) {
	var decided []int64
	err := decidedOf(l.tx, number(activityID)).Pluck("id", &decided).Error
	ids := make([]string, len(decided))
	for i, id := range decided {
		ids[i] = text(id)
	}
	return ids, err
}

// ImportsOrders implements core.LedgerTx.
func (l *ledgerTx) ImportsOrders(activityIDs ...string) (bool, error) {
	var n int64
	err := l.tx.Model(&importRow{}).
		Where("epoch_id = (SELECT MAX(id) FROM epochs) AND activity_id IN ? AND step <> ?",
			numbers(append(activityIDs, core.AllActivities)), string(core.ImportDone)).
		Count(&n).Error
	return n > 0, err
}

// Apply implements core.LedgerTx.
func (l *ledgerTx) Apply(m *ledger.Moves) error {
	if err := l.insert(m.Insert); err != nil {
		if m.Unread && sqldb.IsDuplicate(err) {
			return fmt.Errorf("%w: %v", core.ErrKnown, err) //nolint:errorlint // as a duplicate key it would be retried unread
		}
		return err
	}
	if err := l.update(m.Update); err != nil {
		return err
	}
	if err := l.changeAllowances(m.Allowances); err != nil {
		return err
	}
	if err := l.changeStocks(m.Stocks); err != nil {
		return err
	}
	return addDeadLetters(l.tx, m.DeadLetters)
}

func (l *ledgerTx) insert(rows []ledger.Row) error {
	return chunked(rows, func(c []ledger.Row) error {
		args := make([]any, 0, len(c)*len(reservationColumns))
		for _, r := range c {
			row, err := fromRow(r)
			if err != nil {
				return err
			}
			args = append(args, row.values()...)
		}
		_, err := sqldb.Exec(l.tx, insertReservations+sqldb.Rows(len(c), len(reservationColumns)), args...)
		return err
	})
}

// change holds the values that one UPDATE writes. Most rows of a batch share them.
type change struct {
	from, state, reason                    string
	orderCreated, expires, republish, when int64 // ms, 0 = NULL
}

func (l *ledgerTx) update(rows []ledger.Update) error {
	groups := map[change][]int64{}
	for _, u := range rows {
		c := change{
			from: string(u.From), state: string(u.To.State), reason: u.To.Reason,
			orderCreated: millis(u.To.OrderCreatedAt), expires: millis(u.To.ExpiresAt),
			republish: millis(u.To.RepublishAt), when: u.To.ChangedAt.UnixMilli(),
		}
		groups[c] = append(groups[c], number(u.To.OrderSN))
	}
	for c, sns := range groups {
		err := chunked(sns, func(chunk []int64) error {
			args := []any{
				c.state, c.reason, timeOfMillis(c.orderCreated), timeOfMillis(c.expires), timeOfMillis(c.republish),
				time.UnixMilli(c.when).UTC(), c.from,
			}
			for _, sn := range chunk {
				args = append(args, sn)
			}
			return expectChanged(len(chunk))(sqldb.Exec(l.tx, "UPDATE reservations SET state = ?, reason = ?, "+
				"order_created_at = ?, expires_at = ?, republish_at = ?, changed_at = ? "+
				"WHERE state = ? AND order_sn IN "+sqldb.List(len(chunk)), args...))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// millis returns 0 for nil.
func millis(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// timeOfMillis is the inverse of millis.
func timeOfMillis(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// changeAllowances adds the deltas to the buyers' allowances. It makes one UPDATE per activity and delta. Each is
// guarded: an allowance must not exceed the activity's limit or fall below 0.
func (l *ledgerTx) changeAllowances(deltas map[ledger.Buyer]int64) error {
	type group struct {
		activityID string
		delta      int64
	}
	groups := map[group][]string{}
	users := map[string][]string{}
	for b, d := range deltas {
		if d != 0 {
			groups[group{b.ActivityID, d}] = append(groups[group{b.ActivityID, d}], b.UserID)
			if _, read := l.hasAllowance[b]; !read && d > 0 { // a release needs a row, which its guard finds
				users[b.ActivityID] = append(users[b.ActivityID], b.UserID)
			}
		}
	}
	for activityID, ids := range users {
		if _, err := l.Allowances(activityID, ids); err != nil {
			return err
		}
	}
	var fresh []allowanceRow
	for g, ids := range groups {
		sort.Strings(ids)
		a := l.activities[g.activityID]
		if a == nil {
			return fmt.Errorf("change allowance in activity %s: the transaction does not lock this activity",
				g.activityID)
		}
		var old []string
		for _, u := range ids {
			switch {
			case g.delta < 0 || l.hasAllowance[ledger.Buyer{ActivityID: g.activityID, UserID: u}]:
				old = append(old, u)
			case g.delta > a.PerUserLimit:
				return sqldb.Race(fmt.Errorf("%w: allowance in activity %s", errGuard, g.activityID))
			default:
				fresh = append(fresh, allowanceRow{ActivityID: number(g.activityID), UserID: u, Held: g.delta})
				l.hasAllowance[ledger.Buyer{ActivityID: g.activityID, UserID: u}] = true
			}
		}
		most := a.PerUserLimit
		if g.delta < 0 { // a damaged allowance above the limit must not prevent a release
			most = math.MaxInt64
		}
		err := chunked(old, func(c []string) error {
			args := []any{g.delta, number(g.activityID), g.delta, g.delta, most}
			for _, u := range c {
				args = append(args, u)
			}
			return expectChanged(len(c))(sqldb.Exec(l.tx, "UPDATE allowances SET held = held + ? "+
				"WHERE activity_id = ? AND held + ? >= 0 AND held + ? <= ? AND user_id IN "+sqldb.List(len(c)), args...))
		})
		if err != nil {
			return err
		}
	}
	sort.Slice(fresh, func(i, j int) bool {
		if fresh[i].ActivityID != fresh[j].ActivityID {
			return fresh[i].ActivityID < fresh[j].ActivityID
		}
		return fresh[i].UserID < fresh[j].UserID
	})
	return chunked(fresh, func(c []allowanceRow) error {
		args := make([]any, 0, 3*len(c))
		for _, a := range c {
			args = append(args, a.ActivityID, a.UserID, a.Held)
		}
		_, err := sqldb.Exec(l.tx, "INSERT INTO allowances (activity_id, user_id, held) VALUES "+sqldb.Rows(len(c), 3), args...)
		return err
	})
}

// changeStocks adds the deltas to the stock rows, in the order of their locks.
func (l *ledgerTx) changeStocks(deltas map[ledger.Shelf]ledger.StockDelta) error {
	shelves := make([]ledger.Shelf, 0, len(deltas))
	for k, d := range deltas {
		if d != (ledger.StockDelta{}) {
			shelves = append(shelves, k)
		}
	}
	sort.Slice(shelves, func(i, j int) bool {
		a, b := shelves[i], shelves[j]
		if a.ActivityID != b.ActivityID {
			return number(a.ActivityID) < number(b.ActivityID)
		}
		return number(a.SKUID) < number(b.SKUID)
	})
	for _, k := range shelves {
		if err := changeStock(l.tx, number(k.ActivityID), number(k.SKUID), deltas[k]); err != nil {
			return err
		}
	}
	return nil
}

// changeStock adds a delta to one stock row. Its guard prevents each figure from falling below 0.
func changeStock(tx *gorm.DB, activityID, skuID int64, d ledger.StockDelta) error {
	return expectRows(tx.Exec("UPDATE stocks "+
		"SET total = total + ?, available = available + ?, reserved = reserved + ?, sold = sold + ? "+
		"WHERE activity_id = ? AND sku_id = ? AND available + ? >= 0 AND reserved + ? >= 0 AND sold + ? >= 0",
		d.Available+d.Reserved+d.Sold, d.Available, d.Reserved, d.Sold,
		activityID, skuID, d.Available, d.Reserved, d.Sold), 1)
}
