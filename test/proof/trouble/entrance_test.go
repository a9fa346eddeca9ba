package trouble

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// entrance carries the calls of buyers with tickets of a waiting room, and records who got a path and who had to wait.
type entrance struct {
	*http.Transport
	places map[string]int64 // by ticket; complete before the first path is requested

	mu     sync.Mutex
	in     []passage // a path was issued
	waited []passage // the place was not admitted yet
}

// passage is one response to a path request.
type passage struct {
	place        int64
	began, ended time.Time
}

func newEntrance() *entrance {
	return &entrance{
		Transport: &http.Transport{MaxConnsPerHost: 128, MaxIdleConnsPerHost: 128}, places: map[string]int64{},
	}
}

// RoundTrip implements http.RoundTripper.
func (e *entrance) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/paths") {
		return e.Transport.RoundTrip(req)
	}
	var request struct {
		Ticket string `json:"room_ticket"`
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	began := time.Now()
	resp, err := e.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	stream := resp.Body
	defer func() { _ = stream.Close() }()
	got, err := io.ReadAll(stream)
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if err == nil {
		e.record(passage{e.places[request.Ticket], began, time.Now()}, resp.StatusCode, got)
	}
	return resp, err
}

func (e *entrance) record(p passage, status int, body []byte) {
	var problem struct{ Code contract.Code }
	_ = json.Unmarshal(body, &problem) // the response of a proxy has no code
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case status == http.StatusCreated:
		e.in = append(e.in, p)
	case problem.Code == contract.CodeRoomWaiting:
		e.waited = append(e.waited, p)
	}
}

func (e *entrance) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.in)
}

// check requires that every place got a path, that none had to wait after a higher one had got one, and that no path
// was issued from one time to the other, while the sale was paused.
func (e *entrance) check(t *testing.T, from, to time.Time) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	served := map[int64]bool{}
	for _, p := range e.in {
		served[p.place] = true
		require.False(t, p.began.After(from) && p.ended.Before(to),
			"place %d got a path while the sale was paused", p.place)
	}
	require.Len(t, served, len(e.places), "admitted places are served")
	require.False(t, served[0], "a path for a ticket that no guest has")
	byEnd := func(a, b passage) int { return a.ended.Compare(b.ended) }
	slices.SortFunc(e.in, byEnd)
	slices.SortFunc(e.waited, func(a, b passage) int { return a.began.Compare(b.began) })
	highest, next := int64(0), 0
	for _, p := range e.waited {
		for ; next < len(e.in) && e.in[next].ended.Before(p.began); next++ {
			highest = max(highest, e.in[next].place)
		}
		require.Greater(t, p.place, highest, "a place had to wait, and a higher one had got a path")
	}
	t.Logf("%d paths for %d places; %d times a buyer had to wait", len(e.in), len(served), len(e.waited))
	require.NotEmpty(t, e.waited)
}
