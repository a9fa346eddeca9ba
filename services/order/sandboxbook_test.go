package order_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

func TestSandboxMigrationsCanBeRepeated(t *testing.T) {
	t.Parallel()
	dbtest.RepeatMigrations(t, order.SandboxMigrations)
}

// eachBook runs fn with an order database and an empty one for the sandbox's book.
func eachBook(t *testing.T, fn func(t *testing.T, orders, book *gorm.DB)) {
	empty := func(t *testing.T, dsn string) *gorm.DB {
		db, err := sqldb.Open(dsn, sqldb.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sqldb.Close(db) })
		return db
	}
	t.Run("mariadb", func(t *testing.T) { fn(t, ordertest.MariaDB(t), empty(t, dbtest.MariaDBDSN(t))) })
	t.Run("sqlite", func(t *testing.T) {
		fn(t, ordertest.SQLite(t), empty(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db")))
	})
}

func rows(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	require.NoError(t, db.Table(table).Count(&n).Error)
	return n
}

func TestTheSandboxKeepsItsBookInItsOwnDatabase(t *testing.T) {
	t.Parallel()
	eachBook(t, func(t *testing.T, orders, book *gorm.DB) {
		require.NoError(t, order.PrepareSandbox(t.Context(), orders, book, slog.New(slog.DiscardHandler)))
		before := time.Now().Add(-time.Second)
		r := run(t, orders, func(_ *order.Config, d *order.Deps) { d.SandboxDB = book })
		d := r.created("u1")
		paid := r.paid(d)
		a := r.call("POST", "/v1/payments/"+paid+"/sandbox", "u1", succeeded)
		require.Equal(t, 202, a.status, "repeated")
		other := r.created("u2")
		second := r.pay(other, "k")
		require.Equal(t, 202, r.call("POST", "/v1/payments/"+second+"/sandbox", "u2", `{"outcome":"failed"}`).status)
		a = r.callInternal("/internal/v1/orders:refund", settings.DevelopmentInternalSecret,
			`{"order_sns":["`+d.OrderSN+`"],"reason":"no_stock"}`)
		require.Equal(t, 200, a.status, a.raw)
		eventually(t, func() bool { return rows(t, book, "sandbox_refunds") == 1 }, "refunded")
		require.EqualValues(t, 1, rows(t, book, "sandbox_charges"), "a failed payment is no charge")
		require.Zero(t, rows(t, orders, "sandbox_charges")+rows(t, orders, "sandbox_refunds"))

		box := store.NewSandboxBook(book, nil)
		c, found, err := box.FindCharge(t.Context(), paid)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, []any{d.OrderSN, "u1", int64(700), "EUR"}, []any{c.OrderSN, c.UserID, c.Amount, c.Currency})
		require.True(t, c.At.After(before))
		_, found, err = box.FindCharge(t.Context(), second)
		require.NoError(t, err)
		require.False(t, found)
		page, next, err := box.Charges(t.Context(), before, "", 10)
		require.NoError(t, err)
		require.Equal(t, []any{1, paid, ""}, []any{len(page), page[0].PaymentID, next})
		page, _, err = box.Charges(t.Context(), time.Now().Add(time.Minute), "", 10)
		require.NoError(t, err)
		require.Empty(t, page)
	})
}

func TestTheOlderBookIsCopiedOnce(t *testing.T) {
	t.Parallel()
	eachBook(t, func(t *testing.T, orders, book *gorm.DB) {
		log := slog.New(slog.DiscardHandler)
		at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		payment := func(id int, state string) {
			require.NoError(t, orders.Table("payments").Create(map[string]any{
				"payment_id": id, "order_sn": id, "user_id": "u1", "provider": "sandbox", "state": state, "amount": 5,
				"currency": "EUR", "paid_amount": 5, "paid_currency": "EUR", "created_at": at, "finished_at": at.Add(time.Second),
			}).Error)
		}
		refund := func(id int) {
			require.NoError(t, orders.Table("sandbox_refunds").Create(map[string]any{
				"refund_id": id, "amount": 5, "currency": "EUR", "created_at": at.Add(time.Minute),
			}).Error)
		}
		for i := range 600 { // more than one batch
			payment(i+1, "succeeded")
		}
		payment(1000, "started")
		for i := range 3 {
			refund(i + 1)
		}
		// In the order database first, as without SANDBOX_DSN.
		require.NoError(t, order.PrepareSandbox(t.Context(), orders, nil, log))
		require.EqualValues(t, 600, rows(t, orders, "sandbox_charges"))
		require.EqualValues(t, 3, rows(t, orders, "sandbox_refunds"))

		// Then into its own database, in which an interrupted copy has got as far as payment 100 and refund 1.
		require.NoError(t, sqldb.Migrate(t.Context(), book, order.SandboxMigrations, log))
		for step, after := range map[string]int{"payments": 100, "charges": 100, "refunds": 1} {
			require.NoError(t, book.Table("sandbox_copies").Create(map[string]any{"step": step, "after_id": after}).Error)
		}
		for range 2 {
			require.NoError(t, order.PrepareSandbox(t.Context(), orders, book, log))
			require.EqualValues(t, 500, rows(t, book, "sandbox_charges"))
			require.EqualValues(t, 2, rows(t, book, "sandbox_refunds"))
			payment(2000+int(rows(t, orders, "payments")), "succeeded") // a complete copy is not repeated
			refund(2000 + int(rows(t, orders, "sandbox_refunds")))
		}
		c, found, err := store.NewSandboxBook(book, nil).FindCharge(t.Context(), "600")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, at.Add(time.Second), c.At)
	})
}

func TestTheBookListsByTime(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		var clock atomicTime
		clock.set(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
		box := store.NewSandboxBook(db, clock.now)
		ids := []string{"7", "3", "9", "1", "5"} // 7 alone, 3 and 9 at one time, then 1 and 5
		for i, id := range ids {
			if i == 1 || i == 3 {
				clock.add(time.Second)
			}
			same, err := box.RecordRefund(t.Context(), id, 5, "EUR")
			require.NoError(t, err)
			require.True(t, same)
		}
		var seen []string
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			page, next, err := box.Refunds(t.Context(), clock.now().Add(-time.Second), cursor, 1)
			require.NoError(t, err)
			for _, r := range page {
				seen = append(seen, r.RefundID)
			}
			cursor = next
		}
		require.Equal(t, []string{"3", "9", "1", "5"}, seen)
		_, _, err := box.Refunds(t.Context(), clock.now(), "x", 1)
		require.ErrorContains(t, err, "cursor")
	})
}
