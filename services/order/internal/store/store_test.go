package store_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

var start = time.Date(2026, 11, 21, 10, 0, 0, 123e6, time.UTC)

func each(t *testing.T, fn func(t *testing.T, s *store.Store, db *gorm.DB)) {
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		fn(t, store.New(db, telemetry.Discard(t), nil), db)
	})
}

func newOrder(user string, n int) core.Order {
	sn := ordersn.SN{Time: start.Add(time.Duration(n) * time.Millisecond), Gene: ordersn.Gene(user)}
	return core.Order{
		OrderSN: sn.String(), UserID: user, ActivityID: "7", State: core.Pending, Amount: 500, Currency: "EUR",
		Lines:     []contract.PricedLine{{SKUID: "9", Qty: 1, Price: 200}, {SKUID: "3", Qty: 3, Price: 100}},
		CreatedAt: start.Add(time.Duration(n) * time.Millisecond), ExpiresAt: start.Add(time.Minute), Traceparent: "00-a-b-01",
	}
}

func do(t *testing.T, s *store.Store, fn func(core.Tx)) {
	t.Helper()
	require.NoError(t, s.InTx(t.Context(), "test", func(tx core.Tx) error { fn(tx); return nil }))
}

func TestOrdersAreReadAsInserted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		var all []core.Order
		var sns []string
		for i := range 64 {
			o := newOrder(fmt.Sprintf("u%d", i), i)
			all, sns = append(all, o), append(sns, o.OrderSN)
		}
		do(t, s, func(tx core.Tx) { require.NoError(t, tx.InsertOrders(all)) })
		do(t, s, func(tx core.Tx) {
			found, err := tx.LockOrders(append(sns, "1"))
			require.NoError(t, err)
			require.Len(t, found, len(all))
			for _, o := range all {
				require.Equal(t, o, found[o.OrderSN])
			}
		})
		o, found, err := s.Order(t.Context(), all[5].OrderSN)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, all[5], o)
		_, found, err = s.Order(t.Context(), "1")
		require.NoError(t, err)
		require.False(t, found)
	})
}

func TestStepsAreCompareAndSwaps(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		o := newOrder("u1", 1)
		sn := []string{o.OrderSN}
		at := start.Add(time.Second)
		do(t, s, func(tx core.Tx) { require.NoError(t, tx.InsertOrders([]core.Order{o})) })
		steps := map[string]func(tx core.Tx) (int, error){
			"close":  func(tx core.Tx) (int, error) { return tx.Close(sn, core.ReasonExpired, at) },
			"pay":    func(tx core.Tx) (int, error) { return tx.Pay(o.OrderSN, "55", at) },
			"refund": func(tx core.Tx) (int, error) { return tx.Refund(o.OrderSN, at) },
			"hold":   func(tx core.Tx) (int, error) { return tx.HoldForPayment(o.OrderSN, at) },
		}
		expect := func(name string, want int) {
			t.Helper()
			do(t, s, func(tx core.Tx) {
				n, err := steps[name](tx)
				require.NoError(t, err)
				require.Equal(t, want, n, name)
			})
		}
		expect("refund", 0)
		expect("hold", 1)
		expect("hold", 0)
		expect("pay", 1)
		expect("pay", 0)
		expect("close", 0)
		expect("refund", 1)
		expect("refund", 0)
		expect("close", 0)
		got, _, err := s.Order(t.Context(), o.OrderSN)
		require.NoError(t, err)
		require.Equal(t, core.Refunded, got.State)
		require.Equal(t, at, got.PaidAt)
		require.Equal(t, at, got.RefundedAt)
		require.Equal(t, "55", got.PaidBy)
		require.Equal(t, at, got.PayingUntil)
	})
}

func TestATombstoneAndAnOrderShareOneKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		a, b := newOrder("u1", 1), newOrder("u1", 2)
		do(t, s, func(tx core.Tx) {
			require.NoError(t, tx.InsertOrders([]core.Order{a}))
			require.NoError(t, tx.InsertTombstones([]string{b.OrderSN}, start))
		})
		err := s.InTx(t.Context(), "test", func(tx core.Tx) error { return tx.InsertTombstones([]string{a.OrderSN}, start) })
		require.Error(t, err)
		require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err),
			"a duplicate key counts as a lost race: retry")
		require.Error(t, s.InTx(t.Context(), "test", func(tx core.Tx) error { return tx.InsertOrders([]core.Order{b}) }))
		do(t, s, func(tx core.Tx) {
			found, err := tx.LockOrders([]string{a.OrderSN, b.OrderSN})
			require.NoError(t, err)
			require.False(t, found[a.OrderSN].Tombstone)
			require.True(t, found[b.OrderSN].Tombstone)
			n, err := tx.Close([]string{b.OrderSN}, core.ReasonExpired, start)
			require.NoError(t, err)
			require.Zero(t, n)
		})
		list, err := s.List(t.Context(), core.ListQuery{UserID: "u1", Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

func TestListsAreNewestFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		var mine []core.Order
		for i := range 7 {
			o := newOrder("u1", i)
			if i > 3 {
				o.CreatedAt = start.Add(time.Hour) // the same moment for several
			}
			mine = append(mine, o)
		}
		other := newOrder("U1", 3) // differs by case only
		do(t, s, func(tx core.Tx) {
			require.NoError(t, tx.InsertOrders(append(mine, other)))
			_, err := tx.Close([]string{mine[1].OrderSN, mine[5].OrderSN}, core.ReasonCancelled, start)
			require.NoError(t, err)
		})
		var seen []string
		q := core.ListQuery{UserID: "u1", Limit: 2}
		for {
			page, err := s.List(t.Context(), q)
			require.NoError(t, err)
			for _, o := range page {
				require.Len(t, o.Lines, 2)
				seen = append(seen, o.OrderSN)
				q.Before = core.Position{CreatedAt: o.CreatedAt, OrderSN: o.OrderSN}
			}
			if len(page) < 2 {
				break
			}
		}
		var want []string
		for i := len(mine) - 1; i >= 0; i-- {
			want = append(want, mine[i].OrderSN)
		}
		require.Equal(t, want, seen)
		closed, err := s.List(t.Context(), core.ListQuery{UserID: "u1", State: core.Closed, Limit: 10})
		require.NoError(t, err)
		require.Len(t, closed, 2)
		require.Equal(t, mine[5].OrderSN, closed[0].OrderSN)
	})
}

func TestOverdueOrdersAndTheirNextCheck(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		var all []core.Order
		for i := range 30 {
			all = append(all, newOrder(fmt.Sprintf("u%d", i), i))
		}
		due := start.Add(time.Minute)
		do(t, s, func(tx core.Tx) {
			require.NoError(t, tx.InsertOrders(all))
			_, err := tx.Pay(all[0].OrderSN, "1", start)
			require.NoError(t, err)
			_, err = tx.HoldForPayment(all[1].OrderSN, due.Add(time.Minute))
			require.NoError(t, err)
		})
		late := func(at time.Time, limit int) []core.Order {
			t.Helper()
			found, err := s.OverdueOrders(t.Context(), at, limit)
			require.NoError(t, err)
			return found
		}
		require.Empty(t, late(due.Add(-time.Millisecond), 100))
		require.Len(t, late(due, 100), 28)
		require.Len(t, late(due, 10), 10)
		do(t, s, func(tx core.Tx) {
			postpone := func(resends int) int {
				n, err := tx.PostponeClosingCheck([]string{all[2].OrderSN, all[0].OrderSN}, resends, due.Add(time.Second))
				require.NoError(t, err)
				return n
			}
			require.Equal(t, 1, postpone(0), "a paid order is not checked")
			require.Zero(t, postpone(0), "sent again meanwhile")
		})
		require.Len(t, late(due, 100), 27)
		found := late(due.Add(time.Minute), 100)
		require.Len(t, found, 29)
		for _, o := range found {
			require.Equal(t, map[bool]int{true: 1}[o.OrderSN == all[2].OrderSN], o.CloseResends)
		}
	})
}

// Many refunds of one provider are due before those of another.
func TestProvidersOfDueRefundsTakeTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		o := newOrder("u1", 1)
		do(t, s, func(tx core.Tx) {
			require.NoError(t, tx.InsertOrders([]core.Order{o}))
			for n := range 22 {
				r := core.Refund{
					PaymentID: strconv.Itoa(100 + n), OrderSN: o.OrderSN, Provider: "hangs", Amount: 5, Currency: "EUR",
					State: core.RefundPending, Reason: core.RefundLate, CreatedAt: start, NextAttemptAt: start,
				}
				if n >= 20 {
					r.Provider, r.NextAttemptAt = "responds", start.Add(time.Minute)
				}
				require.NoError(t, tx.InsertRefund(r))
			}
		})
		due, err := s.DueRefunds(t.Context(), start.Add(time.Hour), 8)
		require.NoError(t, err)
		var turns []string
		for _, r := range due {
			turns = append(turns, r.Provider)
		}
		require.Equal(t, []string{"hangs", "responds", "hangs", "responds", "hangs", "hangs"}, turns)
	})
}

func TestRefundsAreClaimedOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		o := newOrder("u1", 1)
		r := core.Refund{
			PaymentID: "77", OrderSN: o.OrderSN, Provider: "p", Amount: 5, Currency: "EUR", State: core.RefundPending,
			Reason: core.RefundLate, CreatedAt: start, NextAttemptAt: start,
		}
		do(t, s, func(tx core.Tx) {
			require.NoError(t, tx.InsertOrders([]core.Order{o}))
			require.NoError(t, tx.InsertRefund(r))
		})
		due, err := s.DueRefunds(t.Context(), start, 10)
		require.NoError(t, err)
		require.Equal(t, []core.Refund{r}, due)
		for _, want := range []bool{true, false} {
			mine, err := s.ClaimRefund(t.Context(), r, start.Add(time.Minute))
			require.NoError(t, err)
			require.Equal(t, want, mine)
		}
		due, err = s.DueRefunds(t.Context(), start, 10)
		require.NoError(t, err)
		require.Empty(t, due)
		require.NoError(t, s.StoreRefundError(t.Context(), "77", string(make([]byte, 1000))))
		for _, want := range []bool{true, false} {
			done, err := s.FinishRefund(t.Context(), "77", core.RefundDone, "", start)
			require.NoError(t, err)
			require.Equal(t, want, done)
		}
		got, _, err := s.Order(t.Context(), o.OrderSN)
		require.NoError(t, err)
		require.Equal(t, core.RefundDone, got.Refunds[0].State)
	})
}

func TestAFailedTransactionWritesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ *store.Store, db *gorm.DB) {
		notified := 0
		s := store.New(db, telemetry.Discard(t), func() { notified++ })
		o := newOrder("u1", 1)
		broken := errors.New("killed here")
		work := func(tx core.Tx) error {
			if err := tx.InsertOrders([]core.Order{o}); err != nil {
				return err
			}
			return tx.AddEvents([]contract.OrderEvent{{
				OrderSN: o.OrderSN, UserID: "u1", ActivityID: "7", Lines: contract.PlainLines(o.Lines), Type: contract.OrderClosed, At: start,
			}})
		}
		err := s.InTx(t.Context(), "test", func(tx core.Tx) error {
			require.NoError(t, work(tx))
			return broken
		})
		require.ErrorIs(t, err, broken)
		require.Zero(t, notified)
		runs := 0
		require.NoError(t, s.InTx(t.Context(), "test", func(tx core.Tx) error {
			if runs++; runs == 1 {
				require.NoError(t, work(tx))
				return core.ErrRetry
			}
			return work(tx)
		}))
		require.Equal(t, 2, runs)
		require.Equal(t, 1, notified)
		var rows int64
		require.NoError(t, db.Table("outbox").Count(&rows).Error)
		require.EqualValues(t, 1, rows)
	})
}

func TestTheSandboxRecordsARefundOnce(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		b := store.NewSandboxBook(db, nil)
		for _, tt := range []struct {
			amount int64
			same   bool
		}{{5, true}, {5, true}, {6, false}} {
			same, err := b.RecordRefund(t.Context(), "9", tt.amount, "EUR")
			require.NoError(t, err)
			require.Equal(t, tt.same, same)
		}
	})
}

func TestPaymentIDsCarryTheGene(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id, err := genes.ByUser{}.NewPaymentID("u1")
		require.NoError(t, err)
		require.True(t, contract.ValidID(id))
		require.True(t, genes.ByUser{}.Belongs(id, "u1"))
		require.False(t, seen[id])
		seen[id] = true
	}
	require.False(t, genes.ByUser{}.Belongs("", "u1"))
}

func TestAnUnreachableDatabaseIsRefusedAsUnavailable(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open("root@tcp(127.0.0.1:1)/nothing", sqldb.Options{DialTimeout: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	s := store.New(db, telemetry.Discard(t), nil)
	_, _, err = s.Order(t.Context(), "256")
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	err = s.InTx(t.Context(), "test", func(core.Tx) error { return nil })
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
}

// A statement of a comparison reads a number of rows, however few of them it returns.
func TestAComparisonReadsByRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store.Store, _ *gorm.DB) {
		w := core.Window{Provider: "a", From: start.Add(-time.Hour), Until: start.Add(time.Hour)}
		var orders []core.Order
		for n := range 7 {
			orders = append(orders, newOrder("u", n))
		}
		do(t, s, func(tx core.Tx) {
			require.NoError(t, tx.InsertOrders(orders))
			for n, o := range orders {
				p := core.Payment{
					PaymentID: strconv.Itoa(n + 1), OrderSN: o.OrderSN, UserID: "u", Provider: "a", State: core.PaymentSucceeded,
					PaidAmount: 1, PaidCurrency: "EUR", CreatedAt: start, FinishedAt: start,
				}
				r := core.Refund{
					PaymentID: p.PaymentID, OrderSN: p.OrderSN, Provider: "a", Amount: 1, Currency: "EUR", State: core.RefundDone,
					CreatedAt: start, NextAttemptAt: start, FinishedAt: start,
				}
				switch n {
				case 0:
					p.Provider, r.Provider = "b", "b"
				case 1:
					p.FinishedAt, r.FinishedAt = w.Until, w.Until
				case 2:
					p.FinishedAt, r.FinishedAt = w.From.Add(-time.Millisecond), w.From.Add(-time.Millisecond)
				case 3:
					p.State = core.PaymentFailed
					r.Provider = "b"
				}
				require.NoError(t, tx.InsertPayment(p))
				require.NoError(t, tx.InsertRefund(r))
			}
		})
		var charges, refunds []int // ids of each page
		charge, refund := core.Payment{}, core.Refund{}
		for n := range 4 {
			payments, next, err := s.RecordedCharges(t.Context(), w, charge, 2)
			require.NoError(t, err)
			made, last, err := s.RecordedRefunds(t.Context(), w, refund, 2)
			require.NoError(t, err)
			require.Equal(t, n < 3, next.PaymentID != "" && last.PaymentID != "")
			charges, refunds = append(charges, len(payments)), append(refunds, len(made))
			charge, refund = next, last
		}
		require.Equal(t, []int{0, 0, 2, 1}, charges)
		require.Equal(t, []int{0, 0, 2, 1}, refunds)
	})
}
