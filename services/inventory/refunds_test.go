package inventory

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
)

// refundID is the only refund of a refundService.
const refundID = "4984557191785365628"

const waitingRefund = `{"refund_id":"` + refundID + `","order_sn":"7","provider":"sandbox","amount":4900,"currency":"EUR",` +
	`"state":"refund_failed","reason":"order_closed","attempts":1,"last_error":"account closed","created_at":"2026-11-21T10:05:00Z"}`

const difference = `{"difference_id":"3","provider":"shop","kind":"charge_differs","payment_id":"8","order_sn":"7",` +
	`"provider_amount":{"amount":490,"currency":"JPY"},"recorded_amount":{"amount":4900,"currency":"EUR"},` +
	`"at":"2026-11-21T10:05:00Z","first_seen_at":"2026-11-21T11:00:00Z","last_seen_at":"2026-11-21T12:00:00Z"}`

func TestOperatorsReadPaymentDifferences(t *testing.T) {
	t.Parallel()
	s, f := newRefundShop(t)
	op := s.mint("op", auth.Operator)
	const differences = "/v1/merchant/payment-differences"
	got := s.as(op, "GET", differences+"?limit=3&cursor=2", "")
	require.Equal(t, 200, got.status, "%s", got.body)
	want := strings.Replace(difference, `"currency":"EUR"`, `"currency":"EUR","currency_digits":2`, 1)
	want = strings.Replace(want, `"currency":"JPY"`, `"currency":"JPY","currency_digits":0`, 1)
	require.JSONEq(t, `{"items":[`+want+`],"next_cursor":"3"}`, string(got.body))
	require.Equal(t, []string{"GET /internal/v1/payment-differences?cursor=2&limit=3"}, f.take())
	f.set(200, `{"items":[{"difference_id":"4","provider":"shop","kind":"charge_foreign","payment_id":"ch_1"}]}`)
	got = s.as(op, "GET", differences, "")
	require.NotContains(t, string(got.body), "amount")
	require.NotContains(t, string(got.body), "order_sn")
	require.NotContains(t, string(got.body), "next_cursor")
	require.Equal(t, 403, s.as(s.mint("m", auth.Merchant), "GET", differences, "").status)
	f.set(503, "")
	require.Equal(t, 503, s.as(op, "GET", differences, "").status)
	f.set(404, "") // of a version before
	require.Equal(t, 503, s.as(op, "GET", differences, "").status)
}

// withDigits is a refund of the order service as inventory shows it.
func withDigits(refund string) string {
	return strings.Replace(refund, `"currency":"EUR",`, `"currency":"EUR","currency_digits":2,`, 1)
}

// refundService is the part of the order service that keeps refunds.
type refundService struct {
	mu     sync.Mutex
	calls  []string // method, URL and body
	status int      // of the responses; 0 for those of a refund that exists
	body   string
}

func (f *refundService) serve(mux *http.ServeMux) {
	mux.HandleFunc("GET /internal/v1/refunds", func(w http.ResponseWriter, r *http.Request) {
		f.respond(w, r, `{"items":[`+waitingRefund+`],"next_cursor":"next"}`)
	})
	mux.HandleFunc("GET /internal/v1/payment-differences", func(w http.ResponseWriter, r *http.Request) {
		f.respond(w, r, `{"items":[`+difference+`],"next_cursor":"3"}`)
	})
	mux.HandleFunc("POST /internal/v1/refunds/{call}", func(w http.ResponseWriter, r *http.Request) {
		if id, _, _ := strings.Cut(r.PathValue("call"), ":"); id != refundID {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","detail":"There is no such refund."}`)
			return
		}
		f.respond(w, r, waitingRefund)
	})
}

func (f *refundService) respond(w http.ResponseWriter, r *http.Request, body string) {
	sent, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(sent)))
	if f.status != 0 {
		w.WriteHeader(f.status)
		body = f.body
	}
	_, _ = io.WriteString(w, body)
}

func (f *refundService) set(status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.body = status, body
}

// take returns the calls since the last take.
func (f *refundService) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func newRefundShop(t *testing.T) (*shop, *refundService) {
	f, mux := &refundService{}, http.NewServeMux()
	f.serve(mux)
	srv := httptest.NewServer(auth.Internal("x")(mux))
	t.Cleanup(srv.Close)
	return newShop(t, func(c *Config) { c.OrderURL = srv.URL }), f
}

// refundChanges returns the entries of the change log about refunds.
func (s *shop) refundChanges() (entries []string) {
	s.t.Helper()
	var rows []struct{ Who, Role, Action, ObjectID, Detail string }
	require.NoError(s.t, s.db.Table("changes").Where("object = 'refund'").Order("id").Find(&rows).Error)
	for _, r := range rows {
		entries = append(entries, strings.TrimSpace(fmt.Sprint(r.Who, " ", r.Role, " ", r.Action, " ", r.ObjectID, " ", r.Detail)))
	}
	return entries
}

func TestOperatorsDecideRefunds(t *testing.T) {
	t.Parallel()
	s, f := newRefundShop(t)
	op := s.mint("op", auth.Operator)
	const refunds = "/v1/merchant/refunds"

	got := s.as(op, "GET", refunds, "")
	require.Equal(t, 200, got.status, "%s", got.body)
	require.JSONEq(t, `{"items":[`+withDigits(waitingRefund)+`],"next_cursor":"next"}`, string(got.body))
	require.Equal(t, 200, s.as(op, "GET", refunds+"?limit=3&cursor=next", "").status)
	require.Equal(t, []string{"GET /internal/v1/refunds?limit=20", "GET /internal/v1/refunds?cursor=next&limit=3"}, f.take())
	require.Empty(t, s.refundChanges(), "a list changes nothing")

	for _, body := range []string{"", "{}"} {
		got = s.as(op, "POST", refunds+"/"+refundID+"/retry", body)
		require.Equal(t, 200, got.status, "%s", got.body)
		require.JSONEq(t, withDigits(waitingRefund), string(got.body))
		require.Equal(t, []string{"POST /internal/v1/refunds/" + refundID + `:retry {"by":"op"}`}, f.take())
	}

	settled := strings.Replace(waitingRefund, `"refund_failed"`, `"refunded","refunded_at":"2026-11-21T11:00:00Z",`+
		`"settled":{"by":"op","reference":"transfer 17","reason":"account closed"}`, 1)
	f.set(200, settled)
	got = s.as(op, "POST", refunds+"/"+refundID+"/settle", `{"reference":"transfer 17","reason":"account closed"}`)
	require.Equal(t, 200, got.status, "%s", got.body)
	require.JSONEq(t, withDigits(settled), string(got.body))
	require.Equal(t, []string{"POST /internal/v1/refunds/" + refundID +
		`:settle {"by":"op","reference":"transfer 17","reason":"account closed"}`}, f.take())
	require.Equal(t, []string{
		"op operator refund.retry " + refundID, "op operator refund.retry " + refundID,
		"op operator refund.settle " + refundID + ` {"reason":"account closed","reference":"transfer 17"}`,
	}, s.refundChanges())

	// Lengths are in characters.
	longest := fmt.Sprintf(`{"reference":%q,"reason":%q}`, strings.Repeat("é", 128), strings.Repeat("é", 255))
	require.Equal(t, 200, s.as(op, "POST", refunds+"/"+refundID+"/settle", longest).status)
	require.Len(t, f.take(), 1)

	// A change that cannot be recorded is not made.
	require.NoError(t, s.db.Migrator().RenameTable("changes", "changes_away"))
	require.GreaterOrEqual(t, s.as(op, "POST", refunds+"/"+refundID+"/retry", "").status, 500)
	require.GreaterOrEqual(t, s.as(op, "POST", refunds+"/"+refundID+"/settle", longest).status, 500)
	require.Empty(t, f.take())
}

func TestRefusedCallsAboutRefundsDoNotReachTheOrderService(t *testing.T) {
	t.Parallel()
	s, f := newRefundShop(t)
	op := s.mint("op", auth.Operator)
	const one = "/" + refundID
	text := func(n int) string { return strings.Repeat("x", n) }
	settle := func(reference, reason string) string {
		return fmt.Sprintf(`{"reference":%q,"reason":%q}`, reference, reason)
	}
	for _, c := range []struct {
		token, method, path, body string
		status                    int
		code, field               string
	}{
		{"", "GET", "", "", 401, "unauthenticated", ""},
		{"", "POST", one + "/retry", "", 401, "unauthenticated", ""},
		{"", "POST", one + "/settle", settle("a", "b"), 401, "unauthenticated", ""},
		{s.mint("b"), "GET", "", "", 403, "forbidden", ""},
		{s.token, "GET", "", "", 403, "forbidden", ""},
		{s.token, "POST", one + "/retry", "", 403, "forbidden", ""},
		{s.token, "POST", one + "/settle", settle("a", "b"), 403, "forbidden", ""},
		{op, "GET", "?limit=0", "", 400, "invalid_request", "limit"},
		{op, "GET", "?limit=101", "", 400, "invalid_request", "limit"},
		{op, "GET", "?cursor=", "", 400, "invalid_request", "cursor"},
		{op, "GET", "?cursor=" + text(257), "", 400, "invalid_request", "cursor"},
		{op, "POST", "/0/retry", "", 404, "not_found", ""},
		{op, "POST", "/x:settle%3F/retry", "", 404, "not_found", ""},
		{op, "POST", "/99999999999999999999/settle", settle("a", "b"), 404, "not_found", ""},
		{op, "POST", one + "/retry", `{"by":"other"}`, 400, "invalid_request", "by"},
		{op, "POST", one + "/settle", `{}`, 400, "invalid_request", "reference"},
		{op, "POST", one + "/settle", `{"reason":"b"}`, 400, "invalid_request", "reference"},
		{op, "POST", one + "/settle", `{"reference":"a"}`, 400, "invalid_request", "reason"},
		{op, "POST", one + "/settle", `{"reference":"a","reason":null}`, 400, "invalid_request", "reason"},
		{op, "POST", one + "/settle", `{"reference":1,"reason":"b"}`, 400, "invalid_request", "reference"},
		{op, "POST", one + "/settle", `{"by":"other","reference":"a","reason":"b"}`, 400, "invalid_request", "by"},
		{op, "POST", one + "/settle", settle(" ", "b"), 400, "invalid_request", "reference"},
		{op, "POST", one + "/settle", settle("a", "  "), 400, "invalid_request", "reason"},
		{op, "POST", one + "/settle", settle(text(129), "b"), 400, "invalid_request", "reference"},
		{op, "POST", one + "/settle", settle("a", text(256)), 400, "invalid_request", "reason"},
		{op, "POST", one + "/settle", "", 400, "invalid_request", "body"},
		{op, "DELETE", "", "", 405, "method_not_allowed", ""},
	} {
		got := s.as(c.token, c.method, "/v1/merchant/refunds"+c.path, c.body)
		what := c.method + " " + c.path + " " + c.body
		require.Equal(t, c.status, got.status, "%s: %s", what, got.body)
		require.Equal(t, c.code, got.code(), what)
		require.Equal(t, c.field, got.field(), what)
	}
	require.Empty(t, f.take())
	require.Empty(t, s.refundChanges())
}

// The refusals of the order service that are about the call reach the operator. All other responses are 503.
func TestRefusalsOfTheOrderServiceAboutRefunds(t *testing.T) {
	t.Parallel()
	s, f := newRefundShop(t)
	op := s.mint("op", auth.Operator)
	const failed = "The order service cannot be reached, or it failed. The outcome may be unknown; repeat the call."
	for _, c := range []struct {
		status       int
		body         string
		want         int
		code, detail string
	}{
		{400, `{"code":"invalid_request","detail":"cursor: is not valid","errors":[{"field":"cursor","message":"is not valid"}]}`, 400, "invalid_request", "cursor: is not valid"},
		{404, `{"code":"not_found","detail":"There is no such refund."}`, 404, "not_found", "There is no such refund."},
		{409, `{"code":"state_conflict","detail":"The refund is still being attempted."}`, 409, "state_conflict", "The refund is still being attempted."},
		{503, `{"code":"unavailable","detail":"The payment provider did not respond."}`, 503, "unavailable", "The payment provider did not respond."},
		{503, `{"code":"overloaded","detail":"d"}`, 503, "unavailable", failed},
		{503, ``, 503, "unavailable", failed},
		{500, `{"code":"internal","detail":"d"}`, 503, "unavailable", failed},
		{401, `{"code":"unauthenticated","detail":"d"}`, 503, "unavailable", failed},
		{404, `404 page not found`, 503, "unavailable", failed}, // a release without these routes
		{302, `{}`, 503, "unavailable", failed},
		{200, `rubbish`, 503, "unavailable", failed},
		{200, `{"items":[{}],"refund_id":"8"}`, 503, "unavailable", failed},
	} {
		f.set(c.status, c.body)
		for _, call := range []struct{ method, path, body string }{
			{"GET", "", ""},
			{"POST", "/" + refundID + "/retry", ""},
			{"POST", "/" + refundID + "/settle", `{"reference":"a","reason":"b"}`},
		} {
			got := s.as(op, call.method, "/v1/merchant/refunds"+call.path, call.body)
			what := fmt.Sprint(c.status, " ", c.body, " ", call.method, call.path)
			require.Equal(t, c.want, got.status, "%s: %s", what, got.body)
			var doc struct{ Code, Detail string }
			got.into(t, &doc)
			require.Equal(t, c.code, doc.Code, what)
			require.Equal(t, c.detail, doc.Detail, what)
			require.Equal(t, c.want == 503, got.header.Get("Retry-After") != "", what)
			if c.want == 400 {
				require.Equal(t, "cursor", got.field())
			}
		}
	}
}
