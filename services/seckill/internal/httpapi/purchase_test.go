package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// read parses the body of a purchase request.
func read(body string) ([]contract.Line, error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return readPurchase(httptest.NewRecorder(), r)
}

func TestPurchaseBodiesAreParsedInEveryForm(t *testing.T) {
	one := []contract.Line{{SKUID: "7", Qty: 2}}
	for body, want := range map[string][]contract.Line{
		`{"lines":[{"sku_id":"7","qty":2}]}`:                               one,
		`{"lines":[{"qty":2,"sku_id":"7"}]}`:                               one,
		` { "lines" : [ { "sku_id" : "7" , "qty" : 2 } ] } `:               one,
		`{"lines":[{"sku_id":"\u0037","qty":2}]}`:                          one,
		`{"lines":[{"sku_id":"7","qty":2},{"sku_id":"8","qty":100}]}`:      {{SKUID: "7", Qty: 2}, {SKUID: "8", Qty: 100}},
		`{"lines":[{"sku_id":"9223372036854775807","qty":1}]}`:             {{SKUID: "9223372036854775807", Qty: 1}},
		"{\"lines\":[{\"sku_id\":\"7\",\"qty\":2}]}\n":                     one,
		`{"lines":[{"sku_id":"7","qty":2}],"lines":[]}`:                    nil,
		`{"lines":[{"sku_id":"7","qty":2,"qty":3}]}`:                       nil,
		`{"lines":[{"sku_id":"7","qty":02}]}`:                              nil,
		`{"lines":[{"sku_id":"7","qty":0}]}`:                               nil,
		`{"lines":[{"sku_id":"7","qty":101}]}`:                             nil,
		`{"lines":[{"sku_id":"7","qty":1.5}]}`:                             nil,
		`{"lines":[{"sku_id":"7","qty":99999999999999999999}]}`:            nil,
		`{"lines":[{"sku_id":"07","qty":1}]}`:                              nil,
		`{"lines":[{"sku_id":"99999999999999999999","qty":1}]}`:            nil,
		`{"lines":[{"sku_id":"","qty":1}]}`:                                nil,
		`{"lines":[{"sku_id":"7","qty":1},{"sku_id":"7","qty":1}]}`:        nil,
		`{"lines":[{"sku_id":"7","qty":1},]}`:                              nil,
		`{"lines":[{"sku_id":"7","qty":1}]`:                                nil,
		`{"lines":[{"sku_id":"7","qty":1}]}{}`:                             nil,
		`{"lines":[]}`:                                                     nil,
		`{"lines":[` + strings.Repeat(`{"sku_id":"7","qty":1},`, 20) + `]`: nil,
		``: nil,
	} {
		lines, err := read(body)
		if want == nil {
			require.Error(t, err, body)
			require.Equal(t, contract.CodeInvalidRequest, contract.CodeOf(err), body)
			continue
		}
		require.NoError(t, err, body)
		require.Equal(t, want, lines, body)
	}
}

// encoding/json parses every body that the scanner accepts to the same lines.
func FuzzScanPurchase(f *testing.F) {
	for _, s := range []string{`{"lines":[{"sku_id":"7","qty":2}]}`, `{"lines":[{"sku_id":"7","qty":2},{"sku_id":"8","qty":0}]}`, `{"lines":[{"sku_id":"7","qty":00}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		lines, ok := scanPurchase([]byte(body))
		if !ok {
			return
		}
		var want purchaseBody
		require.NoError(t, json.Unmarshal([]byte(body), &want))
		require.Equal(t, fromLines(want.Lines), lines)
	})
}

func TestAcceptedResponseMatchesTheAPI(t *testing.T) {
	w := httptest.NewRecorder()
	writeAccepted(w, core.Purchased{
		Reservation: core.Reservation{ActivityID: "1", OrderSN: "77", Status: core.StatusCreated}, Ticket: "aB-_9",
	})
	require.Equal(t, 202, w.Code)
	require.Equal(t, "/v1/activities/1/reservations/77", w.Header().Get("Location"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	var got api.ReservationAccepted
	require.NoError(t, d.Decode(&got))
	require.Equal(t, api.ReservationAccepted{
		OrderSn: "77", Status: api.StatusCreated, ResultUrl: "/v1/activities/1/reservations/77",
		EventsUrl: "/v1/activities/1/reservations/77/events?ticket=aB-_9",
	}, got)
}
