package trouble

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// redisDown is for how long Redis is killed, twice.
const redisDown = 30 * time.Second

// TestUpgradeWithoutRedis kills Redis in the middle of an upgrade, while one pod of each service is new. The sale, which
// may not go on without Redis, stops until it is back. Once all pods are new, the sale may go on without it, which is
// killed again: paths then have worker ids of inventory. In the end nothing was lost or done twice, and no two processes
// of seckill have issued with one worker id at the same time.
func TestUpgradeWithoutRedis(t *testing.T) {
	u := beginOutageUpgrade(t, 5700)
	ids := watchWorkerIDs(t, u)
	u.step(u.buying, t, "one new pod of each service", func() { ids.replace(t, 0) })
	u.step(u.buying, t, "Redis was down for a while", func() { u.withoutRedis(t) })
	u.step(u.buying, t, "all pods are new", func() { ids.replace(t, 1) })
	require.Empty(t, ids.ofInventory(), "worker ids of inventory before a sale is degraded")

	u.step(u.buying, t, "the sale may go on without Redis", func() { u.degrade(t) })
	u.awaitModes(t)
	began := time.Now()
	u.withoutRedis(t)
	u.step(u.buying, t, "Redis is back", func() {})
	accepted := u.buyers.Accepted(began.Add(10*time.Second), began.Add(redisDown))
	t.Logf("%d purchases accepted without Redis", accepted)
	require.Positive(t, accepted, "purchases without Redis")
	u.stop()
	ids.stop()

	require.NotEmpty(t, ids.ofInventory())
	ids.separate(t)
	u.refused(t)
	u.buyers.Check(t, u.rig)
	shop.NoDeadLetters(t, u.rig)
}

// withoutRedis kills Redis and starts it again.
func (o *outageUpgrade) withoutRedis(t *testing.T) {
	t.Helper()
	o.dependencies.Do(t, "kill", "redis")
	require.NoError(t, shop.Until(o.buying, time.Now().Add(redisDown)))
	o.dependencies.Do(t, "up", "redis")
}

// degrade lets the sale go on without Redis.
func (o *outageUpgrade) degrade(t *testing.T) {
	t.Helper()
	sale := o.buyers.Sale
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
		o.rig.Client.Origins().Inventory+"/v1/merchant/activities/"+sale.ActivityID,
		strings.NewReader(`{"degraded_sale":{"per_second":100}}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+sale.Merchant.Token())
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// awaitModes waits until inventory has read the gate of the degraded sale, and each process has read the modes.
func (o *outageUpgrade) awaitModes(t *testing.T) {
	t.Helper()
	require.NoError(t, shop.Poll(o.buying, func() (bool, error) {
		return shop.Count(t, o.rig.Dependencies.InventoryDSN,
			"SELECT COUNT(*) FROM redisless_sales WHERE activity_id = ?", o.buyers.Sale.ActivityID) == 1, nil
	}))
	require.NoError(t, shop.Until(o.buying, time.Now().Add(3*time.Second)))
}

// workerIDs has the order_sns that each process of seckill has issued to a caller of its own.
type workerIDs struct {
	upgrade *outageUpgrade
	stop    func()

	mu     sync.Mutex
	starts []int                          // of each pod
	issued map[int]map[string][]time.Time // by worker id and process, in the order of the calls
}

// watchWorkerIDs requests paths of each pod of seckill, some ten a second, until stop is called.
func watchWorkerIDs(t *testing.T, u *outageUpgrade) *workerIDs {
	t.Helper()
	pods := u.rig.Services()[0]
	w := &workerIDs{upgrade: u, starts: make([]int, len(pods)), issued: map[int]map[string][]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for pod, p := range pods {
		origins := u.rig.Client.Origins()
		origins.Seckill = p.URL
		one := client.New(origins, client.Options{Secret: rig.TokenSecret, Timeout: 5 * time.Second, Attempts: 1})
		t.Cleanup(one.Close)
		callers.Go(func() {
			for n := 0; shop.Until(ctx, time.Now().Add(100*time.Millisecond)) == nil; n++ {
				w.mu.Lock()
				process := p.Name + " " + strconv.Itoa(w.starts[pod])
				w.mu.Unlock()
				token, err := one.Token(ctx, "w"+strconv.Itoa(pod)+"-"+strconv.Itoa(n))
				if err != nil {
					continue
				}
				if path, err := one.As(token).NewPath(ctx, u.buyers.Sale.ActivityID); err == nil {
					w.note(process, path.OrderSN)
				}
			}
		})
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		callers.Wait()
	})
	t.Cleanup(w.stop)
	return w
}

func (w *workerIDs) note(process, orderSN string) {
	sn, err := ordersn.Parse(orderSN)
	if err != nil {
		return // buyers would report it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.issued[sn.Worker] == nil {
		w.issued[sn.Worker] = map[string][]time.Time{}
	}
	w.issued[sn.Worker][process] = append(w.issued[sn.Worker][process], sn.Time)
}

// replace replaces one pod of each service.
func (w *workerIDs) replace(t *testing.T, pod int) {
	t.Helper()
	w.mu.Lock()
	w.starts[pod]++
	w.mu.Unlock()
	w.upgrade.replace(t, pod)
}

// ofInventory returns the worker ids of inventory that processes have used.
func (w *workerIDs) ofInventory() (ids []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.issued {
		if id >= ordersn.RedisWorkers {
			ids = append(ids, id)
		}
	}
	return ids
}

// separate requires that the times of the order_sns that two processes have issued with one worker id do not overlap.
func (w *workerIDs) separate(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.issued)) {
		type span struct {
			process     string
			first, last time.Time
		}
		var spans []span
		for process, times := range w.issued[id] {
			s := span{process, slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)}
			t.Logf("worker id %d: %s issued %d order_sns from %s to %s", id, process, len(times),
				s.first.Format(time.TimeOnly), s.last.Format(time.TimeOnly))
			spans = append(spans, s)
		}
		slices.SortFunc(spans, func(a, b span) int { return a.first.Compare(b.first) })
		for i := 1; i < len(spans); i++ {
			require.True(t, spans[i-1].last.Before(spans[i].first), "worker id %d of %s and %s", id, spans[i-1].process,
				spans[i].process)
		}
	}
}
