package sim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// provider is the payment provider of a sale that is a node of its own: the shop's checkout, which order calls by HTTP.
// The zero value is none: then the sandbox of order takes the payments.
type provider struct {
	rate  float64 // of the calls that get each kind of error
	paced bool    // order makes no more than two calls of a kind a second
}

func (p provider) happens() bool { return p.rate > 0 }

// addProvider adds the provider, whose errors depend on no other feature.
func (s *sale) addProvider(r *rand.Rand) {
	s.provider = provider{rate: []float64{0.02, 0.1, 0.3}[r.IntN(3)], paced: r.IntN(2) == 0}
}

const (
	providerHost   = "checkout"
	providerSecret = "a-secret-that-checkout-and-order-share"
)

// paymentSettings sets the payment providers of order.
func (w *world) paymentSettings(env map[string]string) {
	if !w.sale.provider.happens() {
		env["PAYMENT_PROVIDERS"] = "sandbox"
		env["PAYMENTS_SANDBOX_CALLBACK_URL"] = "http://order/v1/payments/callbacks/sandbox"
		return
	}
	env["PAYMENT_PROVIDERS"], env["PAYMENTS_SHOP_SECRET"] = "shop", providerSecret
	env["PAYMENTS_SHOP_CHECKOUT_URL"], env["PAYMENTS_SHOP_API_URL"] = "http://"+providerHost+"/pay", "http://"+providerHost
	if w.sale.provider.paced {
		env["PAYMENT_RATE"] = "2"
	}
}

// providerName returns the name of the provider in the API.
func (w *world) providerName() string {
	if w.sale.provider.happens() {
		return "shop"
	}
	return "sandbox"
}

// checkout is the state of the provider.
type checkout struct {
	w *world

	mu        sync.Mutex
	pages     map[string]charge // by payment_id, what the signed URLs offer
	charges   []charge
	refunds   []charge
	cancelled map[string]bool
}

// charge is a charge, and a refund without its order.
type charge struct {
	PaymentID string    `json:"payment_id"`
	OrderSN   string    `json:"order_sn,omitempty"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	CreatedAt time.Time `json:"created_at"`

	expires time.Time
}

func newCheckout(w *world) *checkout {
	return &checkout{w: w, pages: map[string]charge{}, cancelled: map[string]bool{}}
}

// open notes the page to which the response to a payment leads.
func (c *checkout) open(paymentID, payURL string) {
	u, err := url.Parse(payURL)
	if err != nil {
		c.w.fail("pay_url %q: %v", payURL, err)
		return
	}
	text, _, _ := strings.Cut(u.RawQuery, "&signature=")
	q := u.Query()
	amount, _ := strconv.ParseInt(q.Get("amount"), 10, 64)
	expires, _ := strconv.ParseInt(q.Get("expires"), 10, 64)
	if _, ok := signedAt(q.Get("signature"), []byte(text)); !ok || q.Get("payment_id") != paymentID {
		c.w.fail("pay_url %q of payment %s is not signed", payURL, paymentID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	page := charge{
		PaymentID: paymentID, OrderSN: q.Get("order_sn"), Amount: amount, Currency: q.Get("currency"),
		expires: time.Unix(expires, 0),
	}
	if before, known := c.pages[paymentID]; known && before != page {
		c.w.fail("the page of payment %s was %+v and is %+v", paymentID, before, page)
	}
	c.pages[paymentID] = page
}

// take takes a payment, with another amount unless that is 0, and reports whether it has the money. Its clock is
// behind: it takes payments for 2 s after the deadline.
func (c *checkout) take(paymentID string, amount int64) (charge, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := indexOf(c.charges, paymentID); i >= 0 {
		return c.charges[i], true
	}
	taken := c.pages[paymentID]
	if c.cancelled[paymentID] || time.Now().After(taken.expires.Add(2*time.Second)) {
		coverage.end("payment refused by the provider")
		return charge{}, false
	}
	if amount != 0 {
		taken.Amount = amount
	}
	taken.CreatedAt = time.Now().UTC()
	c.charges = append(c.charges, taken)
	c.w.history.note("provider", "! takes a payment", taken.OrderSN, paymentID, taken.Amount)
	return taken, true
}

func indexOf(list []charge, paymentID string) int {
	return slices.IndexFunc(list, func(c charge) bool { return c.PaymentID == paymentID })
}

// play lets the buyer pay, or fail to, and sends the callback until order has accepted it. A success whose callback is
// lost is found by the comparison.
func (c *checkout) play(b *caller, paymentID, outcome string, amount int64, lost bool) {
	of := c.page(paymentID)
	if outcome == "succeeded" {
		var taken bool
		if of, taken = c.take(paymentID, amount); !taken {
			return
		}
		c.w.mu.Lock()
		c.w.played[paymentID] = of.Amount
		c.w.mu.Unlock()
	}
	if lost {
		c.w.history.note("provider", "! loses the callback", paymentID)
		coverage.pass(successLost)
		coverage.add(successLost, happens)
		return
	}
	body, err := json.Marshal(map[string]any{
		"event_id": outcome + "-" + paymentID, "payment_id": paymentID, "outcome": outcome,
		"amount": of.Amount, "currency": of.Currency,
	})
	if err != nil {
		panic(err)
	}
	for range 300 {
		if c.report(body) == http.StatusNoContent {
			return
		}
		b.sleep(200*time.Millisecond, 2*time.Second)
	}
	c.w.fail("order has not accepted the callback %s", body)
}

func (c *checkout) page(paymentID string) charge {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages[paymentID]
}

// report sends a callback and returns the status of the response, 0 without one.
func (c *checkout) report(body []byte) int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		"http://order/v1/payments/callbacks/shop", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Payment-Signature", signature(strconv.FormatInt(time.Now().Unix(), 10), body))
	client := &http.Client{Transport: &wire{w: c.w, who: "provider"}, Timeout: 15 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func signature(at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(providerSecret))
	_, _ = fmt.Fprintf(mac, "%s.%s", at, body)
	return "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// signedAt returns the time of a signature, and whether it is right.
func signedAt(header string, text []byte) (time.Time, bool) {
	at, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	unix, err := strconv.ParseInt(at, 10, 64)
	return time.Unix(unix, 0), err == nil && header == signature(at, text)
}

// The faults of the provider.
const (
	providerBusy    = "provider: responds 429"
	providerForgets = "provider: carries out a call and responds 500"
)

// serve responds to a call of order.
func (c *checkout) serve(req *http.Request, body []byte) *http.Response {
	text := fmt.Appendf(nil, "%s %s\n%s", req.Method, req.URL.RequestURI(), body)
	at, ok := signedAt(req.Header.Get("Payment-Signature"), text)
	rate := c.w.sale.provider.rate
	switch {
	case !ok:
		c.w.fail("the call %s %s of the provider has a wrong signature", req.Method, req.URL)
		return respond(http.StatusUnauthorized)
	case time.Since(at).Abs() > 5*time.Minute: // the clock of the process is wrong
		return respond(http.StatusUnauthorized)
	case c.w.plan.chance(providerBusy, rate):
		res := respond(http.StatusTooManyRequests)
		res.Header.Set("Retry-After", "2")
		return res
	}
	res := c.handle(req, body)
	if req.Method == http.MethodPost && c.w.plan.chance(providerForgets, rate) {
		return respond(http.StatusInternalServerError)
	}
	return res
}

func (c *checkout) handle(req *http.Request, body []byte) *http.Response {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(parts) == 1 && parts[0] == "charges":
		return list(c.charges, req.URL.Query())
	case len(parts) == 1 && parts[0] == "refunds":
		return list(c.refunds, req.URL.Query())
	case len(parts) != 3 || parts[0] != "payments":
		return respond(http.StatusNotFound)
	}
	id := parts[1]
	made := indexOf(c.refunds, id)
	switch {
	case parts[2] == "cancel":
		if indexOf(c.charges, id) < 0 && !c.cancelled[id] {
			coverage.end("payment ended at the provider")
		}
		c.cancelled[id] = true
		return respond(http.StatusNoContent)
	case made >= 0:
		return respondJSON(http.StatusOK, c.refunds[made])
	case req.Method == http.MethodGet:
		return respondJSON(http.StatusNotFound, map[string]string{"code": "not_found"})
	}
	var want charge
	err := json.Unmarshal(body, &want)
	taken := indexOf(c.charges, id)
	if err != nil || taken < 0 || c.charges[taken].Amount != want.Amount || c.charges[taken].Currency != want.Currency {
		return respondJSON(http.StatusConflict, map[string]string{"code": "refund_declined"})
	}
	want.PaymentID, want.CreatedAt = id, time.Now().UTC()
	c.refunds = append(c.refunds, want)
	return respondJSON(http.StatusOK, want)
}

// list responds with a page of at most three. A cursor is the index of its first element.
func list(all []charge, query url.Values) *http.Response {
	since, err := time.Parse(time.RFC3339, query.Get("since"))
	if err != nil {
		return respond(http.StatusBadRequest)
	}
	page := struct {
		Items []charge `json:"items"`
		Next  string   `json:"next_cursor,omitempty"`
	}{Items: []charge{}}
	first, _ := strconv.Atoi(query.Get("cursor"))
	of := query.Get("payment_id")
	for i := first; i < len(all); i++ {
		if len(page.Items) == 3 {
			page.Next = strconv.Itoa(i)
			break
		}
		if !all[i].CreatedAt.Before(since) && (of == "" || of == all[i].PaymentID) {
			page.Items = append(page.Items, all[i])
		}
	}
	return respondJSON(http.StatusOK, page)
}

func respondJSON(status int, body any) *http.Response {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	res := respond(status)
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return res
}

// refunded returns what the provider has refunded, by payment.
func (w *world) refunded(b books) map[int64]int64 {
	book := map[int64]int64{}
	for _, g := range b.given {
		book[g.RefundID] = g.Amount
	}
	w.checkout.mu.Lock()
	defer w.checkout.mu.Unlock()
	for _, r := range w.checkout.refunds {
		id, _ := strconv.ParseInt(r.PaymentID, 10, 64)
		book[id] = r.Amount
	}
	return book
}

// checkCharges requires that each charge of the provider is a payment with its amount.
func (w *world) checkCharges(f *findings, payments map[string]paymentRow) {
	w.checkout.mu.Lock()
	defer w.checkout.mu.Unlock()
	for _, c := range w.checkout.charges {
		if p := payments[c.PaymentID]; p.State != "succeeded" || p.PaidAmount != c.Amount {
			f.add(c.OrderSN, "the provider has taken %d for payment %s, which is %q over %d", c.Amount, c.PaymentID, p.State,
				p.PaidAmount)
		}
	}
}
