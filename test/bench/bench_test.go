package main

import (
	"bufio"
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
	"flashsale.internal/flashctl/client/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheBareHandlerAcceptsAPurchase(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-bare"}, in) }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := load.Target{Host: "h", ActivityID: "7", SKUID: "1"}
	result, err := load.Batch{
		Addr: strings.TrimSpace(addr), Conns: 2, N: 10,
		Request: func(_ int, buf []byte) []byte { return s.AppendPurchase(buf, "t", "p") },
	}.Send(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"202": 10}, result.First.Outcomes)
	cancel()
	require.NoError(t, <-ended)
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
		return m.used().cpu["seckill"] >= 10*time.Millisecond
	}, 30*time.Second, time.Millisecond)
	require.Positive(t, p.memory("redis").now)
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
	b := &bench{merchant: c.As("token"), sales: []*sale{saleOf("7"), saleOf("8"), saleOf("9")}}
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

func saleOf(activityID string) *sale { return &sale{Target: load.Target{ActivityID: activityID}} }

func TestSectionsAreSelectedByName(t *testing.T) {
	names := func(only string) (names []string) {
		selected, err := selectSections(only)
		require.NoError(t, err)
		for _, s := range selected {
			names = append(names, s.name)
		}
		return names
	}
	require.Equal(t, []string{"inline", "fetched", "refused", "payments", "due"}, names(""))
	require.Equal(t, []string{"sustained"}, names("sustained"))
	require.Equal(t, []string{"inline", "refused", "due"}, names("due,inline,refused"))
	_, err := selectSections("inline,closing")
	require.ErrorContains(t, err, `no section "closing"; sections: inline, fetched,`)
	require.ErrorContains(t, run(t.Context(), []string{"-only", "closing"}, io.Discard), "no section")
}

func TestScaleShortensTheSections(t *testing.T) {
	b := &bench{Config: Config{Scale: 0.1}}
	require.Equal(t, 3*time.Second, b.scaled(30*time.Second))
	require.Equal(t, time.Second, b.scaled(5*time.Second))
	require.Equal(t, 2000, b.scaledCount(20_000, 8))
	require.Equal(t, 8, b.scaledCount(20, 8))
}
