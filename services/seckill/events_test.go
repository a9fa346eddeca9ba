package seckill_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
)

// stream delivers server-sent events as "event data".
type stream struct {
	t      *testing.T
	res    *http.Response
	events chan string
}

func (r *rig) open(url string) *stream {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.url+url, nil)
	require.NoError(r, err)
	client := &http.Client{Transport: r.client.Transport} // without a time-out
	res, err := client.Do(req)
	require.NoError(r, err)
	s := &stream{t: r.T, res: res, events: make(chan string, 100)}
	r.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode == http.StatusOK {
		require.Equal(r, "text/event-stream", res.Header.Get("Content-Type"))
		go s.read()
	}
	return s
}

func (s *stream) read() {
	defer close(s.events)
	lines := bufio.NewScanner(s.res.Body)
	name := ""
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			s.events <- name + " " + line[len("data: "):]
		case strings.HasPrefix(line, ":"):
			s.events <- "heartbeat"
		}
	}
}

// next returns the next event, or "" at the end of the stream.
func (s *stream) next() string {
	s.t.Helper()
	select {
	case e := <-s.events:
		return e
	case <-time.After(time.Minute):
		s.t.Fatal("no event")
		return ""
	}
}

func (s *stream) status() string {
	s.t.Helper()
	data, ok := strings.CutPrefix(s.next(), "status ")
	require.True(s.t, ok)
	var body map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(data), &body))
	return body["status"].(string)
}

func TestEvents(t *testing.T) {
	each(t, func(t *testing.T, real bool) {
		r := newRig(t, setup{real: real})
		activity := r.sale(10)
		p := r.path("alice", activity)
		url := r.buy(p, oneOf("1")).is(t, 202, "").str("events_url")
		s := r.open(url)
		require.Equal(t, "queued", s.status())

		activityID, one := activity, []contract.Line{{SKUID: "1", Qty: 1}}
		settle := func(step stockgate.Step) {
			require.NoError(t, r.gate.Settle(t.Context(), activityID, []stockgate.Settlement{{
				OrderSN: p.orderSN, UserID: "alice", Lines: one, Step: step, ExpiresAt: r.now().Add(time.Minute),
			}}))
		}
		settle(stockgate.StepCreated)
		require.Equal(t, "created", s.status())
		settle(stockgate.StepPaid)
		require.Equal(t, "paid", s.status())
		require.Equal(t, "end {}", s.next())
		require.Empty(t, s.next(), "the stream has ended")
		require.Equal(t, http.StatusNoContent, r.open(url).res.StatusCode, "a terminal purchase has no stream")
	})
}

func TestEventsNeedAValidTicket(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	activity := r.sale(10)
	p := r.path("alice", activity)
	url := r.buy(p, oneOf("1")).is(t, 202, "").str("events_url")
	plain, ticket, _ := strings.Cut(url, "?ticket=")
	r.call("GET", plain, p.token, nil).is(t, http.StatusUnauthorized, contract.CodeUnauthenticated)
	r.call("GET", plain+"?ticket="+ticket[1:], "", nil).is(t, http.StatusUnauthorized, contract.CodeUnauthenticated)
	r.call("GET", strings.Replace(url, p.orderSN, "1", 1), "", nil).
		is(t, http.StatusUnauthorized, contract.CodeUnauthenticated)
	r.call("GET", strings.Replace(url, p.orderSN, "x", 1), "", nil).is(t, http.StatusNotFound, contract.CodeNotFound)

	r.mini.SetTime(time.Now().Add(6 * time.Minute))
	require.Eventually(t, func() bool { return r.open(url).res.StatusCode == http.StatusUnauthorized },
		30*time.Second, 50*time.Millisecond)
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{cfg: func(c *config) { c.StreamsMax = 3 }})
	activity := r.sale(10)
	events := func(user string) string {
		return r.buy(r.path(user, activity), oneOf("1")).is(t, 202, "").str("events_url")
	}
	alice, bob := events("alice"), events("bob")
	first := r.open(alice)
	require.Equal(t, "queued", first.status())
	require.Equal(t, "queued", r.open(alice).status())
	r.call("GET", alice, "", nil).is(t, http.StatusServiceUnavailable, contract.CodeOverloaded)
	require.Equal(t, "queued", r.open(bob).status())
	r.call("GET", bob, "", nil).is(t, http.StatusServiceUnavailable, contract.CodeOverloaded)
	require.NoError(t, first.res.Body.Close())
	require.Eventually(t, func() bool { return r.open(alice).res.StatusCode == http.StatusOK },
		30*time.Second, 20*time.Millisecond)
}

func TestHeadKeepsNoStreamOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	events := r.buy(r.path("alice", r.sale(10)), oneOf("1")).is(t, 202, "").str("events_url")
	for range 3 {
		require.Equal(t, "text/event-stream", r.call("HEAD", events, "", nil).is(t, http.StatusOK, "").Header.Get("Content-Type"))
	}
	require.Equal(t, "queued", r.open(events).status())
}

func TestStreamsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	tel, log := logging(t)
	r := newRig(t, setup{tel: tel})
	s := r.open(r.buy(r.path("alice", r.sale(10)), oneOf("1")).is(t, 202, "").str("events_url"))
	require.Equal(t, "queued", s.status())
	began := time.Now()
	r.stop()
	require.Less(t, time.Since(began), 5*time.Second, "a stream does not hold up the end")
	require.NotContains(t, log.String(), "requests cut off")
	require.Empty(t, s.next())
}

// A body that is announced and never sent must not hold a connection: over TCP, the response comes at once and the
// connection ends.
func TestAnEventStreamTakesNoBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	url := r.buy(r.path("alice", r.sale(10)), oneOf("1")).is(t, 202, "").str("events_url")
	plain, _, _ := strings.Cut(url, "?ticket=")
	for name, target := range map[string]string{"without a ticket": plain, "with a ticket": url} {
		for _, announced := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, err = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: shop\r\n"+announced+"\r\n\r\n")
			require.NoError(t, err)
			began, reader := time.Now(), bufio.NewReader(conn)
			res, err := http.ReadResponse(reader, nil)
			require.NoError(t, err, "%s, %s", name, announced)
			require.Equal(t, http.StatusBadRequest, res.StatusCode)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Contains(t, string(body), `"code":"invalid_request"`)
			_, err = reader.ReadByte()
			require.ErrorIs(t, err, io.EOF, "the connection ends")
			require.Less(t, time.Since(began), 8*time.Second, "before the server's own time limit")
		}
	}
	require.Equal(t, "queued", r.open(url).status())
}
