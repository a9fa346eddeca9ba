package order_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

func rows(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	require.NoError(t, db.Table(table).Count(&n).Error)
	return n
}

func TestTheSandboxKeepsABook(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, book *gorm.DB) {
		before := time.Now().Add(-time.Second)
		r := run(t, book)
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
