package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
)

// scenario applies events to one order_sn in random order and keeps the state that the invariants need.
type scenario struct {
	w        *world
	d        contract.Deduction
	payments []core.StartedPayment
	taken    map[string]int64 // by payment: the amount that the provider took
	keys     int
	last     core.State // after the previous step
	unknown  bool       // a closing returned unknown: this order must never exist
}

func (s *scenario) actions() map[string]func(*rapid.T) {
	ctx := func(t *rapid.T) *rapid.T { t.Helper(); return t }
	anyPayment := func(t *rapid.T) core.StartedPayment {
		if len(s.payments) == 0 {
			drawAnother(t, "no payment yet")
		}
		return rapid.SampledFrom(s.payments).Draw(t, "payment")
	}
	return map[string]func(*rapid.T){
		"deduction": func(t *rapid.T) {
			require.NoError(ctx(t), s.w.Land(t.Context(), []contract.Deduction{s.d}, nil, nil))
		},
		"conflicting deduction": func(t *rapid.T) {
			other := s.d
			other.ActivityID = "999"
			if s.last == "" && !s.unknown {
				drawAnother(t, "it would become the order")
			}
			require.NoError(t, s.w.Land(t.Context(), []contract.Deduction{other}, nil, nil))
		},
		"close": func(t *rapid.T) {
			reason := core.ReasonExpired
			if rapid.IntRange(0, 9).Draw(t, "reason") == 0 {
				reason = core.ReasonRejected
			}
			if s.last == "" {
				onceIn(t, 10) // leaves a tombstone, after which few steps have an effect
			}
			before := s.last
			r, err := s.w.CloseOrders(t.Context(), []string{s.d.OrderSN}, reason)
			require.NoError(t, err)
			s.check(t, r[0], before)
		},
		"cancel": func(t *rapid.T) {
			onceIn(t, 6)
			o, err := s.w.Cancel(t.Context(), s.d.UserID, s.d.OrderSN)
			switch contract.CodeOf(err) {
			case contract.CodeNotFound:
				require.Empty(t, s.last)
			case contract.CodeStateConflict:
				require.Contains(t, []core.State{core.Paid, core.Refunded}, s.last)
			default:
				require.NoError(t, err)
				require.Equal(t, core.Closed, o.State)
			}
		},
		"start payment": func(t *rapid.T) {
			key := rapid.IntRange(0, s.keys).Draw(t, "key")
			p, err := s.w.StartPayment(t.Context(), s.d.UserID, s.d.OrderSN, providerName, call(s.d, fmt.Sprint(key)))
			switch contract.CodeOf(err) {
			case contract.CodeNotFound:
				require.Empty(t, s.last)
			case contract.CodeOrderNotPayable:
			default:
				require.NoError(t, err)
				if key == s.keys {
					s.keys++
					s.payments = append(s.payments, p)
				}
				require.Contains(t, s.payments, p)
			}
		},
		"success": func(t *rapid.T) {
			e := success(anyPayment(t).PaymentID)
			if rapid.IntRange(0, 3).Draw(t, "amount") == 0 {
				e.Amount += rapid.Int64Range(-10, 10).Draw(t, "off by")
				e.EventID = fmt.Sprintf("%s-%d", e.EventID, e.Amount)
			}
			_, err := s.w.Callback(t.Context(), e)
			require.NoError(t, err)
			if _, known := s.taken[e.PaymentID]; !known {
				s.taken[e.PaymentID] = e.Amount
			}
		},
		"failure": func(t *rapid.T) {
			_, err := s.w.Callback(t.Context(), failure(anyPayment(t).PaymentID))
			require.NoError(t, err)
		},
		"no stock": func(t *rapid.T) {
			r, err := s.w.RefundOrders(t.Context(), []string{s.d.OrderSN}, core.RefundNoStock)
			require.NoError(t, err)
			want := map[core.State]core.RefundOutcome{
				"": core.OrderIsUnknown, core.Pending: core.OrderNotPaid, core.Closed: core.OrderNotPaid,
				core.Paid: core.OrderRefunded, core.Refunded: core.OrderRefunded,
			}
			require.Equal(t, want[s.last], r[0].Outcome)
		},
		"time": func(t *rapid.T) {
			s.w.clock.advance(time.Duration(rapid.Int64Range(1, int64(25*time.Second)).Draw(t, "by")))
		},
		"refunds": func(t *rapid.T) {
			behaviour := rapid.IntRange(0, 2).Draw(t, "provider")
			s.w.provider.fail, s.w.provider.late = nil, nil
			switch behaviour {
			case 1:
				s.w.provider.fail = func(string) error { return errors.New("down") }
			case 2:
				s.w.provider.late = func(string) error { return errors.New("response lost") }
			}
			_, err := s.w.RefundDue(t.Context())
			require.NoError(t, err)
		},
		"sweep": func(t *rapid.T) {
			_, err := s.w.ResendClosings(t.Context())
			require.NoError(t, err)
		},
		"": func(t *rapid.T) { s.invariants(t) },
	}
}

// drawAnother makes rapid draw another action, since this one is not possible in the present state.
func drawAnother(action *rapid.T, why string) { action.Skip(why) }

// onceIn lets an action run once in n draws on average. It is for actions that would end most scenarios too early.
func onceIn(t *rapid.T, n int) {
	if rapid.IntRange(1, n).Draw(t, "seldom") != n {
		drawAnother(t, "seldom")
	}
}

func (s *scenario) check(t require.TestingT, r core.CloseResult, before core.State) {
	switch r.Outcome {
	case core.CloseUnknown:
		require.Empty(t, before)
		s.unknown = true
	case core.ClosePaid:
		require.Equal(t, core.Paid, before)
	case core.CloseRefunded:
		require.Equal(t, core.Refunded, before)
	case core.CloseClosed:
		require.Contains(t, []core.State{core.Pending, core.Closed}, before)
	case core.CloseNotDue, core.ClosePaying:
		require.Equal(t, core.Pending, before)
		require.True(t, r.At.After(s.w.clock.Now()), "in the future")
	}
}

var allowed = map[core.State][]core.State{
	"":            {"", core.Pending},
	core.Pending:  {core.Pending, core.Paid, core.Closed},
	core.Paid:     {core.Paid, core.Refunded},
	core.Closed:   {core.Closed},
	core.Refunded: {core.Refunded},
}

// invariants checks what must hold after every step.
func (s *scenario) invariants(t tb) {
	o, err := s.w.Order(t.Context(), s.d.UserID, s.d.OrderSN)
	if contract.CodeOf(err) != contract.CodeNotFound {
		require.NoError(t, err)
		require.False(t, s.unknown, "an order reported as unknown never exists")
	}
	require.Contains(t, allowed[s.last], o.State)
	s.last = o.State

	// Each payment that succeeded made its order paid, or is refunded in full, once.
	refunds := map[string]refund{}
	for _, r := range s.w.refunds(t, s.d.OrderSN) {
		refunds[r.PaymentID] = r
	}
	for _, p := range s.w.payments(t, s.d.OrderSN) {
		r, refunded := refunds[p.PaymentID]
		if p.State != core.PaymentSucceeded {
			require.False(t, refunded)
			require.NotContains(t, s.taken, p.PaymentID)
			continue
		}
		require.Equal(t, s.taken[p.PaymentID], p.PaidAmount)
		if o.State == core.Paid && o.PaidBy == p.PaymentID {
			require.False(t, refunded)
			require.EqualValues(t, fullAmount, p.PaidAmount)
			continue
		}
		require.True(t, refunded)
		require.Equal(t, p.PaidAmount, r.Amount)
		delete(refunds, p.PaymentID)
	}
	require.Empty(t, refunds, "no other payment is refunded")
	s.w.provider.mu.Lock()
	for id, amount := range s.w.provider.refunded {
		if _, mine := s.taken[id]; mine {
			require.Equal(t, s.taken[id], amount)
		}
	}
	s.w.provider.mu.Unlock()

	// Each transition is reported once, by an event in the outbox; a closing that inventory requested by its response.
	steps := map[contract.OrderEventType]int{}
	for _, e := range s.w.outbox(t) {
		if e.OrderSN == s.d.OrderSN {
			steps[e.Type]++
		}
	}
	want := map[contract.OrderEventType]int{}
	switch o.State {
	case core.Pending:
	case core.Paid:
		want[contract.OrderPaid] = 1
	case core.Closed:
		if o.CloseReason == core.ReasonCancelled {
			want[contract.OrderClosed] = 1
		}
	case core.Refunded:
		want[contract.OrderPaid], want[contract.OrderRefunded] = 1, 1
	}
	require.Equal(t, want, steps)
}

// settled checks what must hold after every refund has finished.
func (s *scenario) settled(t tb) {
	s.w.provider.fail, s.w.provider.late = nil, nil
	for range 12 {
		_, err := s.w.RefundDue(t.Context())
		require.NoError(t, err)
		s.w.clock.advance(20 * time.Minute)
	}
	for _, r := range s.w.refunds(t, s.d.OrderSN) {
		require.Equal(t, core.RefundDone, r.State)
		require.Equal(t, s.taken[r.PaymentID], s.w.provider.refunded[r.PaymentID])
	}
}

func TestAnyInterleavingKeepsTheInvariants(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		require.NoError(rt, db.Exec("DELETE FROM outbox").Error)
		n++
		s := &scenario{w: w, d: w.deduction(fmt.Sprintf("u%d", n)), taken: map[string]int64{}}
		rt.Repeat(s.actions())
		s.settled(rt)
		s.invariants(rt)
	})
}

// One order is cancelled, paid twice, closed and landed again concurrently: exactly one transition wins, and every
// payment either paid the order or is refunded.
func TestConcurrentStepsOfAnOrder(t *testing.T) {
	t.Parallel()
	const n = 40
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	scenarios := make([]*scenario, n)
	for i := range scenarios {
		s := &scenario{w: w, d: w.created(t, fmt.Sprintf("u%d", i)), taken: map[string]int64{}}
		for k := range 2 {
			s.payments = append(s.payments, w.started(t, s.d, fmt.Sprint(k)))
			s.taken[s.payments[k].PaymentID] = fullAmount
		}
		s.last = core.Pending
		scenarios[i] = s
	}
	w.clock.advance(payWithin + 120*time.Second)
	outcomes := map[core.State]int{}
	for _, s := range scenarios {
		start := make(chan struct{})
		var wg sync.WaitGroup
		together := func(name string, do func() error) {
			wg.Go(func() {
				<-start
				for {
					err := do()
					if contract.CodeOf(err) == contract.CodeUnavailable {
						continue // callers retry after 503
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					return
				}
			})
		}
		for _, p := range s.payments {
			for range 2 { // each event is sent twice concurrently
				together("callback", func() error { _, err := w.Callback(t.Context(), success(p.PaymentID)); return err })
			}
		}
		together("cancel", func() error {
			_, err := w.Cancel(t.Context(), s.d.UserID, s.d.OrderSN)
			if contract.CodeOf(err) == contract.CodeStateConflict {
				return nil
			}
			return err
		})
		for range 2 {
			together("close", func() error {
				r, err := w.CloseOrders(t.Context(), []string{s.d.OrderSN}, core.ReasonExpired)
				if err == nil && r[0].Outcome != core.ClosePaid && r[0].Outcome != core.CloseClosed {
					return fmt.Errorf("outcome %s", r[0].Outcome)
				}
				return err
			})
		}
		together("deduction", func() error { return w.Land(t.Context(), []contract.Deduction{s.d}, nil, nil) })
		close(start)
		wg.Wait()
		s.invariants(t)
		outcomes[s.last]++
	}
	t.Logf("outcomes: %v", outcomes)
	for _, s := range scenarios {
		s.settled(t)
		s.invariants(t)
	}
	require.Equal(t, n, outcomes[core.Paid]+outcomes[core.Closed])
}

// Of many concurrent calls with one Idempotency-Key, one starts a payment and all return it.
func TestConcurrentCallsWithOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	started := make(chan core.StartedPayment, 8)
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
				started <- p
				return
			}
		})
	}
	wg.Wait()
	first := <-started
	for range 7 {
		require.Equal(t, first, <-started)
	}
	require.Len(t, w.payments(t, d.OrderSN), 1)
}

// tb is a test, or one run of a property.
type tb interface {
	require.TestingT
	Helper()
	Context() context.Context
}
