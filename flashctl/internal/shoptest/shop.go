// Package shoptest is an in-memory fake of the system's REST API, for tests of its clients. It is correct except for
// the configured faults.
package shoptest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Faults are deviations of the fake from the real system.
type Faults struct {
	Oversell    int           // units sold beyond the stock
	CloseEarly  time.Duration // closes orders that long before the deadline
	CloseLate   time.Duration // closes orders that long after the deadline
	KeepsUnits  bool          // closes orders without releasing their units
	LosesOrders int           // number of accepted purchases that fail later
	Leaks       bool          // merchants read each other's sales
	MixesUp     bool          // the merchant's list shows another contact than the buyer gave
	Refuses     int           // every nth purchase is carried out and gets a 503; 0 means none
}

// Shop is the fake.
type Shop struct {
	URL    string
	faults Faults

	mu       sync.Mutex
	sales    map[string]*sale
	orders   map[string]*order
	payments map[string]*order
	calls    int
	next     int
}

type sale struct {
	id, sku  string
	merchant string
	total    int
	left     int
	payS     int64
	starts   time.Time
	draft    bool
	ended    bool
	failures int
	orders   []*order
}

type order struct {
	sn, user, state, reason string
	sale                    *sale
	created, expires        time.Time
	paid, closed            time.Time
	lost                    bool
	contact                 object // nil if the buyer gave none
}

// Start starts a shop and stops it at the end of the test.
func Start(t testing.TB, faults Faults) *Shop {
	t.Helper()
	s := &Shop{faults: faults, sales: map[string]*sale{}, orders: map[string]*order{}, payments: map[string]*order{}}
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(r *http.Request) (int, any){
		"GET /v1/activities":                                 s.list,
		"GET /v1/activities/{id}":                            s.activity,
		"POST /v1/dev/tokens":                                s.token,
		"POST /v1/merchant/products":                         s.product,
		"POST /v1/merchant/activities":                       s.draft,
		"GET /v1/merchant/activities":                        s.ownSales,
		"GET /v1/merchant/activities/{id}":                   s.owned(s.ownSale),
		"DELETE /v1/merchant/activities/{id}":                s.owned(s.remove),
		"POST /v1/merchant/activities/{id}/duplicate":        s.owned(s.duplicate),
		"POST /v1/merchant/activities/{id}/{change}":         s.owned(s.change),
		"GET /v1/merchant/activities/{id}/stock":             s.owned(s.stock),
		"GET /v1/merchant/activities/{id}/orders":            s.owned(s.ledger),
		"POST /v1/activities/{id}/paths":                     s.path,
		"POST /v1/activities/{id}/paths/{path}/reservations": s.reserve,
		"GET /v1/activities/{id}/reservations/{sn}":          s.result,
		"GET /v1/orders/{sn}":                                s.order,
		"PUT /v1/orders/{sn}/contact":                        s.putContact,
		"GET /v1/orders/{sn}/contact":                        s.contact,
		"POST /v1/orders/{sn}/payments":                      s.pay,
		"POST /v1/payments/{id}/sandbox":                     s.provider,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.closeDue()
			status, body := h(r)
			s.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// closeDue closes the orders that are due.
func (s *Shop) closeDue() {
	now := time.Now()
	for _, o := range s.orders {
		at := o.expires.Add(s.faults.CloseLate - s.faults.CloseEarly)
		if o.state == "pending" && now.After(at) {
			o.state, o.closed, o.reason = "closed", at, "expired"
			if !s.faults.KeepsUnits {
				o.sale.left++
			}
		}
	}
}

type object = map[string]any

func refuse(status int, code string) (int, any) {
	return status, object{"status": status, "code": code}
}

// user returns the user id of the token, which is user id, slash, merchant id.
func user(r *http.Request) string { return path.Dir(r.Header.Get("Authorization")[len("Bearer "):]) }

// merchant returns the merchant of the token.
func merchant(r *http.Request) string { return path.Base(r.Header.Get("Authorization")) }

// owned responds 404 to a merchant who does not own the sale.
func (s *Shop) owned(h func(*http.Request) (int, any)) func(*http.Request) (int, any) {
	return func(r *http.Request) (int, any) {
		if a := s.sales[r.PathValue("id")]; a == nil || !s.reads(r, a) {
			return refuse(http.StatusNotFound, "not_found")
		}
		return h(r)
	}
}

func (s *Shop) reads(r *http.Request, a *sale) bool {
	return a.merchant == merchant(r) || s.faults.Leaks
}

func (s *Shop) id() string {
	s.next++
	return strconv.Itoa(s.next)
}

func (s *Shop) list(*http.Request) (int, any) { return http.StatusOK, object{"items": []any{}} }

func (s *Shop) activity(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	if a == nil {
		return refuse(http.StatusNotFound, "not_found")
	}
	items := []object{{"sku_id": a.sku, "total": a.total, "left": a.left}}
	return http.StatusOK, object{"activity_id": a.id, "items": items}
}

func (s *Shop) token(r *http.Request) (int, any) {
	var in struct {
		UserID     string `json:"user_id"`
		MerchantID string `json:"merchant_id"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	return http.StatusOK, object{"token": in.UserID + "/" + cmp.Or(in.MerchantID, "default")}
}

func (s *Shop) product(*http.Request) (int, any) {
	return http.StatusCreated, object{"product_id": s.id(), "skus": []object{{"sku_id": s.id()}}}
}

func (s *Shop) draft(r *http.Request) (int, any) {
	var in struct {
		PayWithinS int64     `json:"pay_within_s"`
		StartsAt   time.Time `json:"starts_at"`
		Items      []struct {
			SKUID string `json:"sku_id"`
			Stock int    `json:"stock"`
		} `json:"items"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Items) != 1 {
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	a := &sale{
		id: s.id(), merchant: merchant(r), sku: in.Items[0].SKUID, total: in.Items[0].Stock, payS: in.PayWithinS,
		starts: in.StartsAt, draft: true,
	}
	a.left = a.total + s.faults.Oversell
	s.sales[a.id] = a
	return http.StatusCreated, object{"activity_id": a.id, "state": "draft"}
}

func (s *Shop) change(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	a.draft, a.ended = a.draft && r.PathValue("change") != "publish", r.PathValue("change") == "end"
	return http.StatusOK, object{"activity_id": a.id}
}

func (s *Shop) duplicate(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	b := &sale{
		id: s.id(), merchant: a.merchant, sku: a.sku, total: a.total, left: a.total, payS: a.payS, starts: a.starts, draft: true,
	}
	s.sales[b.id] = b
	return http.StatusCreated, object{"activity_id": b.id, "state": "draft"}
}

func (s *Shop) remove(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	if !a.draft {
		return refuse(http.StatusConflict, "state_conflict")
	}
	delete(s.sales, a.id)
	return http.StatusNoContent, nil
}

func (s *Shop) ownSale(r *http.Request) (int, any) {
	return http.StatusOK, object{"activity_id": s.sales[r.PathValue("id")].id}
}

func (s *Shop) ownSales(r *http.Request) (int, any) {
	items := []object{}
	for _, a := range s.sales {
		if s.reads(r, a) {
			items = append(items, object{"activity_id": a.id})
		}
	}
	return http.StatusOK, object{"items": items}
}

func (s *Shop) path(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	switch {
	case time.Now().Before(a.starts):
		return http.StatusConflict, object{"code": "activity_not_started", "starts_at": a.starts}
	case a.left == 0:
		return refuse(http.StatusConflict, "sold_out")
	}
	sn := s.id()
	return http.StatusCreated, object{"path": "p" + sn, "order_sn": sn}
}

func (s *Shop) reserve(r *http.Request) (int, any) {
	a, path := s.sales[r.PathValue("id")], r.PathValue("path")
	o := s.orders[path[1:]]
	if o == nil {
		if a.left == 0 {
			return refuse(http.StatusConflict, "sold_out")
		}
		a.left--
		now := time.Now()
		o = &order{
			sn: path[1:], user: user(r), state: "pending", sale: a, created: now,
			expires: now.Add(time.Duration(a.payS) * time.Second),
		}
		if a.failures < s.faults.LosesOrders {
			a.failures++
			o.lost = true
		}
		s.orders[o.sn] = o
		a.orders = append(a.orders, o)
		s.calls++
		if s.faults.Refuses > 0 && s.calls%s.faults.Refuses == 0 {
			return refuse(http.StatusServiceUnavailable, "gate_unavailable")
		}
	}
	return http.StatusAccepted, object{"order_sn": o.sn, "status": "queued"}
}

func (s *Shop) result(r *http.Request) (int, any) {
	o := s.orders[r.PathValue("sn")]
	switch {
	case o == nil || o.user != user(r):
		return refuse(http.StatusNotFound, "not_found")
	case o.lost:
		return http.StatusOK, object{"order_sn": o.sn, "status": "failed", "reason": "system"}
	case o.state == "pending":
		return http.StatusOK, object{"order_sn": o.sn, "status": "created", "expires_at": o.expires}
	}
	return http.StatusOK, object{"order_sn": o.sn, "status": o.state, "reason": o.reason}
}

func (s *Shop) order(r *http.Request) (int, any) {
	o := s.orders[r.PathValue("sn")]
	if o == nil || o.user != user(r) {
		return refuse(http.StatusNotFound, "not_found")
	}
	out := object{
		"order_sn": o.sn, "activity_id": o.sale.id, "user_id": o.user, "state": o.state,
		"created_at": o.created, "expires_at": o.expires,
	}
	switch o.state {
	case "paid":
		out["paid_at"] = o.paid
	case "closed":
		out["closed_at"], out["close_reason"] = o.closed, o.reason
	}
	return http.StatusOK, out
}

func (s *Shop) putContact(r *http.Request) (int, any) {
	o := s.orders[r.PathValue("sn")]
	switch {
	case o == nil || o.user != user(r):
		return refuse(http.StatusNotFound, "not_found")
	case o.state == "closed":
		return refuse(http.StatusConflict, "state_conflict")
	case json.NewDecoder(r.Body).Decode(&o.contact) != nil:
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	return http.StatusOK, o.contact
}

func (s *Shop) contact(r *http.Request) (int, any) {
	o := s.orders[r.PathValue("sn")]
	if o == nil || o.user != user(r) || o.contact == nil {
		return refuse(http.StatusNotFound, "not_found")
	}
	return http.StatusOK, o.contact
}

func (s *Shop) pay(r *http.Request) (int, any) {
	o := s.orders[r.PathValue("sn")]
	if r.Header.Get("Idempotency-Key") == "" {
		return refuse(http.StatusBadRequest, "invalid_request")
	}
	if o.state != "pending" {
		return refuse(http.StatusConflict, "order_not_payable")
	}
	id := s.id()
	s.payments[id] = o
	return http.StatusCreated, object{"payment_id": id, "state": "started"}
}

func (s *Shop) provider(r *http.Request) (int, any) {
	o := s.payments[r.PathValue("id")]
	if o.state == "pending" {
		o.state, o.paid = "paid", time.Now()
	}
	return http.StatusAccepted, object{}
}

func (s *Shop) stock(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	reserved, sold := 0, 0
	for _, o := range a.orders {
		switch o.state {
		case "pending":
			reserved++
		case "paid":
			sold++
		}
	}
	return http.StatusOK, object{"as_of": time.Now(), "skus": []object{{
		"sku_id": a.sku, "total": a.total,
		"mysql": object{"available": a.left, "reserved": reserved, "sold": sold},
		"gate":  object{"left": a.left, "held": reserved},
	}}}
}

// ledger returns pages of two rows, so that clients have to read several pages.
func (s *Shop) ledger(r *http.Request) (int, any) {
	a := s.sales[r.PathValue("id")]
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	items := []object{}
	for _, o := range a.orders[from:min(from+2, len(a.orders))] {
		state := map[string]string{"pending": "reserved", "paid": "sold", "closed": "released"}[o.state]
		row := object{"order_sn": o.sn, "user_id": o.user, "state": state, "contact": o.contact}
		if s.faults.MixesUp && o.contact != nil {
			row["contact"] = object{"name": "Another buyer", "phone": "+8613800000000"}
		}
		items = append(items, row)
	}
	out := object{"items": items}
	if from+2 < len(a.orders) {
		out["next_cursor"] = fmt.Sprint(from + 2)
	}
	return http.StatusOK, out
}
