package order_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/stripefake"
)

const (
	stripeKey    = "sk_test_ofTheAccount"
	stripeSecret = "whsec_of_the_endpoint_of_order"
	payStripe    = `{"provider":"stripe"}`
)

// till is a service whose payments the fake of Stripe takes.
type till struct {
	*running
	*stripefake.Stripe
	cfg      order.Payments
	endpoint string // of its events
}

func withStripe(t *testing.T, db *gorm.DB) *till {
	t.Helper()
	s := &till{Stripe: stripefake.New(stripefake.Config{Key: stripeKey, Secret: stripeSecret, Now: time.Now, Rate: 1000})}
	srv := httptest.NewServer(s.Stripe)
	t.Cleanup(srv.Close)
	s.running = run(t, db, func(c *order.Config, _ *order.Deps) {
		s.endpoint = strings.TrimSuffix(c.Payments.SandboxCallbackURL, "sandbox") + "stripe"
		c.PaymentGrace = time.Second
		c.Payments = order.Payments{
			Payments: settings.Payments{Providers: []string{"stripe"}}, PaymentRate: settings.PaymentRate{Rate: 1000},
			StripeKey: stripeKey, StripeWebhookSecrets: []string{"whsec_the_next_one_of_order", stripeSecret},
			StripeMethods: []string{"card"}, StripeAPIURL: srv.URL, PublicURL: "https://shop.example.com",
		}
		s.cfg = c.Payments
	})
	return s
}

// purchase is an order with a payment that was begun.
type purchase struct {
	contract.Deduction
	payment, session string
}

func (s *till) begin(d contract.Deduction, key string) response {
	return s.call("POST", "/v1/orders/"+d.OrderSN+"/payments", d.UserID, payStripe, "Idempotency-Key", key)
}

func (s *till) begun(d contract.Deduction, key string) purchase {
	s.t.Helper()
	a := s.begin(d, key)
	require.Equal(s.t, 201, a.status, a.raw)
	page := a.body["pay_url"].(string)
	return purchase{d, a.body["payment_id"].(string), page[strings.LastIndex(page, "/")+1:]}
}

func (s *till) bought() purchase { s.t.Helper(); return s.begun(s.created("u1"), "k") }

// reported delivers all events that were not accepted.
func (s *till) reported() { s.t.Helper(); require.NoError(s.t, s.Deliver(s.t.Context(), s.endpoint)) }

func (s *till) success(p purchase) stripefake.Event {
	s.t.Helper()
	for _, e := range s.Events("checkout.session.completed") {
		if strings.Contains(string(e.Body), p.session) {
			return e
		}
	}
	require.FailNow(s.t, "not paid")
	return stripefake.Event{}
}

func (s *till) send(e stripefake.Event) int {
	s.t.Helper()
	status, err := s.Send(s.t.Context(), s.endpoint, e)
	require.NoError(s.t, err)
	return status
}

// expire closes an order whose time has passed, as inventory does.
func (s *till) expire(p purchase) {
	s.t.Helper()
	require.NoError(s.t, s.db.Exec("UPDATE orders SET expires_at = created_at WHERE order_sn = ?", p.OrderSN).Error)
	eventually(s.t, func() bool {
		a := s.callInternal("/internal/v1/orders:close", settings.DevelopmentInternalSecret,
			fmt.Sprintf(`{"order_sns":[%q],"reason":"expired"}`, p.OrderSN))
		require.Equal(s.t, 200, a.status, a.raw)
		return s.order(p.Deduction)["state"] == "closed"
	}, "the order is closed")
}

func (s *till) cancel(p purchase) {
	s.t.Helper()
	require.Equal(s.t, 200, s.call("POST", "/v1/orders/"+p.OrderSN+"/cancel", p.UserID, "").status)
}

// ended waits until Stripe was requested to end the payments of closed orders.
func (s *till) ended() {
	s.t.Helper()
	eventually(s.t, func() bool {
		var n int64
		require.NoError(s.t, s.db.Table("payments").Where("cancel_at IS NOT NULL").Count(&n).Error)
		return n == 0
	}, "payments of closed orders are ended")
}

// reconcile compares all that Stripe has with the database.
func (s *till) reconcile() string {
	s.t.Helper()
	var out strings.Builder
	err := order.ReconcilePayments(s.t.Context(), s.cfg, order.Deps{DB: s.db, Telemetry: telemetry.Discard(s.t)},
		time.Now().Add(-time.Hour), false, &out)
	require.NoError(s.t, err)
	return out.String()
}

// once has the next POST to a path meet a fault.
func (s *till) once(path string, f stripefake.Fault) {
	met := false
	s.SetFault(func(method, p string) stripefake.Fault {
		if met || method != http.MethodPost || p != path {
			return stripefake.FaultNone
		}
		met = true
		return f
	})
}

const (
	sessionsPath = "/v1/checkout/sessions"
	refundsPath  = "/v1/refunds"
)

// Of each charge of Stripe: it pays one order and is kept, or it was returned in full by one refund. Exceptions are
// what the dashboard returned in part, and what a bank disputes.
func TestEachChargePaysOneOrderOrIsRefundedOnce(t *testing.T) {
	db := ordertest.MariaDB(t)
	type result struct {
		charges, paid, refunds int
		order                  string // state of the order
	}
	paid, refunded, unpaid := result{1, 1, 0, "paid"}, result{1, 0, 1, "closed"}, result{0, 0, 0, "pending"}
	for _, c := range []struct {
		name string
		want result
		run  func(s *till) purchase
	}{
		{"in time", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			return p
		}},
		{"twice", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			require.Equal(s.t, []int{204, 204}, []int{s.send(s.success(p)), s.send(s.success(p))})
			return p
		}},
		{"reversed", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Decline(p.session))
			require.NoError(s.t, s.Pay(p.session))
			all := s.Events()
			for i := len(all) - 1; i >= 0; i-- {
				require.Equal(s.t, 204, s.send(all[i]), all[i].Type)
			}
			return p
		}},
		{"lost", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			require.Contains(s.t, s.reconcile(), "paid=1")
			return p
		}},
		{"late", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.expire(p)
			return p
		}},
		{"late and twice", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.expire(p)
			require.Equal(s.t, []int{204, 204}, []int{s.send(s.success(p)), s.send(s.success(p))})
			return p
		}},
		{"late and lost", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.expire(p)
			require.Contains(s.t, s.reconcile(), "refunded=1")
			return p
		}},
		{"after a cancellation", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.cancel(p)
			s.ended()
			return p
		}},
		{"a wrong signature first", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			status, err := s.SendSigned(s.t.Context(), s.endpoint, s.success(p), "whsec_of_somebody_else", time.Now())
			require.NoError(s.t, err)
			require.Equal(s.t, []any{401, "pending"}, []any{status, s.order(p.Deduction)["state"]})
			return p
		}},
		{"an old signature first", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			status, err := s.SendSigned(s.t.Context(), s.endpoint, s.success(p), stripeSecret, time.Now().Add(-6*time.Minute))
			require.NoError(s.t, err)
			require.Equal(s.t, []any{401, "pending"}, []any{status, s.order(p.Deduction)["state"]})
			return p
		}},
		{"a wrong amount", result{1, 0, 1, "pending"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.PayAmount(p.session, 699))
			return p
		}},
		{"two payments of an order", result{2, 1, 1, "paid"}, func(s *till) purchase {
			p := s.bought()
			second := s.begun(p.Deduction, "k2")
			require.NoError(s.t, s.Pay(p.session))
			require.NoError(s.t, s.Pay(second.session))
			return p
		}},
		{"a declined card first", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Decline(p.session))
			s.reported()
			require.Equal(s.t, "started", s.call("GET", "/v1/payments/"+p.payment, p.UserID, "").body["state"])
			require.NoError(s.t, s.Pay(p.session))
			return p
		}},
		{"expired before the buyer pays", result{0, 0, 0, "closed"}, func(s *till) purchase {
			p := s.bought()
			s.expire(p)
			s.ended()
			require.Error(s.t, s.Pay(p.session))
			s.reported()
			require.Equal(s.t, "failed", s.call("GET", "/v1/payments/"+p.payment, p.UserID, "").body["state"])
			return p
		}},
		{"expired after the buyer has paid", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.expire(p)
			s.ended() // Stripe does not expire what is paid
			return p
		}},
		{"another payment after an ended one", result{1, 1, 0, "paid"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.db.Exec("UPDATE payments SET state = 'failed' WHERE payment_id = ?", p.payment).Error)
			second := s.begun(p.Deduction, "k2")
			require.NoError(s.t, s.Pay(second.session))
			return p
		}},
		{"refunded by order", result{1, 0, 1, "refunded"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.reported()
			a := s.callInternal("/internal/v1/orders:refund", settings.DevelopmentInternalSecret,
				`{"order_sns":["`+p.OrderSN+`"],"reason":"no_stock"}`)
			require.Equal(s.t, 200, a.status, a.raw)
			return p
		}},
		{"refunded in part by hand", result{1, 1, 1, "paid"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.reported()
			require.NoError(s.t, s.RefundByHand(p.session, 100))
			return p
		}},
		{"refunded in full by hand", result{1, 0, 1, "refunded"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.reported()
			require.NoError(s.t, s.RefundByHand(p.session, 0))
			require.Contains(s.t, s.reconcile(), "recorded=1")
			return p
		}},
		{"refunded by hand before order does", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			require.NoError(s.t, s.RefundByHand(p.session, 0))
			s.expire(p)
			return p
		}},
		{"sent back by the bank after the refund", result{1, 0, 0, "closed"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.expire(p)
			s.reported()
			eventually(s.t, func() bool { return s.refund(p) == "refunded" }, "the refund is made")
			require.NoError(s.t, s.FailRefunds(p.session))
			s.reported()
			require.Equal(s.t, "refund_failed", s.refund(p), "an operator decides")
			return p
		}},
		{"disputed", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			require.NoError(s.t, s.Dispute(p.session))
			return p
		}},
		{"disputed and late", result{1, 0, 0, "closed"}, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			require.NoError(s.t, s.Dispute(p.session))
			s.expire(p)
			s.reported()
			eventually(s.t, func() bool { return s.refund(p) == "refund_failed" }, "an operator decides")
			return p
		}},
		{"busy at the beginning", paid, func(s *till) purchase {
			d := s.created("u1")
			s.once(sessionsPath, stripefake.FaultBusy)
			a := s.begin(d, "k")
			require.Equal(s.t, []any{503, "provider_busy"}, []any{a.status, a.code()}, a.raw)
			require.NotEmpty(s.t, a.header.Get("Retry-After"))
			p := s.begun(d, "k")
			require.NoError(s.t, s.Pay(p.session))
			return p
		}},
		{"busy at the refund", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.once(refundsPath, stripefake.FaultLocked)
			s.expire(p)
			return p
		}},
		{"500 after the beginning", paid, func(s *till) purchase {
			d := s.created("u1")
			s.once(sessionsPath, stripefake.FaultAfter)
			require.Equal(s.t, 503, s.begin(d, "k").status)
			a := s.begin(d, "k") // Stripe repeats its 500: this payment will never have a page
			require.Equal(s.t, []any{409, "order_not_payable"}, []any{a.status, a.code()}, a.raw)
			p := s.begun(d, "another")
			require.NoError(s.t, s.Pay(p.session))
			return p
		}},
		{"500 after the refund", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.once(refundsPath, stripefake.FaultAfter)
			s.expire(p)
			return p
		}},
		{"500 instead of the refund", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.once(refundsPath, stripefake.FaultBefore)
			s.expire(p)
			return p
		}},
		{"the response to the refund is lost", refunded, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			s.once(refundsPath, stripefake.FaultLost)
			s.expire(p)
			return p
		}},
		{"another use of the account", unpaid, func(s *till) purchase {
			p := s.bought()
			e := stripefake.Event{Body: []byte(`{"object":"event","id":"evt_x","type":"checkout.session.completed",` +
				`"data":{"object":{"payment_status":"paid","amount_total":700,"currency":"eur","metadata":{}}}}`)}
			require.Equal(s.t, 204, s.send(e))
			e.Body = []byte(strings.Replace(string(e.Body), `"metadata":{}`, `"metadata":{"payment_id":"77"}`, 1))
			require.Equal(s.t, 204, s.send(e), "of another installation")
			e.Body = []byte(strings.Replace(string(e.Body), `"77"`, `"77","installation":"shop.example.com"`, 1))
			require.Equal(s.t, 202, s.send(e), "an incident: a payment that does not exist")
			return p
		}},
		{"the payment is lost here", paid, func(s *till) purchase {
			p := s.bought()
			require.NoError(s.t, s.Pay(p.session))
			require.NoError(s.t, s.db.Exec("DELETE FROM payments WHERE payment_id = ?", p.payment).Error)
			require.Contains(s.t, s.reconcile(), "paid=1")
			return p
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := withStripe(t, db)
			p := c.run(s)
			s.reported()
			eventually(t, func() bool {
				// It may deadlock with an attempt, which locks the rows in another order.
				if s.db.Exec("UPDATE refunds SET next_attempt_at = created_at WHERE state = 'refund_pending'").Error != nil {
					return false
				}
				var n int64
				require.NoError(t, s.db.Table("refunds").Where("state = 'refund_pending'").Count(&n).Error)
				return n == 0
			}, "refunds are made")
			s.reported()
			got := result{order: s.order(p.Deduction)["state"].(string)}
			for _, charge := range s.Taken() {
				var pays int64
				require.NoError(t, s.db.Table("orders").Where("paid_by = ? AND state = 'paid'", charge.PaymentID).Count(&pays).Error)
				got.charges, got.paid, got.refunds = got.charges+1, got.paid+int(pays), got.refunds+charge.Refunds
				require.True(t, charge.Disputed || charge.Refunded == charge.Amount && pays == 0 || pays == 1 ||
					s.refund(p) == "refund_failed", "%+v", charge)
				require.LessOrEqual(t, charge.Refunds, 1)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// refund returns the state of the refund of a payment.
func (s *till) refund(p purchase) (state string) {
	s.t.Helper()
	require.NoError(s.t, s.db.Table("refunds").Select("state").Where("payment_id = ?", p.payment).Find(&state).Error)
	return state
}
