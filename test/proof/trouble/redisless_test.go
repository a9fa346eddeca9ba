package trouble

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// TestSaleWithoutRedis kills Redis for two minutes while at least 1,000 purchases a second are accepted and at least 500
// are not in the ledger.
func TestSaleWithoutRedis(t *testing.T) {
	plan := redislessPlan{
		Burst: 8_000, MinRate: 1000, MinUnlanded: 500, Down: 2 * time.Minute, PerSecond: 100, Arrivals: 60,
		Deadline: 20 * time.Minute, PortOffset: 2700,
	}
	t.Run("with its data", func(t *testing.T) { runRedisless(t, plan) })
	t.Run("empty", func(t *testing.T) {
		plan := plan
		plan.Empty = true
		runRedisless(t, plan)
	})
	t.Run("without the setting", func(t *testing.T) {
		plan := plan
		plan.PerSecond = 0
		runRedisless(t, plan)
	})
}

// redislessPlan is a sale during which Redis is killed in a burst of purchases, and restarted.
type redislessPlan struct {
	Burst       int           // buyers who hold a path and post it at once; Redis is killed when three quarters are accepted
	MinRate     float64       // purchases a second that must have been accepted until the kill
	MinUnlanded int           // accepted purchases that the ledger must lack at the kill
	Down        time.Duration // from the kill to the restart
	PerSecond   int           // of the degraded sale; 0 for none
	Arrivals    int           // new buyers in each second of the outage
	Empty       bool          // Redis comes back without its data
	Deadline    time.Duration
	PortOffset  int // of the dependencies; different from that of every other set that runs
}

// sells bounds the time from the kill to the first purchase without Redis, returns that from the restart to the mode gate.
const (
	sells   = 25 * time.Second
	returns = 60 * time.Second
)

// redislessBuyer is one buyer and the outcome of the purchase.
type redislessBuyer struct {
	caller   *client.Caller
	path     client.Path
	accepted time.Time // of the first 202; zero if there was none
	code     contract.Code
}

type redislessRun struct {
	redislessPlan
	t    *testing.T
	r    *rig.Rig
	sale shop.Sale
	once *client.Client // makes one attempt of each call

	mu      sync.Mutex
	refused []refusal // of the buyers who came during the outage
}

// refusal is a call that was refused during the outage.
type refusal struct {
	at   time.Time
	code contract.Code
}

// runRedisless runs the plan.
func runRedisless(t *testing.T, plan redislessPlan) {
	t.Helper()
	dependencies := rig.OwnDependencies(t, plan.PortOffset)
	r := rig.New(t, dependencies.Option())
	dependencies.Prepare(t, r)
	r.Up(t)
	ctx, cancel := context.WithTimeout(context.Background(), plan.Deadline)
	defer cancel()
	s := &redislessRun{redislessPlan: plan, t: t, r: r}
	r.UsePatientClient(t)
	s.once = client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: 10 * time.Second, Attempts: 1, Connections: 128})
	t.Cleanup(s.once.Close)
	arrivals := int(plan.Down/time.Second) * plan.Arrivals
	s.sale = shop.Open(t, r, shop.Sale{
		// Units are held back for purchases that the gate had not settled when it was last read, also if they had landed.
		Stock: int64(2*plan.Burst + arrivals + 100), PayWithinS: 3600, PerSecond: plan.PerSecond,
	})
	early := s.withPaths(ctx, plan.Burst)
	if plan.PerSecond > 0 {
		s.awaitFigures(ctx)
	}

	killed := s.burst(ctx, early, func() { dependencies.Do(t, "kill", "redis") })
	unlanded := s.unlanded(early, killed)
	t.Logf("%d accepted purchases were not in the ledger when Redis was killed", unlanded)
	require.GreaterOrEqual(t, unlanded, plan.MinUnlanded)

	late := s.arrive(ctx, killed)
	if plan.Empty {
		dependencies.Empty(t, "redis")
	}
	restarted := time.Now()
	dependencies.Do(t, "up", "redis")
	s.afterwards(ctx, early, late, killed, restarted)
}

// withPaths returns buyers who hold a path.
func (s *redislessRun) withPaths(ctx context.Context, n int) []*redislessBuyer {
	callers, err := purchase.NewBuyers(ctx, s.r.Client, n)
	require.NoError(s.t, err)
	all := make([]*redislessBuyer, n)
	require.NoError(s.t, purchase.Each(ctx, 64, n, func(ctx context.Context, i int) error {
		path, err := callers[i].Caller.NewPath(ctx, s.sale.ActivityID)
		all[i] = &redislessBuyer{caller: s.once.As(callers[i].Caller.Token()), path: path}
		return err
	}))
	return all
}

// awaitFigures waits until inventory has read the gate and seckill has read the mode.
func (s *redislessRun) awaitFigures(ctx context.Context) {
	require.NoError(s.t, shop.Poll(ctx, func() (bool, error) {
		return shop.Count(s.t, s.r.Dependencies.InventoryDSN,
			"SELECT COUNT(*) FROM redisless_sales WHERE activity_id = ?", s.sale.ActivityID) == 1, nil
	}))
	require.NoError(s.t, shop.Until(ctx, time.Now().Add(3*time.Second))) // the next reading of each process
}

// burst posts all paths, and calls kill once three quarters are accepted. It returns the time of the kill.
func (s *redislessRun) burst(ctx context.Context, all []*redislessBuyer, kill func()) (killed time.Time) {
	began := time.Now()
	accepted := make(chan struct{}, len(all))
	var posts errgroup.Group
	posts.SetLimit(128)
	var posting sync.WaitGroup
	posting.Go(func() {
		for _, b := range all {
			posts.Go(func() error {
				if s.post(ctx, b) {
					accepted <- struct{}{}
				}
				return nil
			})
		}
		_ = posts.Wait()
	})
	for range len(all) * 3 / 4 {
		select {
		case <-accepted:
		case <-ctx.Done():
			s.t.Fatal("too few purchases were accepted")
		}
	}
	killed = time.Now()
	kill()
	posting.Wait()
	rate := float64(len(all)*3/4) / killed.Sub(began).Seconds()
	s.t.Logf("%.0f purchases a second were accepted before the kill", rate)
	require.GreaterOrEqual(s.t, rate, s.MinRate)
	return killed
}

// post posts the path of a buyer once, and reports whether it was accepted for the first time.
func (s *redislessRun) post(ctx context.Context, b *redislessBuyer) bool {
	_, err := b.caller.Reserve(ctx, s.sale.ActivityID, b.path.Path, s.sale.Lines())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		b.code = client.CodeOf(err)
		return false
	}
	first := b.accepted.IsZero()
	if first {
		b.accepted = time.Now()
	}
	b.code = ""
	return first
}

// ledger returns the states of the rows, with the time of their landing in whole seconds.
func (s *redislessRun) ledger() (states map[string]string, landed map[int64]int) {
	states, landed = map[string]string{}, map[int64]int{}
	shop.Query(s.t, s.r.Dependencies.InventoryDSN, "SELECT order_sn, state, UNIX_TIMESTAMP(landed_at) FROM reservations WHERE activity_id = ?",
		func(rows *sql.Rows) {
			var sn, state string
			var at float64
			require.NoError(s.t, rows.Scan(&sn, &state, &at))
			states[sn] = state
			landed[int64(at)]++
		}, s.sale.ActivityID)
	return states, landed
}

// unlanded returns the number of purchases that were accepted before the kill and had not landed then.
func (s *redislessRun) unlanded(all []*redislessBuyer, killed time.Time) (n int) {
	at := map[string]time.Time{}
	shop.Query(s.t, s.r.Dependencies.InventoryDSN, "SELECT order_sn, UNIX_TIMESTAMP(landed_at) FROM reservations WHERE activity_id = ?",
		func(rows *sql.Rows) {
			var sn string
			var seconds float64
			require.NoError(s.t, rows.Scan(&sn, &seconds))
			at[sn] = time.UnixMilli(int64(seconds * 1000))
		}, s.sale.ActivityID)
	for _, b := range all {
		if landed, is := at[b.path.OrderSN]; !b.accepted.IsZero() && b.accepted.Before(killed) && (!is || landed.After(killed)) {
			n++
		}
	}
	return n
}

// arrive lets new buyers arrive until Redis is to be restarted, and returns those who took a path. Each repeats a refused
// call every second or two.
func (s *redislessRun) arrive(ctx context.Context, killed time.Time) []*redislessBuyer {
	ends := killed.Add(s.Down)
	var all []*redislessBuyer
	var buying errgroup.Group
	tick := time.NewTicker(time.Second / time.Duration(s.Arrivals))
	defer tick.Stop()
	for n := 0; time.Now().Before(ends); n++ {
		<-tick.C
		buying.Go(func() error {
			token, err := s.once.Token(ctx, "late"+strconv.Itoa(n))
			if err != nil {
				return err
			}
			b := &redislessBuyer{caller: s.once.As(token)}
			for time.Now().Before(ends) {
				if b.path.Path == "" {
					path, err := b.caller.NewPath(ctx, s.sale.ActivityID)
					if err == nil {
						s.mu.Lock()
						b.path = path
						all = append(all, b)
						s.mu.Unlock()
					} else if s.refuse(client.CodeOf(err)); s.PerSecond == 0 && client.CodeOf(err) != contract.CodeGateUnavailable &&
						client.CodeOf(err) != contract.CodeUnavailable {
						return fmt.Errorf("a path without Redis: %w", err)
					}
				}
				if b.path.Path != "" {
					if s.post(ctx, b) {
						return nil
					}
					s.refuse(b.code)
				}
				if err := shop.Until(ctx, time.Now().Add(time.Second+time.Duration(n%10)*100*time.Millisecond)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(s.t, buying.Wait())
	return all
}

func (s *redislessRun) refuse(code contract.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, refusal{time.Now(), code})
}

// afterwards checks the outage, and the sale after it.
func (s *redislessRun) afterwards(ctx context.Context, early, late []*redislessBuyer, killed, restarted time.Time) {
	t := s.t
	sold := 0
	bySecond := map[int]int{}
	first := restarted
	for _, b := range slices.Concat(early, late) {
		if b.accepted.After(killed.Add(2*time.Second)) && b.accepted.Before(restarted) {
			sold++
			bySecond[int(b.accepted.Sub(killed).Seconds())]++
			if b.accepted.Before(first) {
				first = b.accepted
			}
		}
	}
	t.Logf("sold without Redis: %d, from %s after the kill on; by second: %v", sold, first.Sub(killed).Round(100*time.Millisecond), bySecond)
	refused := map[contract.Code]map[int]int{}
	for _, r := range s.refused {
		if refused[r.code] == nil {
			refused[r.code] = map[int]int{}
		}
		refused[r.code][int(r.at.Sub(killed).Seconds())]++
	}
	t.Logf("refused without Redis, by code and second: %v", refused)
	shop.Query(t, s.r.Dependencies.InventoryDSN, "SELECT held_back FROM redisless_sales WHERE activity_id = ?", func(rows *sql.Rows) {
		var held string
		require.NoError(t, rows.Scan(&held))
		t.Logf("units that are still held back: %s", held)
	}, s.sale.ActivityID)
	if s.PerSecond == 0 {
		require.Zero(t, sold, "without the setting, every purchase gets 503")
	} else {
		require.Positive(t, sold)
		until := int(restarted.Sub(killed).Seconds())
		require.Positive(t, bySecond[until-2]+bySecond[until-3]+bySecond[until-4]+bySecond[until-5], "until the restart")
		require.LessOrEqual(t, first.Sub(killed), sells)
		_, landed := s.ledger()
		for second, n := range landed {
			if at := time.Unix(second, 0); at.After(killed.Add(sells)) && at.Before(restarted.Add(-time.Second)) {
				require.LessOrEqual(t, n, s.PerSecond, "in the second %s after the kill", at.Sub(killed))
			}
		}
		require.NoError(t, shop.Poll(ctx, func() (bool, error) {
			n := shop.Count(t, s.r.Dependencies.InventoryDSN, "SELECT COUNT(*) FROM activities WHERE mode = 'gate' AND id = "+s.sale.ActivityID)
			return n == 1, nil
		}))
		t.Logf("the sale uses its gate again %s after the restart", time.Since(restarted).Round(100*time.Millisecond))
		require.LessOrEqual(t, time.Since(restarted), returns)
	}
	s.settle(ctx, early, late)
	s.compare(ctx, early, late, killed)
	for _, p := range s.r.Processes() {
		shop.NoIncidents(t, p)
	}
}

// settle repeats every purchase whose outcome is not known.
func (s *redislessRun) settle(ctx context.Context, lists ...[]*redislessBuyer) {
	require.NoError(s.t, shop.Poll(ctx, func() (bool, error) {
		open := 0
		for _, b := range slices.Concat(lists...) {
			if b.accepted.IsZero() && b.code != contract.CodeSoldOut && b.code != contract.CodePathExpired && !s.post(ctx, b) {
				open++
			}
		}
		return open == 0, nil
	}))
}

// compare requires that each accepted purchase holds its unit, and that ledger, stock and gate agree.
func (s *redislessRun) compare(ctx context.Context, early, late []*redislessBuyer, killed time.Time) {
	t := s.t
	accepted, exceptions := 0, 0
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		states, _ := s.ledger()
		accepted, exceptions = 0, 0
		missing := 0
		for _, b := range slices.Concat(early, late) {
			if b.accepted.IsZero() {
				continue
			}
			accepted++
			switch state := states[b.path.OrderSN]; {
			case state == "rejected":
				exceptions++
			case state == "" && s.Empty && b.accepted.Before(killed):
				exceptions++ // lost with its data, and with no process that had accepted it
			case state != "reserved":
				missing++
			}
		}
		return missing == 0, nil
	}))
	t.Logf("%d purchases accepted, %d of them not honoured", accepted, exceptions)
	require.Zero(t, exceptions)
	states, _ := s.ledger()
	require.Len(t, states, accepted, "no further purchase")
	s.sale.StockBecomes(t, s.sale.Stock-int64(accepted), int64(accepted), 0, 3*time.Minute)
	shop.NoDeadLetters(t, s.r)
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		return s.sale.CountOrders(t, s.r) == int64(accepted), nil
	}), "each purchase has an order")
}
