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
	seeds    = flag.Int("seeds", 0, "how many seeds to play; 0: as many as fit into -for")
	first    = flag.Uint64("first", 1, "the first seed")
	playFor  = flag.Duration("for", 30*time.Second, "how long to play when -seeds is 0")
	atMost   = flag.Int("failures", 4, "after how many failing seeds to stop")
	complete = flag.Bool("complete", false, "fail when nothing ever happened at a fault point")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSim plays seeds until one fails. SIM_SEED plays one, SIM_REPEAT times.
func TestSim(t *testing.T) {
	scripts, err := scriptNames()
	require.NoError(t, err)
	root := "/dev/shm"
	if _, err := os.Stat(root); err != nil {
		root = t.TempDir()
	}
	root, err = os.MkdirTemp(root, "flashsale-sim-") //nolint:usetesting // in memory where there is such a place
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
		t.Logf("seed %d: nothing found in %d plays", seed, times)
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
				if *seeds > 0 && seed >= *first+uint64(*seeds) || *seeds == 0 && time.Since(began) > *playFor {
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
		require.Empty(t, missed, "nothing ever happened at these points")
	} else if len(missed) > 0 {
		t.Logf("not hit by the seeds played: %q", missed)
	}
}

// play is one sale from its opening to its rest.
func play(t *testing.T, seed uint64, root, blank string, scripts map[string]string) {
	dir, err := os.MkdirTemp(root, "seed-") //nolint:usetesting // as root
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	for _, service := range []string{"order", "inventory"} {
		require.NoError(t, copyFile(filepath.Join(blank, service+".db"), filepath.Join(dir, service+".db")))
	}
	synctest.Test(t, func(t *testing.T) {
		// The bubble's clock begins in 2000, order_sns in 2025.
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
		for _, word := range strings.Fields(os.Getenv("SIM_ABOUT")) { // more of the history
			findings.concerned[word] = true
		}
		all := append(slices.Clone(w.failures), findings.list...)
		if len(all) == 0 {
			return
		}
		t.Errorf("seed %d, replay with SIM_SEED=%d go test ./test/sim -run TestSim -v\n%s\nsale %+v, rate %v\nhistory of %v:\n%s",
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

// run plays the sale and returns what is wrong at its end.
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
	activity, skus, err := w.openSale()
	for tries := 1; err != nil; tries++ { // so much trouble that the sale was over before it was published
		if tries == 5 {
			f.add("", "the sale cannot be opened: %v", err)
			return f
		}
		w.plan.rate /= 4
		activity, skus, err = w.openSale()
	}
	var people sync.WaitGroup
	for n := range w.sale.buyers {
		people.Go(func() { w.shop(n, activity, skus) })
	}
	people.Go(func() { w.meddle(activity, skus) })
	people.Go(func() {
		began := time.Now()
		losses := slices.Clone(w.sale.losses)
		slices.Sort(losses)
		for i, after := range losses {
			time.Sleep(time.Until(began.Add(after)))
			w.loseGate((w.seed+uint64(i))%2 == 0)
		}
	})
	if w.replica != nil {
		people.Go(func() {
			time.Sleep(w.sale.failover)
			w.failOver(&people, w.sale.behind, activity, skus)
			w.withdraw(activity, skus)
		})
	}
	for i, after := range w.sale.damages {
		people.Go(func() {
			time.Sleep(after)
			w.damage(activity, rng(w.seed+uint64(i), "damage"))
		})
	}
	if w.sale.forges > 0 {
		people.Go(func() {
			time.Sleep(w.sale.forges)
			w.forge(activity)
		})
	}
	op, err := w.operator()
	if err != nil {
		f.add("", "operator: %v", err)
		return f
	}
	people.Go(func() {
		for !w.plan.ended() {
			op.sleep(time.Second, 4*time.Second)
			op.decide(op.r.IntN(4))
			if op.r.IntN(16) == 0 {
				op.reconcile(activity)
			}
		}
	})
	people.Wait()
	time.Sleep(time.Until(w.plan.until))

	// Everything has its time to come to rest: the longest pauses are those between repeated closings.
	patience := time.Now().Add(20 * time.Minute)
	rested := 0
	for round := 1; ; round++ {
		f = w.check(activity)
		if len(f.list) == 0 {
			if rested++; rested == 2 {
				w.count(activity)
				return f
			}
		} else {
			rested = 0
		}
		if time.Now().After(patience) || len(w.failures) > 0 {
			return f
		}
		op.decide(round)
		time.Sleep(6 * time.Second)
	}
}
