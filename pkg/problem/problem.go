// Package problem responds with refusals and errors as problem documents (RFC 9457).
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// Header values shared by all responses: handlers replace the slices and never write into them.
var (
	contentType = []string{ContentType}
	noStore     = []string{"no-store"}
)

// statusClientGone is nginx's status for a caller that has disconnected. It is never received; metrics count it.
const statusClientGone = 499

type kind struct {
	status   int
	title    string
	document []byte // prefix of every document of this kind
}

var kinds = func() map[contract.Code]kind {
	//exhaustive:enforce
	kinds := map[contract.Code]kind{
		contract.CodeInvalidRequest:       {http.StatusBadRequest, "The request is not valid", nil},
		contract.CodeUnauthenticated:      {http.StatusUnauthorized, "Authentication is required", nil},
		contract.CodeForbidden:            {http.StatusForbidden, "Not allowed", nil},
		contract.CodePathInvalid:          {http.StatusForbidden, "The purchase path is not valid", nil},
		contract.CodePathExpired:          {http.StatusForbidden, "The purchase path has expired", nil},
		contract.CodeChallengeRequired:    {http.StatusForbidden, "A challenge has to be solved first", nil},
		contract.CodeChallengeWrong:       {http.StatusForbidden, "The challenge was not solved", nil},
		contract.CodeRoomRequired:         {http.StatusForbidden, "The waiting room comes first", nil},
		contract.CodeNotFound:             {http.StatusNotFound, "Not found", nil},
		contract.CodeMethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed", nil},
		contract.CodeBodyTooLarge:         {http.StatusRequestEntityTooLarge, "The request body is too large", nil},
		contract.CodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "The media type is not supported", nil},
		contract.CodeActivityNotStarted:   {http.StatusConflict, "The sale has not started", nil},
		contract.CodeActivityEnded:        {http.StatusConflict, "The sale has ended", nil},
		contract.CodeActivityPaused:       {http.StatusConflict, "The sale is paused", nil},
		contract.CodeSoldOut:              {http.StatusConflict, "Sold out", nil},
		contract.CodeLimitReached:         {http.StatusConflict, "The limit per buyer is reached", nil},
		contract.CodeInsufficientStock:    {http.StatusConflict, "Not enough stock", nil},
		contract.CodeOrderNotPayable:      {http.StatusConflict, "The order cannot be paid", nil},
		contract.CodeStateConflict:        {http.StatusConflict, "The current state does not allow it", nil},
		contract.CodeIdempotencyConflict:  {http.StatusConflict, "The same key was used with another request", nil},
		contract.CodeQuotaExceeded:        {http.StatusConflict, "The quota is used up", nil},
		contract.CodeRateLimited:          {http.StatusTooManyRequests, "Too many requests", nil},
		contract.CodeRoomWaiting:          {http.StatusTooManyRequests, "Waiting in the waiting room", nil},
		contract.CodeOverloaded:           {http.StatusServiceUnavailable, "Overloaded", nil},
		contract.CodeGateUnavailable:      {http.StatusServiceUnavailable, "Purchases are not available right now", nil},
		contract.CodeJournalFull:          {http.StatusServiceUnavailable, "Purchases are not accepted right now", nil},
		contract.CodeProviderBusy:         {http.StatusServiceUnavailable, "The payment provider is busy", nil},
		contract.CodeUnavailable:          {http.StatusServiceUnavailable, "Not available right now", nil},
		contract.CodeInternal:             {http.StatusInternalServerError, "Internal error", nil},
	}
	for code, k := range kinds {
		kinds[code] = k.of(code)
	}
	return kinds
}()

// failedPrecondition is the kind of a state_conflict because of If-Match.
var failedPrecondition = kind{
	http.StatusPreconditionFailed, "It was changed meanwhile", nil,
}.of(contract.CodeStateConflict)

// of returns the kind with the documents of a code.
func (k kind) of(code contract.Code) kind {
	k.document = fmt.Appendf(nil, `{"type":"about:blank","title":%q,"status":%d,"code":%q`, k.title, k.status, code)
	return k
}

// Status returns the HTTP status of a code, 500 for an unknown one.
func Status(code contract.Code) int {
	return kindOf(code).status
}

// kindOf returns the kind of a code, that of internal for an unknown one.
func kindOf(code contract.Code) kind {
	if k, ok := kinds[code]; ok {
		return k
	}
	return kinds[contract.CodeInternal]
}

// Recorder is a ResponseWriter that takes the code of the refusal that is written to it.
type Recorder interface{ Refused(code contract.Code) }

// Write responds with err. A Refusal is written as it is. An exceeded deadline is 503 unavailable. Any other error is
// 500 internal, without its text. Failures of the service are logged here, once, with the trace of the request.
func Write(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	ctx := r.Context()
	refusal := contract.RefusalOf(err)
	switch {
	case refusal != nil && refusal.Cause == nil && err == error(refusal): //nolint:errorlint // fast path: wraps nothing
	case errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled): // also in a refusal by a store
		log.DebugContext(ctx, "caller disconnected", "error", err)
		w.WriteHeader(statusClientGone)
		return
	case refusal != nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		refusal = contract.Refuse(contract.CodeUnavailable,
			"This took too long. The outcome may be unknown; retry.").Because(err)
	default:
		refusal = contract.Refuse(contract.CodeInternal, "Something went wrong on our side.").Because(err)
	}
	if rec, ok := w.(Recorder); ok {
		rec.Refused(refusal.Code)
	}
	k := kindOf(refusal.Code)
	if refusal.Precondition && refusal.Code == contract.CodeStateConflict {
		k = failedPrecondition
	}
	status := k.status
	logRefusal(ctx, log, status, refusal, err)

	h := w.Header()
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
	if r.Method == http.MethodHead {
		return
	}
	body, _ := bodies.Get().(*[]byte)
	*body = appendDocument((*body)[:0], traceID(ctx, h), k, refusal)
	_, _ = w.Write(*body) // fails if the caller has disconnected
	if cap(*body) <= keptBody {
		bodies.Put(body)
	}
}

// bodies holds buffers for reuse: a ResponseWriter does not retain what it was given. Buffers longer than keptBody
// are not reused.
var bodies = sync.Pool{New: func() any { body := make([]byte, 0, 512); return &body }}

const keptBody = 4 << 10

func logRefusal(ctx context.Context, log *slog.Logger, status int, refusal *contract.Refusal, err error) {
	switch {
	case refusal.Code == contract.CodeInternal || status == http.StatusInternalServerError:
		log.ErrorContext(ctx, "request failed", "code", refusal.Code, "error", err)
	case status == http.StatusServiceUnavailable && refusal.Cause != nil:
		log.WarnContext(ctx, "request not served", "code", refusal.Code, "error", err)
	}
}

// appendDocument appends the body. A further member never overrides a standard one. The encoding is hand-written
// because most responses of a sale are refusals.
func appendDocument(body []byte, traceID string, k kind, refusal *contract.Refusal) []byte {
	body = append(body, k.document...)
	if refusal.Detail != "" {
		body = appendText(append(body, `,"detail":`...), refusal.Detail)
	}
	if traceID != "" {
		body = append(append(append(body, `,"trace_id":"`...), traceID...), '"')
	}
	if len(refusal.Fields) > 0 {
		body = appendMember(body, "errors", refusal.Fields)
	}
	for _, m := range refusal.Members {
		switch m.Name {
		case "type", "title", "status", "code", "detail", "trace_id", "errors":
		default:
			body = appendMember(body, m.Name, m.Value)
		}
	}
	return append(body, "}\n"...)
}

// traceID returns the id of the request's trace, "" without one. Usually the response header already has it in
// hexadecimal.
func traceID(ctx context.Context, h http.Header) string {
	const before, digits, whole = len("00-"), 32, len("00-") + 32 + len("-0123456789abcdef-00")
	if header := h["Traceparent"]; len(header) == 1 && len(header[0]) == whole {
		return header[0][before : before+digits]
	}
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}

// appendMember appends a member. It omits a value that cannot be encoded.
func appendMember(to []byte, name string, value any) []byte {
	body := append(appendText(append(to, ','), name), ':')
	switch v := value.(type) {
	case string:
		return appendText(body, v)
	case time.Time:
		if y := v.Year(); y >= 0 && y <= 9999 { // the format of time.Time.MarshalJSON
			return append(v.AppendFormat(append(body, '"'), time.RFC3339Nano), '"')
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return to
	}
	return append(body, raw...)
}

// appendText appends a JSON string. It uses encoding/json if the string needs escapes.
func appendText(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, _ := json.Marshal(s) // never fails for a string
			return append(to, raw...)
		}
	}
	return append(append(append(to, '"'), s...), '"')
}

// retryAfter returns d in whole seconds, at least 1, plus a random part of up to a quarter (at most 3 s), so that
// callers refused at the same time do not retry at the same time.
func retryAfter(d time.Duration) int {
	seconds := max(1, int((d+time.Second-1)/time.Second))
	if spread := min(3, (seconds+3)/4); spread > 0 {
		seconds += rand.IntN(spread + 1) //nolint:gosec // jitter, no secret
	}
	return seconds
}
