package core_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

// earlySight is a store that first returns a payment and its order as they were when read was called.
type earlySight struct {
	core.Store
	payment core.Payment
	order   core.Order
	now     time.Time
	seen    bool
}

func (s *earlySight) read(t *testing.T, paymentID string) {
	t.Helper()
	require.NoError(t, s.Store.InTx(t.Context(), "test", func(tx core.Tx) (err error) {
		s.payment, s.order, s.now, err = tx.PaymentWithOrder(paymentID)
		return err
	}))
}

func (s *earlySight) InTx(ctx context.Context, name string, fn func(core.Tx) error) error {
	return s.Store.InTx(ctx, name, func(tx core.Tx) error { return fn(&earlySightTx{tx, s}) })
}

type earlySightTx struct {
	core.Tx
	store *earlySight
}

func (t *earlySightTx) PaymentWithOrder(paymentID string) (core.Payment, core.Order, time.Time, error) {
	if !t.store.seen {
		t.store.seen = true
		return t.store.payment, t.store.order, t.store.now, nil
	}
	return t.Tx.PaymentWithOrder(paymentID)
}

// Whatever is committed between a callback's first reading and its writes, its money pays the order or is refunded in
// full, once.
func TestACallbackDoesNotTrustWhatItRead(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		for name, tt := range map[string]struct {
			meanwhile func(t *testing.T, w *world, d contract.Deduction, e core.PaymentEvent)
			handled   core.Handled
			code      contract.Code
			state     core.State
			refunds   []string // their reasons
		}{
			"nothing": {
				func(*testing.T, *world, contract.Deduction, core.PaymentEvent) {},
				core.EventApplied, "", core.Paid, nil,
			},
			"cancelled": {func(t *testing.T, w *world, d contract.Deduction, _ core.PaymentEvent) {
				_, err := w.Cancel(t.Context(), d.UserID, d.OrderSN)
				require.NoError(t, err)
			}, core.EventApplied, "", core.Closed, []string{core.RefundCancelled}},
			"closed": {func(t *testing.T, w *world, d contract.Deduction, _ core.PaymentEvent) {
				w.clock.advance(payWithin + 120*time.Second)
				require.Equal(t, core.CloseClosed, w.close(t, core.ReasonExpired, d.OrderSN)[0].Outcome)
			}, core.EventApplied, "", core.Closed, []string{core.RefundLate}},
			"paid by another payment": {func(t *testing.T, w *world, d contract.Deduction, _ core.PaymentEvent) {
				w.succeed(t, w.started(t, d, "other").PaymentID)
			}, core.EventApplied, "", core.Paid, []string{core.RefundSecond}},
			"the same event": {func(t *testing.T, w *world, _ contract.Deduction, e core.PaymentEvent) {
				w.succeed(t, e.PaymentID)
			}, core.EventApplied, "", core.Paid, nil},
			"another event of the payment": {func(t *testing.T, w *world, _ contract.Deduction, e core.PaymentEvent) {
				e.EventID = "another-" + e.PaymentID
				_, err := w.Callback(t.Context(), e)
				require.NoError(t, err)
			}, core.EventIgnored, "", core.Paid, nil},
			"the payment took another amount": {func(t *testing.T, w *world, _ contract.Deduction, e core.PaymentEvent) {
				e.EventID, e.Amount = "another-"+e.PaymentID, e.Amount+1
				_, err := w.Callback(t.Context(), e)
				require.NoError(t, err)
			}, core.EventIgnored, "", core.Pending, []string{core.RefundWrongAmount}},
			"the payment failed": {func(t *testing.T, w *world, _ contract.Deduction, e core.PaymentEvent) {
				_, err := w.Callback(t.Context(), failure(e.PaymentID))
				require.NoError(t, err)
			}, core.EventApplied, "", core.Paid, nil},
			"the event_id was used": {func(t *testing.T, w *world, _ contract.Deduction, e core.PaymentEvent) {
				e.PaymentID = "1" // unknown
				_, err := w.Callback(t.Context(), e)
				require.NoError(t, err)
			}, "", contract.CodeStateConflict, core.Pending, nil},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, db)
				s := &earlySight{Store: store.New(db, telemetry.Discard(t), nil, store.WithClock(w.clock.Now))}
				early := w.serviceOn(t, s, w.provider)
				w.sn = time.Now().UnixNano() // the database has the orders of the other cases
				d := w.created(t, "u1")
				e := success(w.started(t, d, "k").PaymentID)
				s.read(t, e.PaymentID)
				require.Equal(t, d.OrderSN, s.order.OrderSN, "in the same statement")
				tt.meanwhile(t, w, d, e)

				for _, svc := range []*core.Service{early, w.Service} { // and repeated
					handled, err := svc.Callback(t.Context(), e)
					if tt.code == "" {
						require.NoError(t, err)
					} else {
						require.Equal(t, tt.code, contract.CodeOf(err))
					}
					require.Equal(t, tt.handled, handled)
					o := w.get(t, d)
					require.Equal(t, tt.state, o.State)
					var reasons []string
					for _, r := range o.Refunds {
						require.Equal(t, r.Amount, o.Payments[slices.IndexFunc(o.Payments, func(p core.Payment) bool {
							return p.PaymentID == r.PaymentID
						})].PaidAmount)
						reasons = append(reasons, r.Reason)
					}
					require.Equal(t, tt.refunds, reasons)
					paid := 0
					for _, event := range w.outbox(t) {
						if event.OrderSN == d.OrderSN && event.Type == contract.OrderPaid {
							paid++
						}
					}
					require.Equal(t, o.State == core.Paid, paid == 1)
					require.Less(t, paid, 2)
				}
			})
		}
	})
}

// Concurrent calls start no more payments for an order than permitted, and none after it was cancelled.
func TestConcurrentPaymentsAreBounded(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	var wg sync.WaitGroup
	for n := range 60 {
		wg.Go(func() {
			for {
				_, err := w.StartPayment(t.Context(), "u1", d.OrderSN, providerName, call(d, fmt.Sprint(n)))
				switch contract.CodeOf(err) {
				case contract.CodeUnavailable:
					continue // callers retry after 503
				case contract.CodeOrderNotPayable:
				default:
					if err != nil {
						t.Error(err)
					}
				}
				return
			}
		})
	}
	wg.Wait()
	require.Len(t, w.payments(t, d.OrderSN), 20)
}
