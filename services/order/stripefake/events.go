package stripefake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v86/webhook"
)

// sendTimeout bounds the delivery of an event.
const sendTimeout = 10 * time.Second

// Event is an event of the account, with its object as it was at the time.
type Event struct {
	ID, Type string
	Body     []byte
	sent     bool // it was accepted
}

// emit adds an event. key is the Idempotency-Key of the request that caused it.
func (s *Stripe) emit(kind string, object map[string]any, key string) {
	e := &Event{ID: s.id("evt"), Type: kind}
	var by map[string]any
	if key != "" {
		by = map[string]any{"id": "req_fake", "idempotency_key": key}
	}
	var err error
	e.Body, err = json.Marshal(map[string]any{
		"id": e.ID, "object": "event", "type": kind, "created": s.cfg.Now().Unix(), "request": by, "livemode": false,
		"api_version": "2025-10-29.clover", // of the endpoint, older than that of the SDK
		"data":        map[string]any{"object": object},
	})
	if err != nil {
		panic(err) // maps of plain values
	}
	s.events = append(s.events, e)
}

// Events returns the events of some types, of all without any, oldest first.
func (s *Stripe) Events(types ...string) (found []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		wanted := len(types) == 0
		for _, t := range types {
			wanted = wanted || t == e.Type
		}
		if wanted {
			found = append(found, *e)
		}
	}
	return found
}

// Headers returns the headers of a delivery of an event that was signed at a time.
func (s *Stripe) Headers(e Event, secret string, at time.Time) http.Header {
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: e.Body, Secret: secret, Timestamp: at})
	return http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Stripe-Signature": {signed.Header}}
}

// Send delivers an event once, and returns the status of the response.
func (s *Stripe) Send(ctx context.Context, target string, e Event) (int, error) {
	return s.SendSigned(ctx, target, e, s.cfg.Secret, s.cfg.Now())
}

// SendSigned delivers an event as another account would, or at another time.
func (s *Stripe) SendSigned(ctx context.Context, target string, e Event, secret string, at time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(e.Body))
	if err != nil {
		return 0, err
	}
	req.Header = s.Headers(e, secret, at)
	res, err := (&http.Client{Timeout: sendTimeout}).Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// Deliver delivers the events that were not accepted yet, each once, oldest first. Stripe repeats those that fail for
// days.
func (s *Stripe) Deliver(ctx context.Context, target string) error {
	var fails []error
	s.mu.Lock()
	var waiting []*Event
	for _, e := range s.events {
		if !e.sent {
			waiting = append(waiting, e)
		}
	}
	s.mu.Unlock()
	for _, e := range waiting {
		status, err := s.Send(ctx, target, Event{ID: e.ID, Type: e.Type, Body: e.Body})
		if err != nil || status >= 300 {
			fails = append(fails, errors.Join(fmt.Errorf("event %s got %d", e.Type, status), err))
			continue
		}
		s.mu.Lock()
		e.sent = true
		s.mu.Unlock()
	}
	return errors.Join(fails...)
}

// Pay pays a session as its buyer. It fails unless the session is open.
func (s *Stripe) Pay(sessionID string) error { return s.PayAmount(sessionID, 0) }

// PayAmount pays another amount than the session has; 0 for its own.
func (s *Stripe) PayAmount(sessionID string, amount int64) error {
	return s.attempt(sessionID, "succeeded", amount)
}

// Decline attempts to pay a session with a card that is declined. The session stays open.
func (s *Stripe) Decline(sessionID string) error { return s.attempt(sessionID, "failed", 0) }

func (s *Stripe) attempt(sessionID, status string, amount int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireDue()
	c := s.session(sessionID)
	if c == nil || c.status != "open" {
		return errors.New("the session is not open")
	}
	if amount > 0 {
		c.amount = amount
	}
	made := &charge{
		id: s.id("ch"), currency: c.currency, status: status, session: c, amount: c.amount, created: s.cfg.Now(),
	}
	s.charges = append(s.charges, made)
	if status == "failed" {
		s.emit("charge.failed", made.json(), "")
		s.emit("payment_intent.payment_failed", c.intentJSON(), "")
		return nil
	}
	c.status, c.payment = "complete", "paid"
	s.emit("charge.succeeded", made.json(), "")
	s.emit("payment_intent.succeeded", c.intentJSON(), "")
	s.emit("checkout.session.completed", c.json(), "")
	return nil
}

// RefundByHand refunds a part of a paid session in the dashboard; 0 for all of it.
func (s *Stripe) RefundByHand(sessionID string, amount int64) error {
	c, err := s.paid(sessionID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if amount == 0 {
		amount = c.amount - c.refunded
	}
	_, err = s.refund(c, amount, map[string]string{}, "")
	return err
}

// FailNextRefund has the next refund fail at once, as of a bank account that was closed.
func (s *Stripe) FailNextRefund() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = true
}

// SetEmpty sets whether the balance of the account is too small for any refund.
func (s *Stripe) SetEmpty(empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty = empty
}

// FailRefunds has the refunds of a session fail after they were made.
func (s *Stripe) FailRefunds(sessionID string) error {
	c, err := s.paid(sessionID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, r := range s.refunds {
		if r.charge == c && r.status == "succeeded" {
			r.status = "failed"
			c.refunded -= r.amount
			s.emit("charge.refund.updated", r.json(false), "")
			s.emit("refund.failed", r.json(false), "")
		}
	}
	return nil
}

// Dispute disputes the charge of a paid session as the bank of its buyer.
func (s *Stripe) Dispute(sessionID string) error {
	c, err := s.paid(sessionID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	c.disputed = true
	s.emit("charge.dispute.created", map[string]any{
		"id": s.id("dp"), "object": "dispute", "amount": c.amount, "currency": c.currency, "charge": c.id,
		"payment_intent": c.session.intent, "metadata": map[string]string{}, "status": "needs_response",
	}, "")
	return nil
}

// WinDispute ends the dispute of a session in favour of the account.
func (s *Stripe) WinDispute(sessionID string) error {
	c, err := s.paid(sessionID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	c.disputed = false
	return nil
}

// paid returns the charge of a session, and holds the lock unless it fails.
func (s *Stripe) paid(sessionID string) (*charge, error) {
	s.mu.Lock()
	if c := s.session(sessionID); c != nil {
		if taken := s.taken(c.intent); taken != nil {
			return taken, nil
		}
	}
	s.mu.Unlock()
	return nil, errors.New("the session is not paid")
}

// Taken is a charge with what was refunded of it.
type Taken struct {
	PaymentID, Currency string
	Amount, Refunded    int64
	Refunds             int // number of refunds that have not failed
	Disputed            bool
}

// Taken returns all charges that succeeded, oldest first.
func (s *Stripe) Taken() (all []Taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.charges {
		if c.status != "succeeded" {
			continue
		}
		t := Taken{
			PaymentID: c.session.intentMetadata["payment_id"], Currency: c.currency, Amount: c.amount, Refunded: c.refunded,
			Disputed: c.disputed,
		}
		for _, r := range s.refunds {
			if r.charge == c && r.status == "succeeded" {
				t.Refunds++
			}
		}
		all = append(all, t)
	}
	return all
}
