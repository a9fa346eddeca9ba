package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	seeds    = flag.Int("seeds", 25, "number of seeds")
	first    = flag.Uint64("first", 1, "the first seed")
	atMost   = flag.Int("failures", 4, "number of failing seeds after which to stop")
	complete = flag.Bool("complete", false, "fail if no fault happened at a fault point")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSim simulates one sale for each seed. SIM_SEED selects one seed, which runs SIM_REPEAT times.
func TestSim(t *testing.T) {
	scripts, err := scriptNames()
	require.NoError(t, err)
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = t.TempDir()
	}
	root, err = os.MkdirTemp(root, "flashsale-sim-") //nolint:usetesting // in memory, if there is /dev/shm
	require.NoError(t, err)
	defer os.RemoveAll(root)
	blank := filepath.Join(root, "blank")
	require.NoError(t, os.Mkdir(blank, 0o700))
	require.NoError(t, templates(t.Context(), blank))

	if one := os.Getenv("SIM_SEED"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		times := 1
		if n, err := strconv.Atoi(os.Getenv("SIM_REPEAT")); err == nil {
			times = n
		}
		for range times {
			play(t, seed, root, blank, scripts)
			if t.Failed() {
				return
			}
		}
		t.Logf("seed %d: no failure in %d runs", seed, times)
		return
	}

	var next, played, failed atomic.Uint64
	next.Store(*first)
	began := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for failed.Load() < uint64(*atMost) {
				seed := next.Add(1) - 1
				if seed >= *first+uint64(*seeds) {
					return
				}
				if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, seed, root, blank, scripts) }) {
					failed.Add(1)
				}
				played.Add(1)
			}
		})
	}
	wg.Wait()
	table, missed := coverage.table()
	t.Logf("%d seeds in %v\n%s\n%s", played.Load(), time.Since(began).Round(time.Second), coverage.endings(), table)
	if *complete {
		require.Empty(t, missed, "points without any fault")
	} else if len(missed) > 0 {
		t.Logf("points without any fault: %q", missed)
	}
}

// play simulates one sale and reports its failures.
func play(t *testing.T, seed uint64, root, blank string, scripts map[string]string) {
	dir, err := os.MkdirTemp(root, "seed-") //nolint:usetesting // as root
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	for _, service := range []string{"order", "inventory"} {
		require.NoError(t, copyFile(filepath.Join(blank, service+".db"), filepath.Join(dir, service+".db")))
	}
	synctest.Test(t, func(t *testing.T) {
		// The clock of a synctest bubble starts in 2000, but order_sns start in 2025.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		w, err := newWorld(seed, dir, scripts)
		require.NoError(t, err)
		findings := w.run()
		w.end()
		w.mu.Lock()
		defer w.mu.Unlock()
		for sn := range w.concerned {
			findings.concerned[sn] = true
		}
		for _, word := range strings.Fields(os.Getenv("SIM_ABOUT")) { // further words whose history is printed
			findings.concerned[word] = true
		}
		all := append(slices.Clone(w.failures), findings.list...)
		if len(all) == 0 {
			return
		}
		t.Errorf("seed %d, repeat with SIM_SEED=%d go test ./test/sim -run TestSim -v\n%s\nsale %+v, rate %v\nhistory of %v:\n%s",
			seed, seed, lines(all), w.sale, w.plan.rate, slices.Sorted(maps.Keys(findings.concerned)),
			w.history.about(slices.Sorted(maps.Keys(findings.concerned))))
	})
}

func lines(list []string) string {
	s := ""
	for _, l := range list {
		s += fmt.Sprintln(" *", l)
	}
	return s
}

// run simulates the sale and returns the violations at its end.
func (w *world) run() *findings {
	f := &findings{concerned: map[string]bool{}}
	for _, service := range services {
		for slot := range w.sale.instances {
			if err := w.start(service, slot); err != nil {
				f.add("", "start: %v", err)
				return f
			}
		}
	}
	time.Sleep(warmUp)
	if w.sale.opensLate {
		time.Sleep(time.Hour - warmUp - 3*time.Second)
	}
	if err := w.openShop(); err != nil {
		f.add("", "the shop: %v", err)
		return f
	}
	for _, stock := range w.sale.stocks() {
		a, err := w.openSale(stock)
		for tries := 1; err != nil; tries++ { // with many faults, the sale may end before it is published
			if tries == 5 {
				f.add("", "the sale cannot be opened: %v", err)
				return f
			}
			w.plan.rate /= 4
			a, err = w.openSale(stock)
		}
		w.activities = append(w.activities, a)
	}
	w.selling = time.Now().Add(w.sale.lead() - time.Second)
	w.plan.extend(time.Until(w.selling) + w.sale.length())
	w.begun.Store(true)
	var callers sync.WaitGroup
	for n := range w.sale.buyers {
		callers.Go(func() { w.runBuyer(n) })
	}
	time.Sleep(time.Until(w.selling))
	for n := range w.activities {
		callers.Go(func() { w.runMerchant(n) })
		if w.sale.reviews {
			callers.Go(func() { w.runReview(n) })
		}
	}
	callers.Go(func() {
		began := time.Now()
		losses := slices.Clone(w.sale.losses)
		slices.Sort(losses)
		for i, after := range losses {
			time.Sleep(time.Until(began.Add(after)))
			w.loseGate((w.seed+uint64(i))%2 == 0)
		}
	})
	if w.sale.failover > 0 {
		callers.Go(func() {
			time.Sleep(w.sale.failover)
			w.failOver(&callers)
			for _, a := range w.activities {
				w.withdraw(a)
			}
		})
	}
	for i, after := range w.sale.damages {
		callers.Go(func() {
			time.Sleep(after)
			w.damage(w.activities[i%len(w.activities)].id, rng(w.seed+uint64(i), "damage"))
		})
	}
	for _, fr := range w.sale.freezes {
		callers.Go(func() { w.runFreeze(fr) })
	}
	if w.sale.brokerless.happens() {
		callers.Go(w.runBrokerless)
	}
	if w.sale.redisless.happens() {
		callers.Go(w.runRedisless)
	}
	if w.sale.full > 0 {
		callers.Go(func() {
			time.Sleep(w.sale.full)
			w.fill()
		})
	}
	if w.sale.webhooks.replays > 0 {
		callers.Go(w.runShop)
	}
	for name, ahead := range w.sale.clocks {
		if ahead != 0 {
			service, _, _ := strings.Cut(name, "/")
			coverage.pass("clock of " + service)
			coverage.add("clock of "+service, happens)
		}
	}
	if w.sale.setback.of != "" {
		callers.Go(w.runSetback)
	}
	if w.sale.forges > 0 {
		callers.Go(func() {
			time.Sleep(w.sale.forges)
			w.forge()
		})
	}
	op, err := w.operator()
	if err != nil {
		f.add("", "operator: %v", err)
		return f
	}
	callers.Go(func() {
		for !w.plan.ended() {
			op.sleep(time.Second, 4*time.Second)
			op.decide(op.r.IntN(4))
			if op.r.IntN(16) == 0 {
				op.reconcile(w.activities[op.r.IntN(len(w.activities))].id)
			}
			if op.r.IntN(3) == 0 {
				op.retryRefund()
			}
		}
	})
	callers.Wait()
	time.Sleep(time.Until(w.plan.end()))
	w.finishReviews()
	w.finishWebhooks()

	f = w.untilAtRest(op, func(*findings) {})
	if len(f.list) > 0 || len(w.kept) == 0 {
		return f
	}
	before, err := w.read()
	if err == nil {
		err = w.nextDay()
	}
	if err == nil {
		op, err = w.operator()
	}
	if err != nil {
		f.add("", "next day: %v", err)
		return f
	}
	return w.untilAtRest(op, func(f *findings) { w.checkUnchanged(f, before) })
}

// untilAtRest waits until two checks in a row find nothing. The longest pauses are those between repeated closings.
func (w *world) untilAtRest(op *operator, further func(*findings)) *findings {
	deadline := time.Now().Add(20 * time.Minute)
	rested := 0
	for round := 1; ; round++ {
		f := w.check()
		further(f)
		if len(f.list) == 0 {
			if rested++; rested == 2 {
				w.count()
				return f
			}
		} else {
			rested = 0
		}
		if time.Now().After(deadline) || len(w.failures) > 0 {
			return f
		}
		op.decide(round)
		time.Sleep(6 * time.Second)
	}
}
