package inventory

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/stockgate"
)

type boardView struct {
	ActivityID string `json:"activity_id"`
	Title      string
	State      string
	Currency   string
	AsOf       time.Time `json:"as_of"`
	Units      struct{ Total, Left, Held, Sold int64 }
	Orders     struct{ Pending, Paid, Closed, Rejected int64 }
	Totals     struct {
		Accepted, Paths int64
		Refused         map[string]int64
	}
	Stock struct {
		SKUs []struct{ Difference int64 }
	}
	Points []boardPoint
}

type boardPoint struct {
	At              time.Time
	Left            *int64
	Accepted, Paths int64
	Refused         map[string]int64
}

// sell lands purchases of activity id: one pending, one paid, one closed, one rejected by the ledger.
func (s *shop) sell(id, sku string) {
	s.t.Helper()
	ctx, activityID := s.t.Context(), id
	var bought []contract.Reservation
	for i := range 3 {
		r := contract.Reservation{OrderSN: newSN(), UserID: fmt.Sprint("u", i), ActivityID: id, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: time.Now().UTC()}
		verdicts, err := s.gate.Reserve(ctx, activityID, []stockgate.Request{{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines}})
		require.NoError(s.t, err)
		require.Equal(s.t, stockgate.Accepted, verdicts[0].Outcome)
		bought = append(bought, r)
	}
	c := consumerOf(s.svc)
	require.NoError(s.t, c.Reservations(ctx, message(s.t, contract.TopicReservations, bought...)))
	for _, e := range []contract.OrderEvent{
		event(bought[0], contract.OrderCreated), event(bought[1], contract.OrderCreated), event(bought[2], contract.OrderCreated),
		event(bought[1], contract.OrderPaid), event(bought[2], contract.OrderClosed),
	} {
		require.NoError(s.t, c.OrderEvents(ctx, message(s.t, contract.TopicOrderEvents, e)))
	}
}

// The board has the counts of the gate, of the ledger, and of all processes that count requests.
func TestBoardAgainstKnownCounts(t *testing.T) {
	t.Parallel()
	s, at, id, sku := selling(t, 10)
	s.sell(id, sku)
	second := time.Now().UTC().Truncate(time.Second).Add(-10 * time.Second)
	for _, source := range []string{"pod-1", "pod-2"} {
		for n := range 3 {
			require.NoError(t, s.gate.AddCounts(t.Context(), id, source, stockgate.RequestCounts{
				At: second.Add(time.Duration(n) * time.Second), Accepted: 2, Paths: 5, Refused: map[string]int64{"sold_out": 7},
			}))
		}
	}
	// Of the present second more may come.
	require.NoError(t, s.gate.AddCounts(t.Context(), id, "pod-1", stockgate.RequestCounts{At: time.Now().UTC().Truncate(time.Second), Paths: 1}))
	var b boardView
	got := s.do("GET", at+"/board", "")
	require.Equal(t, 200, got.status, "%s", got.body)
	got.into(t, &b)
	require.Equal(t, []string{id, "Sale", "open", "EUR"}, []string{b.ActivityID, b.Title, b.State, b.Currency})
	require.Equal(t, struct{ Total, Left, Held, Sold int64 }{10, 8, 1, 1}, b.Units)
	require.Equal(t, struct{ Pending, Paid, Closed, Rejected int64 }{1, 1, 1, 0}, b.Orders)
	require.Equal(t, []int64{3, 31, 42}, []int64{b.Totals.Accepted, b.Totals.Paths, b.Totals.Refused["sold_out"]})
	require.Len(t, b.Points, 3)
	for n, p := range b.Points {
		require.Equal(t, second.Add(time.Duration(n)*time.Second), p.At)
		require.Equal(t, []int64{4, 10, 14}, []int64{p.Accepted, p.Paths, p.Refused["sold_out"]})
		require.Nil(t, p.Left, "no board was open")
	}
	require.Zero(t, b.Stock.SKUs[0].Difference)

	// A change of the merchant shows at once, also within the second of a sample.
	require.Equal(t, 200, s.do("POST", at+"/pause", "").status)
	s.do("GET", at+"/board", "").into(t, &b)
	require.Equal(t, "paused", b.State)

	// Boards of a draft and of an ended sale.
	s.do("GET", "/v1/merchant/activities/"+s.draft(sku, 3)+"/board", "").into(t, &b)
	require.Equal(t, "draft", b.State)
	require.Equal(t, struct{ Total, Left, Held, Sold int64 }{3, 3, 0, 0}, b.Units)
	require.Equal(t, 200, s.do("POST", at+"/end", "").status)
	s.do("GET", at+"/board", "").into(t, &b)
	require.Equal(t, "ended", b.State)
}

// serve serves the shop's handler on a port until the returned function is called, as a process does.
func (s *shop) serve() (url string, stop func()) {
	l, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- httpserver.Serve(ctx, "test", l, s.svc.Handler(), s.svc.deps.Telemetry.Log) }()
	return "http://" + l.Addr().String(), func() {
		cancel()
		require.NoError(s.t, <-ended)
	}
}

// events opens the board's stream and returns its events, name and data; they end with the stream.
func (s *shop) events(url string) <-chan [2]string {
	s.t.Helper()
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(s.t, 200, res.StatusCode)
	require.Equal(s.t, "text/event-stream", res.Header.Get("Content-Type"))
	out := make(chan [2]string, 1000)
	go func() {
		defer close(out)
		name := ""
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				out <- [2]string{name, text}
			}
		}
	}()
	return out
}

func TestBoardEvents(t *testing.T) {
	t.Parallel()
	s, at, id, sku := selling(t, 10)
	s.svc.board.Interval, s.svc.board.StockEvery = 20*time.Millisecond, 50*time.Millisecond
	url, stop := s.serve()
	events := s.events(url + at + "/board/events")
	next := func(name string) (data string) {
		t.Helper()
		for e := range events {
			if e[0] == name {
				return e[1]
			}
		}
		t.Fatalf("the stream ended before event %s", name)
		return ""
	}
	var b boardView
	require.NoError(t, json.Unmarshal([]byte(next("board")), &b))
	require.Equal(t, int64(10), b.Units.Left)
	require.Contains(t, next("point"), `"point":null`)
	require.Contains(t, next("stock"), `"difference":0`)

	s.sell(id, sku)
	second := time.Now().UTC().Truncate(time.Second).Add(-4 * time.Second)
	for n := range 2 { // both are settled; each comes in an event of its own
		require.NoError(t, s.gate.AddCounts(t.Context(), id, "pod", stockgate.RequestCounts{At: second.Add(time.Duration(n) * time.Second), Accepted: int64(n + 1)}))
	}
	var points []boardPoint
	var last struct {
		boardView
		Point *boardPoint
	}
	for len(points) < 2 {
		last.Point = nil
		require.NoError(t, json.Unmarshal([]byte(next("point")), &last))
		if last.Point != nil {
			points = append(points, *last.Point)
		}
	}
	require.Equal(t, []int64{1, 2}, []int64{points[0].Accepted, points[1].Accepted})
	require.Equal(t, second, points[0].At)
	for last.Units.Left == 7 { // a sample reads the units first: the last release may come after that
		require.NoError(t, json.Unmarshal([]byte(next("point")), &last))
	}
	require.Equal(t, int64(8), last.Units.Left)
	require.Equal(t, int64(3), last.Totals.Accepted)

	// Another process adds its counts late, of a second that was sent and of an earlier one without a point.
	for n := range 2 {
		at := second.Add(time.Duration(n-1) * time.Second)
		require.NoError(t, s.gate.AddCounts(t.Context(), id, "late", stockgate.RequestCounts{At: at, Paths: int64(2 - n)}))
	}
	late := map[time.Time]boardPoint{}
	for len(late) < 2 {
		last.Point = nil
		require.NoError(t, json.Unmarshal([]byte(next("point")), &last))
		if last.Point != nil {
			late[last.Point.At] = *last.Point
		}
	}
	require.Equal(t, []int64{1, 1}, []int64{late[second].Accepted, late[second].Paths})
	require.Equal(t, []int64{0, 2}, []int64{late[second.Add(-time.Second)].Accepted, late[second.Add(-time.Second)].Paths})
	for range 3 {
		require.Contains(t, next("point"), `"point":null`, "what is unchanged is sent once")
	}

	// At the end of the process the stream ends, and the listener does not wait for it.
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), 5*time.Second)
	for range events { // ends
	}
	require.Eventually(t, func() bool { return s.svc.board.Open() == 0 }, 30*time.Second, time.Millisecond)
}

func TestBoardEventsEndAndAreBounded(t *testing.T) {
	t.Parallel()
	s, at, _, _ := selling(t, 10)
	s.svc.board.StreamFor, s.svc.board.Heartbeat = 2*time.Second, 50*time.Millisecond
	got := s.do("GET", at+"/board/events", "")
	require.Equal(t, 200, got.status)
	require.Equal(t, "no", got.header.Get("X-Accel-Buffering"))
	body := string(got.body)
	require.True(t, strings.HasPrefix(body, "retry: 2000\n\nevent: board\ndata: {"), body)
	require.Contains(t, body, "\n\n: \n\n", "heartbeats")
	require.True(t, strings.HasSuffix(body, "event: end\ndata: {}\n\n"), body)
	require.Zero(t, s.svc.board.Open())

	s.svc.board.StreamsPerUser = 0
	refused := s.do("GET", at+"/board/events", "")
	require.Equal(t, []any{503, "overloaded"}, []any{refused.status, refused.code()})
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	s.svc.board.StreamsPerUser = 4
	s.mini.SetError("LOADING Redis is loading the dataset in memory")
	s.svc.board.Interval = time.Millisecond
	require.Equal(t, "gate_unavailable", s.do("GET", at+"/board/events", "").code())
	require.Equal(t, "gate_unavailable", s.do("GET", at+"/board", "").code())
	require.Equal(t, 404, s.do("GET", "/v1/merchant/activities/4242/board/events", "").status)
	require.Equal(t, 400, s.do("GET", at+"/board/events", `{}`).status, "a stream takes no body")
}
