// Package problem answers refusals and errors as problem documents (RFC 9457).
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
)

// ContentType of a problem document.
const ContentType = "application/problem+json"

// Header values shared by all answers: values are replaced, never written into.
var (
	contentType = []string{ContentType}
	noStore     = []string{"no-store"}
)

// statusClientGone is what nginx calls the answer to a caller who hung up. Nobody receives it; metrics count it.
const statusClientGone = 499

type kind struct {
	status int
	title  string
}

var kinds = map[contract.Code]kind{
	contract.CodeInvalidRequest:       {http.StatusBadRequest, "The request is not valid"},
	contract.CodeUnauthenticated:      {http.StatusUnauthorized, "Authentication is required"},
	contract.CodeForbidden:            {http.StatusForbidden, "Not allowed"},
	contract.CodePathInvalid:          {http.StatusForbidden, "The purchase path is not valid"},
	contract.CodePathExpired:          {http.StatusForbidden, "The purchase path has expired"},
	contract.CodeCaptchaWrong:         {http.StatusForbidden, "The captcha was not solved"},
	contract.CodeNotFound:             {http.StatusNotFound, "Not found"},
	contract.CodeMethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	contract.CodeBodyTooLarge:         {http.StatusRequestEntityTooLarge, "The request body is too large"},
	contract.CodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The media type is not supported"},
	contract.CodeActivityNotStarted:   {http.StatusConflict, "The sale has not started"},
	contract.CodeActivityEnded:        {http.StatusConflict, "The sale is over"},
	contract.CodeActivityPaused:       {http.StatusConflict, "The sale is paused"},
	contract.CodeSoldOut:              {http.StatusConflict, "Sold out"},
	contract.CodeLimitReached:         {http.StatusConflict, "The limit per buyer is reached"},
	contract.CodeInsufficientStock:    {http.StatusConflict, "Not enough stock"},
	contract.CodeOrderNotPayable:      {http.StatusConflict, "The order cannot be paid"},
	contract.CodeStateConflict:        {http.StatusConflict, "The present state does not allow it"},
	contract.CodeIdempotencyConflict:  {http.StatusConflict, "The same key came with another request"},
	contract.CodeRateLimited:          {http.StatusTooManyRequests, "Too many requests"},
	contract.CodeOverloaded:           {http.StatusServiceUnavailable, "Overloaded"},
	contract.CodeGateUnavailable:      {http.StatusServiceUnavailable, "Purchases are not available right now"},
	contract.CodeJournalFull:          {http.StatusServiceUnavailable, "Purchases are not taken right now"},
	contract.CodeUnavailable:          {http.StatusServiceUnavailable, "Not available right now"},
	contract.CodeInternal:             {http.StatusInternalServerError, "Internal error"},
}

// Status is the HTTP status of a code, 500 for one that is unknown.
func Status(code contract.Code) int {
	_, k := kindOf(code)
	return k.status
}

// kindOf also tells as what a code is answered: one that is unknown is internal.
func kindOf(code contract.Code) (contract.Code, kind) {
	if k, ok := kinds[code]; ok {
		return code, k
	}
	return contract.CodeInternal, kinds[contract.CodeInternal]
}

// Write answers err. A Refusal is answered as it is; a deadline that passed is 503 unavailable; anything else is 500
// internal, with nothing of the inside in it. What is our fault is logged here, once, with the trace it belongs to.
func Write(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	ctx := r.Context()
	var refusal *contract.Refusal
	switch {
	case errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled): // also what a store made a refusal of
		log.DebugContext(ctx, "caller gone", "error", err)
		w.WriteHeader(statusClientGone)
		return
	case errors.As(err, &refusal):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		refusal = contract.Refuse(contract.CodeUnavailable, "This took too long. The outcome may be unknown; ask again.").Because(err)
	default:
		refusal = contract.Refuse(contract.CodeInternal, "Something went wrong on our side.").Because(err)
	}
	code, k := kindOf(refusal.Code)
	status := k.status
	logRefusal(ctx, log, status, refusal, err)

	h := w.Header()
	for _, stale := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, stale)
	}
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter(refusal.RetryAfter)))
	case http.StatusUnauthorized:
		if h.Get("WWW-Authenticate") == "" {
			h.Set("WWW-Authenticate", "Bearer")
		}
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(document(ctx, code, k, refusal)) // the caller may be gone
	}
}

func logRefusal(ctx context.Context, log *slog.Logger, status int, refusal *contract.Refusal, err error) {
	switch {
	case refusal.Code == contract.CodeInternal || status == http.StatusInternalServerError:
		log.ErrorContext(ctx, "request failed", "code", refusal.Code, "error", err)
	case status == http.StatusServiceUnavailable && refusal.Cause != nil:
		log.WarnContext(ctx, "request not served", "code", refusal.Code, "error", err)
	}
}

// document is the body. A member of the code never overrides one of the standard's. It is written by hand, in the order
// of the names: most buyers of a good sale are refused, so that this is what the system says most.
func document(ctx context.Context, code contract.Code, k kind, refusal *contract.Refusal) []byte {
	members := make([]member, 0, 8) // those that not every document has
	if refusal.Detail != "" {
		members = append(members, member{"detail", refusal.Detail})
	}
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		members = append(members, member{"trace_id", sc.TraceID().String()})
	}
	if len(refusal.Fields) > 0 {
		members = append(members, member{"errors", refusal.Fields})
	}
	for name, value := range refusal.Members {
		switch name {
		case "type", "title", "status", "code", "detail", "trace_id":
		case "errors":
			if len(refusal.Fields) == 0 {
				members = append(members, member{name, value})
			}
		default:
			members = append(members, member{name, value})
		}
	}
	members = append(members, member{"code", string(code)}, member{"status", k.status}, member{"title", k.title},
		member{"type", "about:blank"})
	for i := 1; i < len(members); i++ { // so few that nothing sorts them sooner
		for j := i; j > 0 && members[j].name < members[j-1].name; j-- {
			members[j], members[j-1] = members[j-1], members[j]
		}
	}
	body := make([]byte, 1, 320)
	body[0] = '{'
	for _, m := range members {
		before := len(body)
		if before > 1 {
			body = append(body, ',')
		}
		body = append(appendText(body, m.name), ':')
		var err error
		if body, err = appendValue(body, m.value); err != nil { // a member that is no JSON
			body = body[:before]
		}
	}
	return append(body, "}\n"...)
}

type member struct {
	name  string
	value any
}

func appendValue(to []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return appendText(to, v), nil
	case int:
		return strconv.AppendInt(to, int64(v), 10), nil
	case time.Time:
		if y := v.Year(); y >= 0 && y <= 9999 { // as time.Time writes itself
			return append(v.AppendFormat(append(to, '"'), time.RFC3339Nano), '"'), nil
		}
	}
	raw, err := json.Marshal(value)
	return append(to, raw...), err
}

// appendText appends a JSON string; what needs an escape is left to encoding/json.
func appendText(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, _ := json.Marshal(s) // never fails for a string
			return append(to, raw...)
		}
	}
	return append(append(append(to, '"'), s...), '"')
}

// retryAfter is whole seconds, at least 1, and up to a quarter more (at most 3 s), so that callers who were refused
// together do not come back together.
func retryAfter(d time.Duration) int {
	seconds := max(1, int((d+time.Second-1)/time.Second))
	if spread := min(3, (seconds+3)/4); spread > 0 {
		seconds += rand.IntN(spread + 1) //nolint:gosec // jitter, no secret
	}
	return seconds
}
