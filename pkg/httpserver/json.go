package httpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"flashsale.internal/pkg/contract"
)

var discard = slog.New(slog.DiscardHandler)

// DecodeJSON decodes the request's body, which must be one JSON object, into dst. It returns a *contract.Refusal for:
// another content type, a body over MaxBody, no object, more than one value, unknown or repeated fields, null, values
// of the wrong type, and numbers that are not whole or out of range if dst has integers. The refusal names the field.
func DecodeJSON(w http.ResponseWriter, r *http.Request, dst any) error {
	body, err := ReadJSON(w, r)
	if err != nil {
		return err
	}
	return Decode(body, dst)
}

// DecodeOptionalJSON is DecodeJSON for a body that may be missing; dst is then unchanged.
func DecodeOptionalJSON(w http.ResponseWriter, r *http.Request, dst any) error {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength < 0 { // chunked; there may be no chunk
		body := bufio.NewReader(r.Body)
		if _, err := body.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
	}
	return DecodeJSON(w, r, dst)
}

// ReadJSON reads the body of a request with the content type JSON, for Decode. It returns the same refusals as
// DecodeJSON for the content type and the size.
func ReadJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, contract.InvalidField("body", "is missing")
	}
	if value := r.Header.Get("Content-Type"); value != "application/json" { // fast path: most callers send exactly this
		media, _, err := mime.ParseMediaType(value)
		if err != nil || media != "application/json" {
			return nil, contract.Refuse(contract.CodeUnsupportedMediaType, "The body must be application/json.")
		}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, contract.Refuse(contract.CodeUnsupportedMediaType, "The body must not be compressed.")
	}
	var body []byte
	var err error
	if n := r.ContentLength; n > 0 && n <= 1<<10 {
		body = make([]byte, n) // the server never reads beyond ContentLength
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	}
	if err != nil {
		return nil, refuseBody(err)
	}
	return body, nil
}

// refuseBody returns the refusal of a body that could not be read.
func refuseBody(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return contract.Refuse(contract.CodeBodyTooLarge,
			fmt.Sprintf("The body may have at most %d bytes.", tooLarge.Limit))
	}
	return contract.InvalidField("body", "could not be read").Because(err)
}

// Decode is DecodeJSON for a body that ReadJSON returned.
func Decode(body []byte, dst any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return contract.InvalidField("body", "is missing")
	}
	if !utf8.Valid(body) {
		return contract.InvalidField("body", "is not UTF-8")
	}
	if err := checkStrict(body, reflect.TypeOf(dst)); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(dst); err != nil {
		return refuseValue(err, body, dst)
	}
	return nil
}

func refuseValue(err error, body []byte, dst any) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return contract.InvalidField(clip(wrong.Field), "must be "+typeName(wrong.Type))
	}
	if name, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		return contract.InvalidField(clip(strings.TrimSuffix(name, `"`)), "is unknown")
	}
	// The error of a json.Unmarshaler does not name the field. Decoding each field alone finds it.
	t := reflect.TypeOf(dst)
	var fields map[string]json.RawMessage
	if t.Kind() == reflect.Pointer && json.Unmarshal(body, &fields) == nil {
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			one, e := json.Marshal(map[string]json.RawMessage{name: fields[name]})
			if e != nil {
				continue
			}
			if json.Unmarshal(one, reflect.New(t.Elem()).Interface()) != nil {
				var bad *time.ParseError
				if errors.As(err, &bad) || strings.Contains(err.Error(), "Time.UnmarshalJSON") {
					return contract.InvalidField(clip(name), "must be a time such as 2026-01-02T15:04:05Z")
				}
				return contract.InvalidField(clip(name), "is not valid")
			}
		}
	}
	return contract.InvalidField("body", "is not valid")
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number in range"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}

// clip bounds the length of a name that the caller chose, before it is part of a response.
func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "..."
}

// WriteJSON responds with v. A value that cannot be encoded is a bug; the response is then 500.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Errorf("encode response: %w", err)) // the router logs it and responds 500
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // fails if the caller has disconnected
}
