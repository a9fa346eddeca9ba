package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/core"
)

// life is one order_sn to which everything happens in any order, and what was told of it so far.
type life struct {
	w        *world
	d        contract.Deduction
	payments []core.StartedPayment
	taken    map[string]int64 // by payment: what the provider took
	keys     int
	last     core.State // as seen after the step before
	unknown  bool       // it was told that this order will never be
	told     map[core.CloseOutcome]bool
}

func (l *life) actions() map[string]func(*rapid.T) {
	ctx := func(t *rapid.T) *rapid.T { t.Helper(); return t }
	any1 := func(t *rapid.T) core.StartedPayment {
		if len(l.payments) == 0 {
			drawAnother(t, "no payment yet")
		}
		return rapid.SampledFrom(l.payments).Draw(t, "payment")
	}
	return map[string]func(*rapid.T){
		"deduction": func(t *rapid.T) {
			require.NoError(ctx(t), l.w.Land(t.Context(), []contract.Deduction{l.d}, nil))
		},
		"conflicting deduction": func(t *rapid.T) {
			other := l.d
			other.ActivityID = "999"
			if l.last == "" && !l.unknown {
				drawAnother(t, "it would be the order")
			}
			require.NoError(t, l.w.Land(t.Context(), []contract.Deduction{other}, nil))
		},
		"close": func(t *rapid.T) {
			reason := core.ReasonExpired
			if rapid.IntRange(0, 9).Draw(t, "reason") == 0 {
				reason = core.ReasonRejected
			}
			if l.last == "" {
				seldom(t, 10) // leaves a tombstone, after which little can happen
			}
			before := l.last
			r, err := l.w.CloseOrders(t.Context(), []string{l.d.OrderSN}, reason)
			require.NoError(t, err)
			l.check(t, r[0], before)
		},
		"cancel": func(t *rapid.T) {
			seldom(t, 6)
			o, err := l.w.Cancel(t.Context(), l.d.UserID, l.d.OrderSN)
			switch contract.CodeOf(err) {
			case contract.CodeNotFound:
				require.Empty(t, l.last)
			case contract.CodeStateConflict:
				require.Contains(t, []core.State{core.Paid, core.Refunded}, l.last)
			default:
				require.NoError(t, err)
				require.Equal(t, core.Closed, o.State)
			}
		},
		"start payment": func(t *rapid.T) {
			key := rapid.IntRange(0, l.keys).Draw(t, "key")
			p, err := l.w.StartPayment(t.Context(), l.d.UserID, l.d.OrderSN, providerName, call(l.d, fmt.Sprint(key)))
			switch contract.CodeOf(err) {
			case contract.CodeNotFound:
				require.Empty(t, l.last)
			case contract.CodeOrderNotPayable:
			default:
				require.NoError(t, err)
				if key == l.keys {
					l.keys++
					l.payments = append(l.payments, p)
				}
				require.Contains(t, l.payments, p)
			}
		},
		"success": func(t *rapid.T) {
			e := success(any1(t).PaymentID)
			if rapid.IntRange(0, 3).Draw(t, "amount") == 0 {
				e.Amount += rapid.Int64Range(-10, 10).Draw(t, "off by")
				e.EventID = fmt.Sprintf("%s-%d", e.EventID, e.Amount)
			}
			_, err := l.w.Callback(t.Context(), e)
			require.NoError(t, err)
			if _, known := l.taken[e.PaymentID]; !known {
				l.taken[e.PaymentID] = e.Amount
			}
		},
		"failure": func(t *rapid.T) {
			_, err := l.w.Callback(t.Context(), failure(any1(t).PaymentID))
			require.NoError(t, err)
		},
		"no stock": func(t *rapid.T) {
			r, err := l.w.RefundOrders(t.Context(), []string{l.d.OrderSN}, core.RefundNoStock)
			require.NoError(t, err)
			want := map[core.State]core.RefundOutcome{
				"": core.OrderIsUnknown, core.Pending: core.OrderNotPaid, core.Closed: core.OrderNotPaid,
				core.Paid: core.OrderRefunded, core.Refunded: core.OrderRefunded,
			}
			require.Equal(t, want[l.last], r[0].Outcome)
		},
		"time": func(t *rapid.T) {
			l.w.clock.advance(time.Duration(rapid.Int64Range(1, int64(25*time.Second)).Draw(t, "by")))
		},
		"refunds": func(t *rapid.T) {
			mood := rapid.IntRange(0, 2).Draw(t, "provider")
			l.w.provider.fail, l.w.provider.late = nil, nil
			switch mood {
			case 1:
				l.w.provider.fail = func(string) error { return errors.New("down") }
			case 2:
				l.w.provider.late = func(string) error { return errors.New("answer lost") }
			}
			_, err := l.w.RefundDue(t.Context())
			require.NoError(t, err)
		},
		"sweep": func(t *rapid.T) {
			_, err := l.w.ResendClosings(t.Context())
			require.NoError(t, err)
		},
		"": func(t *rapid.T) { l.invariants(t) },
	}
}

// drawAnother tells rapid that the action makes no sense in the present state; another one is drawn in its place.
func drawAnother(action *rapid.T, why string) { action.Skip(why) }

// seldom skips what would end most lives too early, except once in n times.
func seldom(t *rapid.T, n int) {
	if rapid.IntRange(1, n).Draw(t, "seldom") != n {
		drawAnother(t, "seldom")
	}
}

func (l *life) check(t require.TestingT, r core.CloseResult, before core.State) {
	l.told[r.Outcome] = true
	switch r.Outcome {
	case core.CloseUnknown:
		require.Empty(t, before)
		l.unknown = true
	case core.ClosePaid:
		require.Equal(t, core.Paid, before)
	case core.CloseRefunded:
		require.Equal(t, core.Refunded, before)
	case core.CloseClosed:
		require.Contains(t, []core.State{core.Pending, core.Closed}, before)
	case core.CloseNotDue, core.ClosePaying:
		require.Equal(t, core.Pending, before)
		require.True(t, r.At.After(l.w.clock.Now()), "a time to come")
	}
}

var allowed = map[core.State][]core.State{
	"":            {"", core.Pending},
	core.Pending:  {core.Pending, core.Paid, core.Closed},
	core.Paid:     {core.Paid, core.Refunded},
	core.Closed:   {core.Closed},
	core.Refunded: {core.Refunded},
}

// invariants hold after every step.
func (l *life) invariants(t tb) {
	o, err := l.w.Order(t.Context(), l.d.UserID, l.d.OrderSN)
	if contract.CodeOf(err) != contract.CodeNotFound {
		require.NoError(t, err)
		require.False(t, l.unknown, "an order told unknown never comes to be")
	}
	require.Contains(t, allowed[l.last], o.State)
	l.last = o.State

	// Each payment that succeeded made its order paid, or is refunded in full and once.
	refunds := map[string]refund{}
	for _, r := range l.w.refunds(t, l.d.OrderSN) {
		refunds[r.PaymentID] = r
	}
	for _, p := range l.w.payments(t, l.d.OrderSN) {
		r, back := refunds[p.PaymentID]
		if p.State != core.PaymentSucceeded {
			require.False(t, back)
			require.NotContains(t, l.taken, p.PaymentID)
			continue
		}
		require.Equal(t, l.taken[p.PaymentID], p.PaidAmount)
		if o.State == core.Paid && o.PaidBy == p.PaymentID {
			require.False(t, back)
			require.EqualValues(t, fullAmount, p.PaidAmount)
			continue
		}
		require.True(t, back)
		require.Equal(t, p.PaidAmount, r.Amount)
		delete(refunds, p.PaymentID)
	}
	require.Empty(t, refunds, "nothing else is given back")
	l.w.provider.mu.Lock()
	for id, amount := range l.w.provider.refunded {
		if _, mine := l.taken[id]; mine {
			require.Equal(t, l.taken[id], amount)
		}
	}
	l.w.provider.mu.Unlock()

	// Each step is told once, by its events in the outbox.
	steps := map[contract.OrderEventType]int{}
	for _, e := range l.w.outbox(t) {
		if e.OrderSN == l.d.OrderSN {
			steps[e.Type]++
		}
	}
	want := map[contract.OrderEventType]int{}
	switch o.State {
	case core.Pending:
	case core.Paid:
		want[contract.OrderPaid] = 1
	case core.Closed:
		want[contract.OrderClosed] = 1
	case core.Refunded:
		want[contract.OrderPaid], want[contract.OrderRefunded] = 1, 1
	}
	require.Equal(t, want, steps)
}

// settled holds once the provider has answered every refund.
func (l *life) settled(t tb) {
	l.w.provider.fail, l.w.provider.late = nil, nil
	for range 12 {
		_, err := l.w.RefundDue(t.Context())
		require.NoError(t, err)
		l.w.clock.advance(20 * time.Minute)
	}
	for _, r := range l.w.refunds(t, l.d.OrderSN) {
		if r.State == core.RefundFailed {
			require.GreaterOrEqual(t, r.Attempts, 8)
			continue
		}
		require.Equal(t, core.RefundDone, r.State)
		require.Equal(t, l.taken[r.PaymentID], l.w.provider.refunded[r.PaymentID])
	}
}

func TestAnyInterleavingKeepsTheRules(t *testing.T) {
	db := dbtest.SQLite(t, order.Migrations)
	w := newWorld(t, db)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		require.NoError(rt, db.Exec("DELETE FROM outbox").Error)
		n++
		l := &life{w: w, d: w.deduction(fmt.Sprintf("u%d", n)), taken: map[string]int64{}, told: map[core.CloseOutcome]bool{}}
		rt.Repeat(l.actions())
		l.settled(rt)
		l.invariants(rt)
	})
}

// Cancelling, paying twice, closing and refunding one order at the same moment, for real: exactly one of them wins, and
// no money is lost.
func TestCancelRacesPaymentRacesClosing(t *testing.T) {
	raceOrders(t, dbtest.MariaDB(t, order.Migrations), 40)
}

func TestCancelRacesPaymentRacesClosingOnSQLite(t *testing.T) {
	raceOrders(t, dbtest.SQLite(t, order.Migrations), 10)
}

func raceOrders(t *testing.T, db *gorm.DB, n int) {
	w := newWorld(t, db)
	lives := make([]*life, n)
	for i := range lives {
		l := &life{w: w, d: w.created(t, fmt.Sprintf("u%d", i)), taken: map[string]int64{}, told: map[core.CloseOutcome]bool{}}
		for k := range 2 {
			l.payments = append(l.payments, w.started(t, l.d, fmt.Sprint(k)))
			l.taken[l.payments[k].PaymentID] = fullAmount
		}
		l.last = core.Pending
		lives[i] = l
	}
	w.clock.advance(payWithin + 120*time.Second)
	outcomes := map[core.State]int{}
	for _, l := range lives {
		start := make(chan struct{})
		var wg sync.WaitGroup
		together := func(name string, do func() error) {
			wg.Go(func() {
				<-start
				for {
					err := do()
					if contract.CodeOf(err) == contract.CodeUnavailable {
						continue // the callers repeat these
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					return
				}
			})
		}
		for _, p := range l.payments {
			for range 2 { // each event comes twice at once
				together("callback", func() error { _, err := w.Callback(t.Context(), success(p.PaymentID)); return err })
			}
		}
		together("cancel", func() error {
			_, err := w.Cancel(t.Context(), l.d.UserID, l.d.OrderSN)
			if contract.CodeOf(err) == contract.CodeStateConflict {
				return nil
			}
			return err
		})
		for range 2 {
			together("close", func() error {
				r, err := w.CloseOrders(t.Context(), []string{l.d.OrderSN}, core.ReasonExpired)
				if err == nil && r[0].Outcome != core.ClosePaid && r[0].Outcome != core.CloseClosed {
					return fmt.Errorf("outcome %s", r[0].Outcome)
				}
				return err
			})
		}
		together("deduction", func() error { return w.Land(t.Context(), []contract.Deduction{l.d}, nil) })
		close(start)
		wg.Wait()
		l.invariants(t)
		outcomes[l.last]++
	}
	t.Logf("outcomes: %v", outcomes)
	for _, l := range lives {
		l.settled(t)
		l.invariants(t)
	}
	require.Equal(t, n, outcomes[core.Paid]+outcomes[core.Closed])
}

// Of many calls at once with one Idempotency-Key, one begins a payment and all tell of it.
func TestOneIdempotencyKeyAtOnce(t *testing.T) {
	dbtest.Each(t, order.Migrations, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		d := w.created(t, "u1")
		answers := make(chan core.StartedPayment, 8)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					p, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, "k"))
					if contract.CodeOf(err) == contract.CodeUnavailable {
						continue
					}
					if err != nil {
						t.Error(err)
					}
					answers <- p
					return
				}
			})
		}
		wg.Wait()
		first := <-answers
		for range 7 {
			require.Equal(t, first, <-answers)
		}
		require.Len(t, w.payments(t, d.OrderSN), 1)
	})
}

// tb is a test, or one run of a property.
type tb interface {
	require.TestingT
	Helper()
	Context() context.Context
}
