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
		if part != "" && (part[0] >= '0' && part[0] <= '9' || i > 0 && parts[i-1] == "paths") {
			parts[i] = "*"
		}
	}
	return method + " " + strings.Join(parts, "/")
}

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
	told, _ := req.Context().Value(outcomesKey{}).(*outcomes)
	send := func(ctx context.Context) (*http.Response, error) {
		to := t.w.alive(req.URL.Host)
		if to == nil {
			return nil, errors.New("sim: connection refused")
		}
		again := req.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		again.RequestURI = req.URL.RequestURI()
		again.RemoteAddr = "192.0.2.1:1234"
		again.Host = req.URL.Host
		answer := httptest.NewRecorder()
		handler := to.public
		if strings.HasPrefix(req.URL.Path, "/internal/") {
			handler = to.internal
		}
		handler.ServeHTTP(answer, again)
		if to.dead.Load() {
			return nil, errors.New("sim: connection reset")
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return answer.Result(), nil
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
		_, _ = send(out)
	})
	if err != nil {
		return nil, err
	}
	res.Request = req
	if told != nil && res.StatusCode == http.StatusOK && strings.HasSuffix(req.URL.Path, "/orders:close") {
		heard, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		told.note(heard)
		res.Body = io.NopCloser(bytes.NewReader(heard))
	}
	return res, nil
}
