package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// wire sends requests to a running process of the host's service. from is nil for buyers and merchants.
type wire struct {
	w    *world
	from *process
	who  string
}

func routeOf(method, path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part != "" && (part[0] >= '0' && part[0] <= '9' || i > 0 && (parts[i-1] == "paths" || parts[i-1] == "captchas")) {
			parts[i] = "*"
		}
	}
	return method + " " + strings.Join(parts, "/")
}

func isClose(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/orders:close") }

// RoundTrip implements http.RoundTripper.
func (t *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	var res *http.Response
	topic, byCall := brokerlessTopic(req.URL.Path)
	if byCall {
		body = t.w.readable(body)
		t.w.noteCall()
	}
	closed, _ := req.Context().Value(outcomesKey{}).(*outcomes)
	send := func(ctx context.Context) (*http.Response, error) {
		if t.w.separated(t.from, req.URL.Host) {
			return nil, errors.New("sim: no route to host")
		}
		if req.URL.Host == providerHost {
			return t.w.checkout.serve(req, body), nil
		}
		to := t.w.alive(req.URL.Host)
		if to == nil {
			return nil, errors.New("sim: connection refused")
		}
		handled := &outcomes{byOrder: map[string]string{}, putOff: map[string]bool{}}
		if byCall {
			ctx = context.WithValue(ctx, outcomesKey{}, handled)
		}
		incoming := req.Clone(ctx)
		incoming.Body = io.NopCloser(bytes.NewReader(body))
		incoming.RequestURI = req.URL.RequestURI()
		incoming.RemoteAddr = "192.0.2.1:1234"
		incoming.Host = req.URL.Host
		if !to.receive(ctx) {
			return nil, ctx.Err()
		}
		recorder := httptest.NewRecorder()
		handler := to.public
		if strings.HasPrefix(req.URL.Path, "/internal/") {
			handler = to.internal
		}
		handler.ServeHTTP(recorder, incoming)
		if !to.receive(ctx) {
			return nil, ctx.Err()
		}
		if recorder.Code == http.StatusCreated && strings.HasSuffix(req.URL.Path, "/paths") {
			t.w.noteIssued(to, recorder.Body.Bytes())
		}
		if to.dead.Load() {
			return nil, errors.New("sim: connection reset")
		}
		if req.URL.Path == contract.ReservePath && recorder.Code == http.StatusOK {
			t.w.noteReserved(body, recorder.Body.Bytes())
		}
		if byCall && recorder.Code == http.StatusNoContent {
			t.w.handledByCall(t.who, to.service, topic, body, handled)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return recorder.Result(), nil
	}
	kinds := []kind{failBefore, failAfter, late, twice, ghost, dieBefore, dieAfter}
	if req.Method == http.MethodGet {
		kinds = []kind{failBefore, late}
	}
	if t.from == nil {
		kinds = []kind{failBefore, failAfter, late, twice, ghost}
		if req.Method == http.MethodGet {
			kinds = []kind{failBefore}
		}
	}
	name := routeOf(req.Method, req.URL.Path)
	err := t.w.pass(req.Context(), t.from, t.who, "http", name, kinds, []any{req.URL.Path, body}, func() (err error) {
		res, err = send(req.Context())
		return err
	}, func() {
		out, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if res, err := send(out); err == nil && isClose(req) {
			if raw, err := io.ReadAll(res.Body); err == nil {
				t.w.noteUnheard(raw)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	res.Request = req
	if closed != nil && res.StatusCode == http.StatusOK && isClose(req) {
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		for _, sn := range closed.note(raw) {
			t.w.noteEarly(sn)
		}
		res.Body = io.NopCloser(bytes.NewReader(raw))
	}
	return res, nil
}
