package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// write responds with err to a traced request and returns the response, its document and the log.
func write(t *testing.T, err error) (*http.Response, map[string]any, string) {
	t.Helper()
	var log bytes.Buffer
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/v1/secret-path", nil)
	r = r.WithContext(telemetry.WithTraceparent(context.Background(), parent))
	Write(w, r, telemetry.NewLogger(&log, slog.LevelInfo), err)
	doc := map[string]any{}
	if w.Body.Len() > 0 {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	}
	return w.Result(), doc, log.String()
}

func TestEveryCodeHasItsStatus(t *testing.T) {
	seen := map[contract.Code]bool{}
	for status, codes := range map[int][]contract.Code{
		400: {contract.CodeInvalidRequest},
		401: {contract.CodeUnauthenticated},
		403: {contract.CodeForbidden, contract.CodePathInvalid, contract.CodePathExpired, contract.CodeChallengeRequired, contract.CodeChallengeWrong, contract.CodeRoomRequired},
		404: {contract.CodeNotFound},
		405: {contract.CodeMethodNotAllowed},
		413: {contract.CodeBodyTooLarge},
		415: {contract.CodeUnsupportedMediaType},
		409: {
			contract.CodeActivityNotStarted, contract.CodeActivityEnded, contract.CodeActivityPaused, contract.CodeSoldOut, contract.CodeLimitReached,
			contract.CodeInsufficientStock, contract.CodeOrderNotPayable, contract.CodeStateConflict, contract.CodeIdempotencyConflict,
			contract.CodeQuotaExceeded,
		},
		429: {contract.CodeRateLimited, contract.CodeRoomWaiting},
		503: {contract.CodeOverloaded, contract.CodeGateUnavailable, contract.CodeJournalFull, contract.CodeProviderBusy, contract.CodeUnavailable},
		500: {contract.CodeInternal, "made_up"},
	} {
		for _, code := range codes {
			seen[code] = true
			require.Equal(t, status, Status(code), code)
			resp, doc, _ := write(t, contract.Refuse(code, "Why."))
			require.Equal(t, status, resp.StatusCode)
			require.InDelta(t, status, doc["status"], 0)
			require.NotEmpty(t, doc["title"])
			if code != "made_up" {
				require.EqualValues(t, code, doc["code"])
			}
		}
	}
	for code := range kinds {
		require.True(t, seen[code], code)
	}
}

func TestARefusalIsWrittenAsItIs(t *testing.T) {
	refusal := contract.Refuse(contract.CodeLimitReached, "You hold one.").With("order_sn", "77").With("order_sns", []string{"77"}).
		With("status", "forged").With("code", "forged").Because(errors.New("inside"))
	resp, doc, log := write(t, fmt.Errorf("wrapped: %w", refusal))
	require.Equal(t, ContentType, resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	require.Empty(t, resp.Header.Get("Retry-After"))
	require.Equal(t, map[string]any{
		"type": "about:blank", "title": "The limit per buyer is reached", "status": 409.0, "detail": "You hold one.",
		"code": "limit_reached", "trace_id": "0af7651916cd43dd8448eb211c80319c", "order_sn": "77", "order_sns": []any{"77"},
	}, doc)
	require.Empty(t, log, "errors of callers are not logged")
}

func TestAFailedPreconditionHasItsOwnStatus(t *testing.T) {
	refusal := contract.Refuse(contract.CodeStateConflict, "changed").With("version", 3).FailedPrecondition()
	resp, doc, _ := write(t, refusal)
	require.Equal(t, http.StatusPreconditionFailed, resp.StatusCode)
	require.Equal(t, []any{412.0, "state_conflict", 3.0}, []any{doc["status"], doc["code"], doc["version"]})
}

func TestTheTraceIDIsThatOfTheResponseHeader(t *testing.T) {
	of := func(header ...string) any {
		w := httptest.NewRecorder()
		if header != nil {
			w.Header()["Traceparent"] = header
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(telemetry.WithTraceparent(context.Background(), parent))
		Write(w, r, slog.New(slog.DiscardHandler), contract.Refuse(contract.CodeSoldOut, ""))
		doc := map[string]any{}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
		return doc["trace_id"]
	}
	const here = "0af7651916cd43dd8448eb211c80319c"
	require.Equal(t, here, of())
	require.Equal(t, "11111111111111111111111111111111", of("00-11111111111111111111111111111111-2222222222222222-00"))
	require.Equal(t, here, of("00-1-2-00"))
}

func TestFieldsAreListed(t *testing.T) {
	_, doc, _ := write(t, contract.InvalidField("lines[0].qty", "must be 1 to 100"))
	require.Equal(t, []any{map[string]any{"field": "lines[0].qty", "message": "must be 1 to 100"}}, doc["errors"])
}

func TestTheCauseIsLoggedOnceAndNotInTheResponse(t *testing.T) {
	for name, err := range map[string]error{
		"plain":   errors.New("dial tcp 10.0.0.7: password hush"),
		"refusal": contract.Refuse(contract.CodeInternal, "Sorry.").Because(errors.New("hush")),
	} {
		resp, doc, log := write(t, err)
		require.Equal(t, 500, resp.StatusCode, name)
		require.NotContains(t, fmt.Sprint(doc), "hush")
		require.Equal(t, 1, strings.Count(log, "\n"))
		require.Contains(t, log, "hush")
		require.Contains(t, log, `"trace_id":"0af7651916cd43dd8448eb211c80319c"`)
		require.NotContains(t, log, "secret-path")
	}
}

func TestDeadlineIsUnavailable(t *testing.T) {
	resp, doc, log := write(t, fmt.Errorf("redis: %w", context.DeadlineExceeded))
	require.Equal(t, 503, resp.StatusCode)
	require.Equal(t, "unavailable", doc["code"])
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.Contains(t, log, `"level":"WARN"`)
}

func TestADisconnectedCallerIsNoError(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	query := fmt.Errorf("query: %w", context.Canceled)
	for _, err := range []error{query, contract.Refuse(contract.CodeUnavailable, "Retry.").Because(query)} {
		w := httptest.NewRecorder()
		Write(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), telemetry.NewLogger(&log, slog.LevelInfo), err)
		require.Equal(t, 499, w.Code)
		require.Empty(t, w.Body.String())
		require.Empty(t, log.String())
	}
}

func TestRetryAfterIsWholeSecondsAndSpread(t *testing.T) {
	for after, bounds := range map[time.Duration][2]int{
		0: {1, 2}, time.Millisecond: {1, 2}, time.Second: {1, 2}, 1001 * time.Millisecond: {2, 3}, 10 * time.Second: {10, 13}, time.Hour: {3600, 3603},
	} {
		for range 50 {
			resp, _, _ := write(t, contract.Refuse(contract.CodeRateLimited, "").After(after))
			got, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, got, bounds[0], after)
			require.LessOrEqual(t, got, bounds[1], after)
		}
	}
}

func TestUnauthenticatedNamesTheScheme(t *testing.T) {
	resp, _, _ := write(t, contract.Refuse(contract.CodeUnauthenticated, ""))
	require.Equal(t, "Bearer", resp.Header.Get("WWW-Authenticate"))
}

func TestAMemberThatCannotBeEncodedIsOmitted(t *testing.T) {
	_, doc, _ := write(t, contract.Refuse(contract.CodeSoldOut, "").With("bad", make(chan int)))
	require.Equal(t, "sold_out", doc["code"])
}

func TestHeadHasNoBody(t *testing.T) {
	w := httptest.NewRecorder()
	Write(w, httptest.NewRequest(http.MethodHead, "/", nil), slog.New(slog.DiscardHandler), contract.Refuse(contract.CodeNotFound, ""))
	require.Equal(t, 404, w.Code)
	require.Empty(t, w.Body.String())
}
