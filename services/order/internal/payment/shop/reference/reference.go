// Package reference is a shop that takes payments as api/shopapi/openapi.yaml describes it, in memory. Tests run the
// provider against it, and it shows shops what to build.
package reference

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"flashsale.internal/services/order/api/shopapi"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
)

const maxBody = 64 << 10 // bytes

// Shop takes payments. It is safe for concurrent use.
type Shop struct {
	secrets     []string
	callbackURL string
	now         func() time.Time
	client      *http.Client

	mu        sync.Mutex
	charges   []shopapi.Charge
	refunds   []shopapi.Refund
	cancelled map[string]bool
}

var _ shopapi.ServerInterface = (*Shop)(nil)

// New returns a shop that sends its callbacks to a URL.
func New(secrets []string, callbackURL string, now func() time.Time) *Shop {
	return &Shop{
		secrets: secrets, callbackURL: callbackURL, now: now, client: &http.Client{Timeout: 10 * time.Second},
		cancelled: map[string]bool{},
	}
}

// Handler returns the routes, and the checkout page at /checkout.
func (s *Shop) Handler() http.Handler {
	r := chi.NewRouter()
	r.Post("/checkout", s.checkout)
	r.Group(func(r chi.Router) {
		r.Use(s.signed)
		shopapi.HandlerFromMux(s, r)
	})
	return r
}

// signed refuses requests without a valid signature.
func (s *Shop) signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = payment.Verify(s.secrets, r.Header.Get(payment.Header), payment.RequestText(r, body), s.now())
		}
		if err != nil {
			problem(w, http.StatusUnauthorized, "unauthenticated", err.Error())
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// checkout takes a payment at once, as the buyer would after a form.
func (s *Shop) checkout(w http.ResponseWriter, r *http.Request) {
	text, _, _ := strings.Cut(r.URL.RawQuery, "&signature=")
	query := r.URL.Query()
	created, _, _ := strings.Cut(strings.TrimPrefix(query.Get("signature"), "t="), ",")
	unix, _ := strconv.ParseInt(created, 10, 64)
	// The signature has the time of the payment's creation. How long the page is valid depends on expires.
	if err := payment.Verify(s.secrets, query.Get("signature"), []byte(text), time.Unix(unix, 0)); err != nil {
		problem(w, http.StatusUnauthorized, "unauthenticated", err.Error())
		return
	}
	amount, errAmount := strconv.ParseInt(query.Get("amount"), 10, 64)
	expires, errExpires := strconv.ParseInt(query.Get("expires"), 10, 64)
	if errAmount != nil || errExpires != nil || amount < 1 {
		problem(w, http.StatusBadRequest, "invalid_request", "amount or expires is not valid")
		return
	}
	c, err := s.take(query, amount, time.Unix(expires, 0))
	if err != nil {
		problem(w, http.StatusConflict, "not_payable", err.Error())
		return
	}
	if err := s.report(r.Context(), c); err != nil {
		problem(w, http.StatusBadGateway, "callback_failed", err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// take takes a payment once, and returns its charge, also that of a payment that was taken before.
func (s *Shop) take(query url.Values, amount int64, expires time.Time) (shopapi.Charge, error) {
	id := query.Get("payment_id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, taken := s.charge(id); taken {
		return c, nil
	}
	if s.cancelled[id] || !s.now().Before(expires) {
		return shopapi.Charge{}, fmt.Errorf("payment %s was cancelled or has expired", id)
	}
	c := shopapi.Charge{
		PaymentId: id, OrderSn: query.Get("order_sn"), Amount: amount, Currency: query.Get("currency"),
		CreatedAt: s.now().UTC(),
	}
	s.charges = append(s.charges, c)
	return c, nil
}

// report sends the callback of a charge. A shop repeats it until it is accepted; here the buyer repeats the payment.
func (s *Shop) report(ctx context.Context, c shopapi.Charge) error {
	body, err := json.Marshal(payment.Event{
		EventID: "paid-" + c.PaymentId, PaymentID: c.PaymentId, Outcome: string(core.OutcomeSucceeded), Amount: &c.Amount,
		Currency: c.Currency,
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.callbackURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(payment.Header, payment.Sign(s.secrets[0], body, s.now()))
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode >= 300 {
		return fmt.Errorf("callback got %s", res.Status)
	}
	return nil
}

func (s *Shop) charge(paymentID string) (shopapi.Charge, bool) {
	for _, c := range s.charges {
		if c.PaymentId == paymentID {
			return c, true
		}
	}
	return shopapi.Charge{}, false
}

func (s *Shop) refund(paymentID string) (shopapi.Refund, bool) {
	for _, r := range s.refunds {
		if r.PaymentId == paymentID {
			return r, true
		}
	}
	return shopapi.Refund{}, false
}

// CancelPayment implements shopapi.ServerInterface.
func (s *Shop) CancelPayment(w http.ResponseWriter, _ *http.Request, paymentID string) {
	s.mu.Lock()
	s.cancelled[paymentID] = true
	s.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// RefundPayment implements shopapi.ServerInterface.
func (s *Shop) RefundPayment(w http.ResponseWriter, r *http.Request, paymentID string) {
	var want shopapi.Money
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		problem(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, taken := s.charge(paymentID)
	made, done := s.refund(paymentID)
	switch {
	case !taken || c.Amount != want.Amount || c.Currency != want.Currency:
		problem(w, http.StatusConflict, "refund_declined", "nothing or another amount was taken")
		return
	case !done:
		made = shopapi.Refund{PaymentId: paymentID, Amount: want.Amount, Currency: want.Currency, CreatedAt: s.now().UTC()}
		s.refunds = append(s.refunds, made)
	}
	respond(w, http.StatusOK, made)
}

// GetRefund implements shopapi.ServerInterface.
func (s *Shop) GetRefund(w http.ResponseWriter, _ *http.Request, paymentID string) {
	s.mu.Lock()
	made, done := s.refund(paymentID)
	s.mu.Unlock()
	if !done {
		problem(w, http.StatusNotFound, "not_found", "there is no refund of this payment")
		return
	}
	respond(w, http.StatusOK, made)
}

// ListCharges implements shopapi.ServerInterface.
func (s *Shop) ListCharges(w http.ResponseWriter, _ *http.Request, q shopapi.ListChargesParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list(w, s.charges, q.Cursor, q.Limit, func(c shopapi.Charge) bool {
		return !c.CreatedAt.Before(q.Since) && (q.PaymentId == nil || c.PaymentId == *q.PaymentId)
	})
}

// ListRefunds implements shopapi.ServerInterface.
func (s *Shop) ListRefunds(w http.ResponseWriter, _ *http.Request, q shopapi.ListRefundsParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list(w, s.refunds, q.Cursor, q.Limit, func(r shopapi.Refund) bool { return !r.CreatedAt.Before(q.Since) })
}

// list responds with a page. A cursor is the index of its first element: elements are only added, at the end.
func list[T any](w http.ResponseWriter, all []T, cursor *string, limit *int, wanted func(T) bool) {
	first, most := 0, 100
	if cursor != nil {
		first, _ = strconv.Atoi(*cursor)
	}
	if limit != nil {
		most = *limit
	}
	page := struct {
		Items      []T    `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}{Items: []T{}}
	for i := max(first, 0); i < len(all); i++ {
		if len(page.Items) == most {
			page.NextCursor = strconv.Itoa(i)
			break
		}
		if wanted(all[i]) {
			page.Items = append(page.Items, all[i])
		}
	}
	respond(w, http.StatusOK, page)
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(shopapi.Problem{Code: code, Detail: &detail})
}
