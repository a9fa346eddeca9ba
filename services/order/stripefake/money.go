package stripefake

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// session is a checkout session with its payment intent.
type session struct {
	id, url, currency, status, payment string // payment: unpaid or paid
	amount                             int64
	created, expires                   time.Time
	reference                          string
	metadata                           map[string]string

	intent         string
	intentMetadata map[string]string
}

type charge struct {
	id, currency, status string
	session              *session
	amount, refunded     int64
	created              time.Time
	disputed             bool
}

type refund struct {
	id, status string
	charge     *charge
	amount     int64
	created    time.Time
	metadata   map[string]string
}

// What Stripe takes of a currency, apart from its adapter: amounts that are multiples of a number.
var multiples = map[string]int64{"ugx": 100, "isk": 100, "bhd": 10, "jod": 10, "kwd": 10, "omr": 10, "tnd": 10}

var currenciesOf = map[string]string{
	"alipay":     "aud cad cny eur gbp hkd jpy myr nzd sgd usd",
	"wechat_pay": "aud cad chf cny dkk eur gbp hkd jpy nok sek sgd usd",
}

// maxAmount is the largest amount of most currencies: eight digits.
const maxAmount = 99_999_999

func (s *Stripe) createSession(r request) (any, error) {
	now := s.cfg.Now()
	const item = "line_items[0][price_data]"
	amount, err := strconv.ParseInt(r.param(item+"[unit_amount]"), 10, 64)
	currency := r.param(item + "[currency]")
	expires, errExpires := strconv.ParseInt(r.param("expires_at"), 10, 64)
	back, errURL := url.Parse(r.param("success_url"))
	switch {
	case r.param("mode") != "payment" || r.param(item+"[product_data][name]") == "" || r.param("line_items[0][quantity]") != "1":
		return nil, invalid("parameter_missing", "Missing required param: mode, name or quantity")
	case err != nil || amount < 1:
		return nil, invalid("parameter_invalid_integer", "Invalid integer: unit_amount")
	case errURL != nil || back.Host == "":
		return nil, invalid("url_invalid", "Not a valid URL")
	case errExpires != nil || time.Unix(expires, 0).Before(now.Add(30*time.Minute).Truncate(time.Second)) ||
		time.Unix(expires, 0).After(now.Add(24*time.Hour)):
		return nil, invalid("parameter_invalid_integer",
			"The `expires_at` timestamp must be at least 30 minutes and at most 24 hours from Checkout Session creation.")
	case len(currency) != 3 || strings.ToLower(currency) != currency:
		return nil, invalid("parameter_invalid_empty", "Invalid currency: %s", currency)
	case amount > maxAmount && currency != "idr":
		return nil, invalid("amount_too_large", "The amount must be no more than 999,999.99")
	case amount < 50 && (currency == "eur" || currency == "usd"):
		return nil, invalid("amount_too_small", "The total amount due must add up to at least 50 cents.")
	case amount%cmp.Or(multiples[currency], 1) != 0:
		return nil, invalid("parameter_invalid_integer", "Invalid amount of %s: must end in zeros", currency)
	}
	for name := range r.Form {
		method := r.param(name)
		if !strings.HasPrefix(name, "payment_method_types[") || method == "card" {
			continue
		}
		if !slices.Contains(s.cfg.Methods, method) || !strings.Contains(currenciesOf[method], currency) {
			return nil, invalid("parameter_unknown", "The payment method type provided: %s is invalid for %s.", method, currency)
		}
		if method == "wechat_pay" && r.param("payment_method_options[wechat_pay][client]") == "" {
			return nil, invalid("parameter_missing", "payment_method_options[wechat_pay][client] is required")
		}
	}
	made := &session{
		id: s.id("cs_test"), currency: currency, status: "open", payment: "unpaid", amount: amount, created: now,
		expires: time.Unix(expires, 0), reference: r.param("client_reference_id"), metadata: r.metadata("metadata"),
		intent: s.id("pi"), intentMetadata: r.metadata("payment_intent_data[metadata]"),
	}
	made.url = "http://" + r.Host + "/pay/" + made.id
	s.sessions = append(s.sessions, made)
	return made.json(), nil
}

func (c *session) json() map[string]any {
	var intent, page any
	if c.payment == "paid" {
		intent = c.intent
	}
	if c.status == "open" {
		page = c.url
	}
	return map[string]any{
		"id": c.id, "object": "checkout.session", "url": page, "status": c.status, "payment_status": c.payment,
		"amount_total": c.amount, "currency": c.currency, "created": c.created.Unix(), "expires_at": c.expires.Unix(),
		"client_reference_id": c.reference, "metadata": c.metadata, "payment_intent": intent, "mode": "payment",
	}
}

func (c *session) intentJSON() map[string]any {
	status := "requires_payment_method"
	if c.payment == "paid" {
		status = "succeeded"
	}
	return map[string]any{
		"id": c.intent, "object": "payment_intent", "status": status, "amount": c.amount, "currency": c.currency,
		"created": c.created.Unix(), "metadata": c.intentMetadata,
	}
}

func (c *charge) json() map[string]any {
	return map[string]any{
		"id": c.id, "object": "charge", "status": c.status, "paid": c.status == "succeeded", "captured": c.status == "succeeded",
		"amount": c.amount, "amount_captured": c.amount, "amount_refunded": c.refunded, "refunded": c.refunded == c.amount,
		"currency": c.currency, "created": c.created.Unix(), "payment_intent": c.session.intent, "disputed": c.disputed,
		"metadata": c.session.intentMetadata,
	}
}

func (r *refund) json(expanded bool) map[string]any {
	var of any = r.charge.id
	if expanded {
		of = r.charge.json()
	}
	return map[string]any{
		"id": r.id, "object": "refund", "status": r.status, "amount": r.amount, "currency": r.charge.currency, "charge": of,
		"payment_intent": r.charge.session.intent, "created": r.created.Unix(), "metadata": r.metadata,
	}
}

func (s *Stripe) session(id string) *session {
	for _, c := range s.sessions {
		if c.id == id || c.intent == id {
			return c
		}
	}
	return nil
}

func (s *Stripe) getSession(r request) (any, error) {
	c := s.session(r.PathValue("id"))
	if c == nil {
		return nil, missing("checkout.session", r.PathValue("id"))
	}
	return c.json(), nil
}

func (s *Stripe) getIntent(r request) (any, error) {
	c := s.session(r.PathValue("id"))
	if c == nil {
		return nil, missing("payment_intent", r.PathValue("id"))
	}
	return c.intentJSON(), nil
}

func (s *Stripe) expireSession(r request) (any, error) {
	c := s.session(r.PathValue("id"))
	switch {
	case c == nil:
		return nil, missing("checkout.session", r.PathValue("id"))
	case c.status != "open":
		return nil, invalid("", "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of `%s`.", c.status)
	}
	c.status = "expired"
	s.emit("checkout.session.expired", c.json(), r.key)
	return c.json(), nil
}

// expireDue expires the sessions whose time has come.
func (s *Stripe) expireDue() {
	for _, c := range s.sessions {
		if c.status == "open" && !s.cfg.Now().Before(c.expires) {
			c.status = "expired"
			s.emit("checkout.session.expired", c.json(), "")
		}
	}
}

// taken returns the charge of an intent that succeeded.
func (s *Stripe) taken(intent string) *charge {
	for _, c := range s.charges {
		if c.session.intent == intent && c.status == "succeeded" {
			return c
		}
	}
	return nil
}

func (s *Stripe) createRefund(r request) (any, error) {
	of := r.param("payment_intent")
	if s.session(of) == nil {
		return nil, missingParam("payment_intent", of)
	}
	c := s.taken(of)
	if c == nil {
		return nil, invalid("", "This PaymentIntent does not have a successful charge to refund.")
	}
	amount := c.amount - c.refunded
	if given := r.param("amount"); given != "" {
		n, err := strconv.ParseInt(given, 10, 64)
		if err != nil || n < 1 {
			return nil, invalid("parameter_invalid_integer", "Invalid integer: %s", given)
		}
		amount = n
	}
	made, err := s.refund(c, amount, r.metadata("metadata"), r.key)
	if err != nil {
		return nil, err
	}
	return made.json(false), nil
}

func (s *Stripe) refund(c *charge, amount int64, metadata map[string]string, key string) (*refund, error) {
	switch {
	case s.empty:
		return nil, invalid("balance_insufficient", "Insufficient funds in your Stripe balance to refund this amount.")
	case c.disputed:
		return nil, invalid("charge_disputed", "Charge %s has been charged back; cannot issue a refund.", c.id)
	case c.refunded == c.amount:
		return nil, invalid("charge_already_refunded", "Charge %s has already been refunded.", c.id)
	case amount > c.amount-c.refunded:
		return nil, invalid("", "Refund amount (%d) is greater than unrefunded amount on charge (%d)", amount, c.amount-c.refunded)
	}
	made := &refund{id: s.id("re"), status: "succeeded", charge: c, amount: amount, created: s.cfg.Now(), metadata: metadata}
	s.refunds = append(s.refunds, made)
	s.emit("refund.created", made.json(false), key)
	if s.failing {
		s.failing, made.status = false, "failed"
		s.emit("refund.failed", made.json(false), key)
		return made, nil
	}
	c.refunded += amount
	s.emit("charge.refunded", c.json(), key)
	return made, nil
}

func (s *Stripe) listCharges(r request) (any, error) {
	if of := r.param("payment_intent"); of != "" && s.session(of) == nil {
		return nil, missingParam("payment_intent", of)
	}
	return list(r, "/v1/charges", s.charges, func(c *charge) (string, time.Time, string, map[string]any) {
		return c.id, c.created, c.session.intent, c.json()
	})
}

func (s *Stripe) listRefunds(r request) (any, error) {
	if of := r.param("payment_intent"); of != "" && s.session(of) == nil {
		return nil, missingParam("payment_intent", of)
	}
	expanded := r.param("expand[0]") == "data.charge"
	return list(r, "/v1/refunds", s.refunds, func(made *refund) (string, time.Time, string, map[string]any) {
		return made.id, made.created, made.charge.session.intent, made.json(expanded)
	})
}

// list returns a page, newest first.
func list[T any](
	r request, path string, all []T, of func(T) (id string, created time.Time, intent string, object map[string]any),
) (any, error) {
	limit, after := 10, r.param("starting_after")
	if given := r.param("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("parameter_invalid_integer", "Invalid limit: %s", given)
		}
		limit = n
	}
	since, _ := strconv.ParseInt(cmp.Or(r.param("created[gte]"), "0"), 10, 64)
	page, more, seen := []map[string]any{}, false, after == ""
	for _, item := range slices.Backward(all) {
		id, created, intent, object := of(item)
		switch {
		case !seen:
			seen = id == after
		case created.Unix() < since || r.param("payment_intent") != "" && intent != r.param("payment_intent"):
		case len(page) == limit:
			more = true
		default:
			page = append(page, object)
		}
	}
	if !seen {
		return nil, &refusal{http.StatusBadRequest, "invalid_request_error", "resource_missing", "No such object: '" + after + "'"}
	}
	return map[string]any{"object": "list", "url": path, "has_more": more, "data": page}, nil
}
