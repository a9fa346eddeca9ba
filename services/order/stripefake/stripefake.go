// Package stripefake is the part of Stripe's API that the provider stripe uses, with its state: checkout sessions,
// payment intents, charges, refunds, keys of idempotency, pages of lists, limits and signed events. It refuses what
// Stripe refuses. Tests act as the buyers, as the dashboard, as the clock and as the network.
package stripefake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config configures a fake.
type Config struct {
	Key     string           // secret key of the account
	Secret  string           // signs events
	Now     func() time.Time // required
	Rate    int              // requests that each endpoint takes in a second; 0 for the 25 of Stripe
	Methods []string         // methods that the account has activated, beside card
}

// Fault is what happens to a request.
type Fault int

// The faults.
const (
	FaultNone      Fault = iota
	FaultBusy            // 429, without effect
	FaultLocked          // 429 lock_timeout, without effect
	FaultBefore          // 500, without effect; a repetition of the key gets it again
	FaultAfter           // 500 after the effect; a repetition of the key gets it again
	FaultClosed          // 503 with Retry-After, without effect
	FaultForbidden       // 403: the key has no permission
	FaultRefunded        // after the response the dashboard refunds all charges in full
	FaultLost            // the connection ends after the effect; a repetition of the key gets the response
)

// Stripe is the fake. It is safe for concurrent use.
type Stripe struct {
	cfg Config
	mux *http.ServeMux

	mu       sync.Mutex
	fault    func(method, path string) Fault
	last     int // number of the last id
	sessions []*session
	charges  []*charge // oldest first
	refunds  []*refund // oldest first
	failing  bool      // the next refund fails at once
	empty    bool      // the balance of the account
	events   []*Event
	keys     map[string]stored
	window   map[string][]time.Time // requests to an endpoint in the last second
	calls    map[string]int         // to each endpoint, the refused ones included
}

// stored is the response to a request with an Idempotency-Key.
type stored struct {
	request string // path and parameters
	status  int
	body    []byte
}

// New returns a fake without any session.
func New(cfg Config) *Stripe {
	cfg.Rate = cmp.Or(cfg.Rate, 25)
	s := &Stripe{
		cfg: cfg, mux: http.NewServeMux(), keys: map[string]stored{}, window: map[string][]time.Time{},
		calls: map[string]int{}, last: int(cfg.Now().UnixNano()), // of no other fake
	}
	s.route("POST /v1/checkout/sessions", s.createSession, "mode", "client_reference_id", "success_url", "cancel_url",
		"expires_at", "line_items[0][quantity]", "line_items[0][price_data][currency]",
		"line_items[0][price_data][unit_amount]", "line_items[0][price_data][product_data][name]",
		"payment_method_types[*]", "payment_method_options[wechat_pay][client]", "adaptive_pricing[enabled]",
		"metadata[*]", "payment_intent_data[metadata][*]")
	s.route("GET /v1/checkout/sessions/{id}", s.getSession)
	s.route("POST /v1/checkout/sessions/{id}/expire", s.expireSession)
	s.route("GET /v1/payment_intents/{id}", s.getIntent)
	s.route("GET /v1/charges", s.listCharges, "limit", "starting_after", "created[gte]", "payment_intent")
	s.route("POST /v1/refunds", s.createRefund, "payment_intent", "amount", "metadata[*]")
	s.route("GET /v1/refunds", s.listRefunds, "limit", "starting_after", "created[gte]", "payment_intent", "expand[*]")
	s.mux.HandleFunc("POST /pay/{id}", func(w http.ResponseWriter, r *http.Request) { // the hosted page
		if err := s.Pay(r.PathValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// SetFault has f decide what happens to each request; nil for no faults.
func (s *Stripe) SetFault(f func(method, path string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Calls returns the number of requests to an endpoint, such as "POST /v1/refunds".
func (s *Stripe) Calls(endpoint string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[endpoint]
}

// refusal is an error response.
type refusal struct {
	status              int
	kind, code, message string
}

func (e *refusal) Error() string { return e.message }

func invalid(code, format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "invalid_request_error", code, fmt.Sprintf(format, args...)}
}

func missing(what, id string) error {
	return &refusal{http.StatusNotFound, "invalid_request_error", "resource_missing", "No such " + what + ": '" + id + "'"}
}

// missingParam refuses a parameter that is the id of no object.
func missingParam(what, id string) error {
	return invalid("resource_missing", "No such %s: '%s'", what, id)
}

// request is a request that has been authenticated and has no unknown parameter.
type request struct {
	*http.Request
	key string // Idempotency-Key
}

// param returns a parameter of the form or of the query.
func (r request) param(name string) string { return r.Form.Get(name) }

// metadata returns the parameters under a name.
func (r request) metadata(prefix string) map[string]string {
	m := map[string]string{}
	for name := range r.Form {
		if rest, ok := strings.CutPrefix(name, prefix+"["); ok {
			m[strings.TrimSuffix(rest, "]")] = r.param(name)
		}
	}
	return m
}

// route serves an endpoint with the names of its parameters; [*] stands for any name.
func (s *Stripe) route(pattern string, serve func(request) (any, error), known ...string) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expireDue()
		s.calls[pattern]++
		fault := FaultNone
		if s.fault != nil {
			fault = s.fault(r.Method, r.URL.Path)
		}
		req := request{r, r.Header.Get("Idempotency-Key")}
		if err := s.admit(req, pattern, fault, known); err != nil {
			respond(w, err, nil)
			return
		}
		asked := pattern + " " + r.URL.Path + " " + r.Form.Encode()
		if earlier, ok := s.keys[req.key]; ok && r.Method == http.MethodPost {
			if earlier.request != asked {
				respond(w, &refusal{
					http.StatusBadRequest, "idempotency_error", "",
					"Keys for idempotent requests can only be used with the same parameters they were first used with.",
				}, nil)
				return
			}
			w.Header().Set("Idempotent-Replayed", "true")
			write(w, earlier.status, earlier.body)
			return
		}
		var result any
		var err error
		if fault != FaultBefore {
			result, err = serve(req)
		}
		if fault == FaultBefore || fault == FaultAfter && err == nil {
			err = &refusal{http.StatusInternalServerError, "api_error", "", "An unknown error occurred"}
		}
		if fault == FaultRefunded {
			for _, c := range s.charges {
				if c.status == "succeeded" && c.refunded == 0 {
					_, _ = s.refund(c, c.amount, nil, "") // refused if it is disputed
				}
			}
		}
		status, body := encode(err, result)
		// Validation errors are not stored: no endpoint has begun to execute.
		if req.key != "" && r.Method == http.MethodPost && !validation(err) {
			s.keys[req.key] = stored{asked, status, body}
		}
		if fault == FaultLost {
			panic(http.ErrAbortHandler)
		}
		write(w, status, body)
	})
}

// admit refuses a request with a wrong key or an unknown parameter, or one that is over the limit of its endpoint.
func (s *Stripe) admit(r request, pattern string, fault Fault, known []string) error {
	if r.Header.Get("Authorization") != "Bearer "+s.cfg.Key {
		return &refusal{http.StatusUnauthorized, "invalid_request_error", "", "Invalid API Key provided"}
	}
	now, recent := s.cfg.Now(), s.window[pattern][:0]
	for _, at := range s.window[pattern] {
		if now.Sub(at) < time.Second {
			recent = append(recent, at)
		}
	}
	s.window[pattern] = append(recent, now)
	if len(recent) >= s.cfg.Rate || fault == FaultBusy {
		s.window[pattern] = recent
		return &refusal{http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "Request rate limit exceeded."}
	}
	switch fault {
	case FaultClosed:
		return &refusal{http.StatusServiceUnavailable, "api_error", "", "Service unavailable"}
	case FaultForbidden:
		return &refusal{http.StatusForbidden, "invalid_request_error", "", "The provided key does not have the required permissions."}
	}
	if fault == FaultLocked {
		return &refusal{
			http.StatusTooManyRequests, "invalid_request_error", "lock_timeout",
			"This object cannot be accessed right now because another API request is accessing it.",
		}
	}
	if err := r.ParseForm(); err != nil {
		return invalid("", "%v", err)
	}
	for name := range r.Form {
		if !allowed(name, known) {
			return invalid("parameter_unknown", "Received unknown parameter: %s", name)
		}
	}
	return nil
}

func allowed(name string, known []string) bool {
	for _, k := range known {
		prefix, list := strings.CutSuffix(k, "[*]")
		if name == k || list && strings.HasPrefix(name, prefix+"[") && strings.Count(name, "[") == strings.Count(k, "[") {
			return true
		}
	}
	return false
}

// validation reports whether err is one of the parameters, for which Stripe stores no response.
func validation(err error) bool {
	var e *refusal
	return errors.As(err, &e) && (strings.HasPrefix(e.code, "parameter_") || e.code == "url_invalid")
}

func encode(err error, result any) (int, []byte) {
	status := http.StatusOK
	var e *refusal
	if errors.As(err, &e) {
		status = e.status
		result = map[string]any{"error": map[string]any{"type": e.kind, "code": e.code, "message": e.message}}
	}
	body, err := json.Marshal(result)
	if err != nil {
		panic(err) // maps of plain values
	}
	return status, body
}

func respond(w http.ResponseWriter, err error, result any) {
	status, body := encode(err, result)
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_fake")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "7")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// id returns a new id.
func (s *Stripe) id(prefix string) string {
	s.last++
	return fmt.Sprintf("%s_%024d", prefix, s.last)
}
