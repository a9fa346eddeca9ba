package httpserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

type purchase struct {
	Lines    []contract.Line `json:"lines"`
	StartsAt Time            `json:"starts_at"`
	Note     *string         `json:"note,omitempty"`
	Small    int8            `json:"small"`
	Open     bool            `json:"open"`
	Extra    map[string]int  `json:"extra"`
}

func decodeBody(body string, dst any) error {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	return DecodeJSON(httptest.NewRecorder(), r, dst)
}

func TestDecodeJSONRefusesAndNamesTheField(t *testing.T) {
	for name, c := range map[string]struct{ body, field, message string }{
		"empty":               {"", "body", "is missing"},
		"spaces":              {" \n", "body", "is missing"},
		"not JSON":            {"{x}", "body", "is not JSON"},
		"cut":                 {`{"lines":[`, "body", "is not complete"},
		"null":                {"null", "body", "must be a JSON object"},
		"list":                {"[]", "body", "must be a JSON object"},
		"number":              {"1", "body", "must be a JSON object"},
		"two values":          {`{} {}`, "body", "one JSON value"},
		"trailing text":       {`{}]`, "body", "one JSON value"},
		"unknown":             {`{"colour":"red"}`, "colour", "is unknown"},
		"unknown below":       {`{"lines":[{"sku_id":"1","qty":1},{"size":1}]}`, "lines[1].size", "is unknown"},
		"other case":          {`{"Lines":[]}`, "Lines", "is unknown"},
		"twice":               {`{"small":1,"small":2}`, "small", "appears twice"},
		"fraction":            {`{"lines":[{"sku_id":"1","qty":1.5}]}`, "lines[0].qty", "whole number"},
		"exponent":            {`{"lines":[{"sku_id":"1","qty":1e30}]}`, "lines[0].qty", "whole number"},
		"whole exponent":      {`{"lines":[{"sku_id":"1","qty":1e0}]}`, "lines[0].qty", "whole number"},
		"31 digits":           {`{"lines":[{"sku_id":"1","qty":1000000000000000000000000000000}]}`, "lines[0].qty", "whole number"},
		"over int8":           {`{"small":128}`, "small", "whole number"},
		"string for a number": {`{"lines":[{"sku_id":"1","qty":"1"}]}`, "lines[0].qty", "whole number"},
		"number for a string": {`{"lines":[{"sku_id":1,"qty":1}]}`, "lines[0].sku_id", "a string"},
		"object for a list":   {`{"lines":{}}`, "lines", "a list"},
		"list for a string":   {`{"note":[]}`, "note", "a string"},
		"word for a bool":     {`{"open":"yes"}`, "open", "true or false"},
		"bad time":            {`{"starts_at":"tomorrow"}`, "starts_at", "a time"},
		"null field":          {`{"note":null}`, "note", "must not be null"},
		"null below":          {`{"lines":[{"sku_id":"1","qty":null}]}`, "lines[0].qty", "must not be null"},
		"null in a list":      {`{"lines":[null]}`, "lines[0]", "must not be null"},
		"null in a map":       {`{"extra":{"a":null}}`, "extra.a", "must not be null"},
		"null for a time":     {`{"starts_at":null}`, "starts_at", "must not be null"},
		"bad map value":       {`{"extra":{"a":1.5}}`, "extra.a", "whole number"},
		"not UTF-8":           {"{\"note\":\"\xff\"}", "body", "UTF-8"},
		"deep":                {`{"note":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "note", "a string"},
		"long name":           {`{"` + strings.Repeat("n", 5000) + `":1}`, strings.Repeat("n", 64) + "...", "is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			var dst purchase
			var refusal *contract.Refusal
			require.ErrorAs(t, decodeBody(c.body, &dst), &refusal)
			require.Equal(t, contract.CodeInvalidRequest, refusal.Code)
			require.Len(t, refusal.Fields, 1)
			require.Equal(t, c.field, refusal.Fields[0].Field)
			require.Contains(t, refusal.Fields[0].Message, c.message)
		})
	}
}

func TestDecodeJSONBoundsDepthOfUntypedFields(t *testing.T) {
	var dst struct {
		Any any `json:"any"`
	}
	err := decodeBody(`{"any":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`, &dst)
	require.ErrorContains(t, err, "nested too deeply")
}

func TestDecodeJSONAccepts(t *testing.T) {
	var dst purchase
	require.NoError(t, decodeBody(` {"lines":[{"sku_id":"7","qty":2}],"starts_at":"2026-01-02T15:04:05Z","extra":{"a":1}} `, &dst))
	require.Equal(t, []contract.Line{{SKUID: "7", Qty: 2}}, dst.Lines)
	require.Equal(t, 2026, dst.StartsAt.Year())
	require.Nil(t, dst.Note)
	require.Equal(t, map[string]int{"a": 1}, dst.Extra)
}

func TestDecodeJSONRefusesNullInUntypedFields(t *testing.T) {
	var dst struct {
		Any any             `json:"any"`
		Raw json.RawMessage `json:"raw"`
	}
	require.ErrorContains(t, decodeBody(`{"any":{"x":[null]}}`, &dst), "any.x[0]: must not be null")
	require.ErrorContains(t, decodeBody(`{"raw":null}`, &dst), "raw: must not be null")
}

func TestDecodeJSONContentTypeAndSize(t *testing.T) {
	send := func(contentType, encoding, body string) error {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		return DecodeJSON(httptest.NewRecorder(), r, new(purchase))
	}
	require.NoError(t, send("Application/JSON", "", "{}"))
	for _, media := range []string{"", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", ";", "application/merge-patch+json"} {
		require.Equal(t, contract.CodeUnsupportedMediaType, contract.CodeOf(send(media, "", "{}")), media)
	}
	require.Equal(t, contract.CodeUnsupportedMediaType, contract.CodeOf(send("application/json", "gzip", "{}")))

	fits := `{"note":"` + strings.Repeat("x", MaxBody-len(`{"note":""}`)) + `"}`
	require.NoError(t, send("application/json", "", fits))
	require.Equal(t, contract.CodeBodyTooLarge, contract.CodeOf(send("application/json", "", fits+" ")))
}

func TestDecodeOptionalJSON(t *testing.T) {
	dst := purchase{Small: 5}
	require.NoError(t, DecodeOptionalJSON(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), &dst))
	require.Equal(t, int8(5), dst.Small)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{"))
	require.Equal(t, contract.CodeUnsupportedMediaType, contract.CodeOf(DecodeOptionalJSON(httptest.NewRecorder(), r, &dst)))

	chunked := func(body string) error {
		r := httptest.NewRequest(http.MethodPost, "/", struct{ io.Reader }{strings.NewReader(body)}) // of unknown length
		require.EqualValues(t, -1, r.ContentLength)
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		return DecodeOptionalJSON(httptest.NewRecorder(), r, &dst)
	}
	require.NoError(t, chunked(""))
	require.Equal(t, int8(5), dst.Small)
	require.NoError(t, chunked(`{"small":6}`))
	require.Equal(t, int8(6), dst.Small)
	require.Equal(t, contract.CodeBodyTooLarge, contract.CodeOf(chunked(strings.Repeat(" ", MaxBody+1))))
}

func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `{"lines":[{"sku_id":"1","qty":1}]}`, `{"lines":[{"qty":1.5}]}`, `{"a":1}`, `[`, `{"starts_at":"x"}`, `{"extra":{"a":1,"a":2}}`, "{} {}", `{"small":1e2}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var dst purchase
		err := decodeBody(body, &dst)
		if err == nil {
			// An accepted body is one object that encoding/json decodes to the same value without the strict rules.
			var plain purchase
			require.NoError(t, json.Unmarshal([]byte(body), &plain))
			require.Equal(t, plain, dst)
			return
		}
		var refusal *contract.Refusal
		require.ErrorAs(t, err, &refusal)
		switch refusal.Code {
		case contract.CodeInvalidRequest:
			require.Len(t, refusal.Fields, 1)
			require.NotEmpty(t, refusal.Fields[0].Field)
		case contract.CodeBodyTooLarge:
			require.Greater(t, len(body), MaxBody)
		default:
			t.Fatalf("code %s", refusal.Code)
		}
	})
}

func TestTimesAreRFC3339(t *testing.T) {
	want := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, text := range []string{
		"2026-01-02T15:04:05Z", "2026-01-02t15:04:05z", "2026-01-02t16:04:05+01:00", "2026-01-01T15:05:05-23:59",
	} {
		var dst purchase
		require.NoError(t, decodeBody(`{"starts_at":"`+text+`"}`, &dst), text)
		require.True(t, want.Equal(dst.StartsAt.Time), text)
	}
	for _, text := range []string{
		"2026-01-02", "2026-01-02 15:04:05Z", "2026-01-02T15:04:05", "2026-01-02T15:04:05+24:00", "2026-01-02T15:04:05+01:60",
		"2026-01-02T15:04:05,5Z", "2026-01-02T5:04:05Z", "2026-02-30T15:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T15:04:05+0100",
	} {
		var dst purchase
		require.ErrorContains(t, decodeBody(`{"starts_at":"`+text+`"}`, &dst), "a time", text)
	}
}
