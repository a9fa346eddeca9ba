package bench

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/latency"
	"flashsale.internal/flashctl/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBareHandlerAcceptsAPurchase(t *testing.T) {
	s := &sale{id: "7", body: `{"lines":[{"sku_id":"1","qty":1}]}`}
	raw := s.purchase(nil, "shop:1", &buyer{token: "t0ken", path: "p4th"})
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	require.NoError(t, err)
	require.Equal(t, "POST", r.Method)
	require.Equal(t, "/v1/activities/7/paths/p4th/reservations", r.URL.Path)
	require.Equal(t, "shop:1", r.Host)
	require.Equal(t, "Bearer t0ken", r.Header.Get("Authorization"))
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, s.body, string(body))

	w := httptest.NewRecorder()
	r.Body = io.NopCloser(strings.NewReader(s.body))
	BareHandler().ServeHTTP(w, r)
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Equal(t, bareBody, w.Body.String())
}

func TestServeBarePrintsItsAddressAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- ServeBare(ctx, in) }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := &sale{id: "7", body: "{}"}
	result, err := load.Batch{
		Addr: strings.TrimSpace(addr), Conns: 2, N: 10,
		Request: func(_ int, buf []byte) []byte { return s.purchase(buf, "h", &buyer{token: "t", path: "p"}) },
	}.Send(ctx)
	require.NoError(t, err)
	require.Equal(t, map[int]int{202: 10}, result.Statuses)
	cancel()
	require.NoError(t, <-ended)
}

func TestMember(t *testing.T) {
	body := []byte(`{"path":"abc","order_sn":"12","n":1}`)
	require.Equal(t, "abc", member(body, "path"))
	require.Equal(t, "12", member(body, "order_sn"))
	require.Empty(t, member(body, "n"))
	require.Empty(t, member(body, "other"))
	require.Empty(t, member([]byte(`{"path":"abc`), "path"))
}

func TestFindProcessesReadsPidFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := findProcesses(dir)
	require.Error(t, err, "no pid files")
	for _, name := range processNames {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600))
	}
	p, err := findProcesses(dir)
	require.NoError(t, err)
	m := p.meter()
	require.Eventually(t, func() bool {
		for range 1_000_000 {
		}
		return m.used().CPU["seckill"] >= 10*time.Millisecond
	}, 30*time.Second, time.Millisecond)
	require.Positive(t, p.memory()["redis"].Now)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis.pid"), []byte("none"), 0o600))
	_, err = findProcesses(dir)
	require.ErrorContains(t, err, "redis")
}

func TestSalesAreEnded(t *testing.T) {
	var mu sync.Mutex
	ended := map[string]bool{}
	merchants := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ended[r.URL.Path] = true
		if r.URL.Path == "/v1/merchant/activities/8/end" {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	t.Cleanup(merchants.Close)
	c := client.New(client.Single(merchants.URL), client.Options{})
	t.Cleanup(c.Close)
	b := &bench{merchant: c.As("token"), sales: []*sale{{id: "7"}, {id: "8"}, {id: "9"}}}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.endSales(interrupted)
	require.ErrorContains(t, err, "end sale 8")
	require.NotContains(t, err.Error(), "end sale 9")
	mu.Lock()
	defer mu.Unlock()
	for _, id := range []string{"7", "8", "9"} {
		require.True(t, ended["/v1/merchant/activities/"+id+"/end"], id)
	}
}

func TestMediansAndRatios(t *testing.T) {
	series := Series{sampleOf(30), sampleOf(10), sampleOf(20)}
	require.InDelta(t, 20, series.median().PerSec, 0)
	require.InDelta(t, 10, series[1:].median().PerSec, 0, "the lower of two")
	require.Zero(t, Series(nil).median().PerSec)
	require.InDelta(t, 2, middle([]float64{3, 2, 1}), 0)
	require.Zero(t, ratio(1, 0))

	slow, fast := sampleOf(30), sampleOf(60) // a shared host: both rates double
	slow.Bare, fast.Bare = 100, 200
	require.InDelta(t, 0.3, Series{slow, fast, slow}.ofBare(), 1e-9)
	require.Zero(t, Series(nil).ofBare())
	require.Equal(t, "30 (0.30), 60 (0.30)", Series{slow, fast}.all())
	fast.Bare = 300
	require.Equal(t, "7, 30 to 60 (0.20 to 0.30)", Series{fast, slow, slow, slow, slow, slow, slow}.all())
	require.Equal(t, "7, 10 to 20", Series{sampleOf(20), sampleOf(10), sampleOf(20), sampleOf(10), sampleOf(20), sampleOf(10), sampleOf(10)}.all())
}

func TestEveryResponseMustHaveTheStatus(t *testing.T) {
	sample := sampleOf(10)
	sample.Statuses = map[int]int{http.StatusConflict: 100}
	require.NoError(t, sample.only(http.StatusConflict))
	require.ErrorContains(t, sample.only(http.StatusOK), "not all 100 responses were 200")
	sample.Statuses = map[int]int{http.StatusConflict: 99, http.StatusServiceUnavailable: 1}
	require.Error(t, sample.only(http.StatusConflict))
}

func sampleOf(perSec float64) Sample {
	return Sample{
		BatchResult: load.BatchResult{PerSec: perSec, Count: 100, Latency: latency.Summary{
			Count: 100, P50: time.Millisecond, P99: 20 * time.Millisecond, Max: 3 * time.Second,
		}},
		Use: Usage{Wall: time.Second, CPU: map[string]time.Duration{"seckill": 5 * time.Millisecond, generator: time.Millisecond}},
	}
}

func TestReportStatesRatiosAndTargets(t *testing.T) {
	burst, refused := sampleOf(400), sampleOf(500)
	burst.Bare, refused.Bare = 1000, 1000
	r := Report{
		CPUs: 2, Bare: Series{sampleOf(1000)}, Burst: Series{burst}, Refused: Series{refused},
		Raw: []Inserts{{PerSec: 10_000, Transactions: latency.Of([]time.Duration{10 * time.Millisecond}), Use: Usage{Wall: time.Second}}}, Offered: []Offered{{PerSec: 900, Offered: 1000, Accepted: sampleOf(1000)}},
		Drained: []Landed{{Orders: 100, Drained: 80, DrainPerSec: 1100, Whole: Usage{Wall: time.Second}}},
		Closings: []Closing{
			{Orders: 20_000, Activities: 8, Spread: 2 * time.Second, Restored: 4 * time.Second},
			{Orders: 100_000, Activities: 8, Restored: 30 * time.Second},
		},
		Payments: []Payments{{
			Count: 100, Begun: sampleOf(1500).BatchResult, BegunUse: Usage{Wall: time.Second}, Behind: time.Second,
			PaidUse: Usage{Wall: time.Second, CPU: map[string]time.Duration{"order": 30 * time.Millisecond}},
		}},
		Books: Books{Accepted: 3, Ledger: 2, Orders: 3, Wrong: []string{"activity 1: one is lost"}},
	}
	var out strings.Builder
	r.Markdown(&out)
	for _, want := range []string{
		"| purchases accepted, burst | 400 | 0.40 | ≥ 0.30 | 1.0 ms | 20 ms | 3.00 s | 400 (0.40) |",
		"| bare handler | 1000 | 1.00 | – |",
		"| purchases refused as sold out | 500 | 0.50 | ≥ 0.60 |",
		"4 writers | 10000 | 1.00 | – | a transaction in 10 ms p50, 10 ms p99, 10 ms max |",
		"| landed while 1000 purchases/s were offered | 900 | 0.090 | ≥ 0.08 |",
		"| landed while draining a backlog | 1100 | 0.110 |",
		"4.00 s after the last deadline (target: 10s)",
		"| accepted, burst (with landing meanwhile) | 0 | 50 | 0 |",
		"| closed and restored, MySQL and gate | 30.0 s after the last deadline |",
		"| payment begun | 100 | 1500 | 1.0 ms | 20 ms | 3.00 s |",
		"| callback, and paid event until the gate settles it | 0 | 0 | 0 | 0 | 300 | 0 |",
		"WRONG: activity 1: one is lost",
	} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "No purchase was lost")
}
