package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

func TestMain(m *testing.M) { rig.Main(m) }

// TestKills sells 10,000 units to 12,000 buyers within two minutes. Four minutes after the start, unpaid orders expire
// for two minutes. Each service and each dependency is killed once in each of these times.
func TestKills(t *testing.T) {
	const payWithin = 240 * time.Second
	run(t, plan{
		Units: 10_000, Buyers: 12_000, ArrivalsPerSecond: 100, PayWithin: payWithin,
		Phases: []phase{
			{Name: "buying", From: 0, To: 120 * time.Second},
			{Name: "closing", From: payWithin, To: payWithin + 120*time.Second},
		},
		Deadline:   20 * time.Minute, // for a machine that is three times too slow
		Seed:       seed(t),
		PortOffset: 4500,
	})
}

// plan is the size of a trial and the times of its kills.
type plan struct {
	Units, Buyers     int
	ArrivalsPerSecond int
	PayWithin         time.Duration // the pay window
	Phases            []phase
	Deadline          time.Duration // for the sale and the checks after it
	Seed              uint64        // decides the order and times of kills, and which buyers pay
	PortOffset        int           // of the trial's own dependencies; different from that of every other set that runs
}

// phase is a time of the sale in which each service and each dependency is killed once.
type phase struct {
	Name     string
	From, To time.Duration // after the first arrival
}

const (
	ciSeed = 4 // fixed, so that a failure in CI is repeatable

	// before the first kill of a phase, and after the slot of the last
	leadIn, leadOut = 5 * time.Second, 10 * time.Second
)

// seed returns KILLS_SEED if it is set, a fixed seed when CI is "true", and otherwise a random one.
func seed(t testing.TB) uint64 {
	t.Helper()
	switch text := os.Getenv("KILLS_SEED"); {
	case text != "":
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "KILLS_SEED")
		return n
	case os.Getenv("CI") == "true":
		return ciSeed
	}
	return rand.Uint64N(1_000_000)
}

// run runs one trial. Every service has two processes. Buyers come, half of them pay, the orders of the others expire
// and are closed, and buyers who were refused as sold out get the units that were restored. Meanwhile each service and
// each dependency is killed once in each phase. One process of a service is killed in one phase and both in another;
// in a trial of a single phase the seed decides.
//
// The services keep their default settings, so their own intervals are short enough to repair losses by kills.
func run(t *testing.T, plan plan) {
	t.Helper()
	t.Logf("seed %d; KILLS_SEED=%d repeats it", plan.Seed, plan.Seed)
	rnd := rand.New(rand.NewPCG(plan.Seed, 0))
	began := time.Now()

	dependencies := rig.OwnDependencies(t, plan.PortOffset)
	r := rig.New(t, rig.Twice(), dependencies.Option())
	dependencies.Prepare(t, r)
	r.Up(t)

	ctx, cancel := context.WithTimeout(context.Background(), plan.Deadline)
	defer cancel()
	r.UsePatientClient(t)
	sale := shop.Open(t, r, shop.Sale{Stock: int64(plan.Units), PayWithinS: int64(plan.PayWithin / time.Second)})
	canaries := shop.Open(t, r, shop.Sale{Stock: 100, PayWithinS: 600})

	buyers := &shop.Buyers{
		Sale: sale, Client: r.Client, Count: plan.Buyers, PerSecond: plan.ArrivalsPerSecond,
		Rand: rand.New(rand.NewPCG(plan.Seed, 1)),
	}
	opened := time.Now()
	buying, ended := buyers.Start(ctx)
	stockWatched := buyers.WatchStock(ctx)

	s := &trial{rig: r, dependencies: dependencies, buyers: buyers, canaries: canaries, opened: opened}
	ofServices, ofDependencies := s.draw(rnd, plan.Phases)
	killing, kills := errgroup.WithContext(buying)
	for _, list := range [][]*kill{ofServices, ofDependencies} {
		killing.Go(func() error { return s.run(kills, list) })
	}
	err := killing.Wait()
	for _, k := range slices.Concat(ofServices, ofDependencies) {
		t.Log(k)
	}
	if buying.Err() == nil {
		require.NoError(t, err, "restart and recovery after kills")
	}
	require.NoError(t, ended(), "error of a buyer")
	require.NoError(t, stockWatched(), "error in the stock view")
	t.Logf("every purchase had ended %s after the first arrival", time.Since(opened).Round(time.Second))
	buyers.Settle(t, r)
	paid := int64(len(ofServices) + len(ofDependencies))
	canaries.StockBecomes(t, 100-paid, 0, paid, 3*time.Minute)
	shop.NoDeadLetters(t, r)
	for _, p := range r.Processes() {
		shop.NoIncidents(t, p)
	}
	t.Logf("seed %d: total time %s", plan.Seed, time.Since(began).Round(time.Second))
}

type trial struct {
	rig          *rig.Rig
	dependencies *rig.DependencySet
	buyers       *shop.Buyers
	canaries     shop.Sale // one purchase in it after each kill
	opened       time.Time // first arrival
}

// kill is the kill of a dependency, or of one or all processes of a service, and its restart.
type kill struct {
	phase     string
	name      string
	processes []*rig.Process // empty for a dependency
	at, pause time.Duration  // after the first arrival; until the restart

	// Measured.
	killed, usable time.Time
	starting       time.Duration // from the restart until it was usable
	// from then until a new purchase was paid, and until no earlier one was queued or overdue
	bought, recovered time.Duration
	accepted, overdue int // purchases accepted while it was down; closings overdue when it was usable
}

func (k *kill) String() string {
	return fmt.Sprintf("%-7s %-21s killed at %3.0f s, down %4.1f s, starting %4.1f s; "+
		"%4d purchases accepted and %4d closings overdue meanwhile; "+
		"a new one was paid %4.1f s later, none from before was queued or overdue after %4.1f s",
		k.phase, k.name, k.at.Seconds(), k.pause.Seconds(), k.starting.Seconds(),
		k.accepted, k.overdue, k.bought.Seconds(), k.recovered.Seconds())
}

// draw decides the order and the times of kills. The kills of services and those of dependencies run beside each other,
// so that one of each may be down at the same time.
func (s *trial) draw(rnd *rand.Rand, phases []phase) (ofServices, ofDependencies []*kill) {
	both := map[string]string{} // service -> phase in which all its processes are killed
	for i, phase := range phases {
		lastChance := i > 0 && i == len(phases)-1
		var services, dependencies []*kill
		for _, processes := range s.rig.Services() {
			name := processes[0].Name
			if both[name] == "" && (lastChance || rnd.IntN(2) == 0) {
				both[name] = phase.Name
			}
			k := &kill{phase: phase.Name, name: name + " (both)", processes: processes}
			if both[name] != phase.Name {
				one := processes[rnd.IntN(len(processes))]
				k.name, k.processes = one.Name, []*rig.Process{one}
			}
			services = append(services, k)
		}
		for _, name := range []string{"redis", "mariadb", "namesrv", "broker"} {
			dependencies = append(dependencies, &kill{phase: phase.Name, name: name})
		}
		// The last kill must happen before the phase ends.
		for _, list := range [][]*kill{services, dependencies} {
			rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			slot := (phase.To - phase.From - leadIn - leadOut) / time.Duration(len(list))
			for i, k := range list {
				k.at = phase.From + leadIn + time.Duration(i)*slot + between(rnd, 0, slot*3/5)
				k.pause = between(rnd, time.Second, 6*time.Second)
			}
		}
		ofServices, ofDependencies = append(ofServices, services...), append(ofDependencies, dependencies...)
	}
	return ofServices, ofDependencies
}

func between(rnd *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rnd.Int64N(int64(most-least)))
}

// run carries out one kill after the other, and measures the recovery from each beside the next ones.
func (s *trial) run(ctx context.Context, list []*kill) error {
	recoveries, ctx := errgroup.WithContext(ctx)
	var err error
	for _, k := range list {
		if err = s.carryOut(ctx, k); err != nil {
			err = fmt.Errorf("%s: %w", k.name, err)
			break
		}
		recoveries.Go(func() error {
			if err := s.recovery(ctx, k); err != nil {
				return fmt.Errorf("%s killed in phase %s: %w", k.name, k.phase, err)
			}
			return nil
		})
	}
	return errors.Join(err, recoveries.Wait())
}

func (s *trial) carryOut(ctx context.Context, k *kill) error {
	if err := shop.Until(ctx, s.opened.Add(k.at)); err != nil {
		return err
	}
	if err := s.kill(k); err != nil {
		return err
	}
	k.killed = time.Now()
	k.at = k.killed.Sub(s.opened)
	if err := shop.Until(ctx, k.killed.Add(k.pause)); err != nil {
		return err
	}
	started := time.Now()
	if err := s.start(ctx, k); err != nil {
		return err
	}
	k.usable = time.Now()
	k.starting = k.usable.Sub(started)
	k.accepted = s.buyers.Accepted(k.killed, k.usable)
	k.overdue = s.buyers.Overdue(k.usable)
	// Open connections stay with the other process: without this the restarted one would get no calls.
	s.rig.Client.Close()
	return nil
}

func (s *trial) kill(k *kill) error {
	if len(k.processes) == 0 {
		return s.dependencies.Try("kill", k.name)
	}
	var errs []error
	for _, p := range k.processes {
		errs = append(errs, p.TryKill())
	}
	return errors.Join(errs...)
}

// start returns when the dependency is usable, or when the processes respond.
func (s *trial) start(ctx context.Context, k *kill) error {
	if len(k.processes) == 0 {
		return s.dependencies.Try("up", k.name)
	}
	var errs []error
	for _, p := range k.processes {
		errs = append(errs, p.TryStart())
	}
	for _, p := range k.processes {
		errs = append(errs, p.TryStatus(ctx, p.Admin+"/livez", http.StatusOK, time.Minute))
	}
	return errors.Join(errs...)
}

// recovery measures the time until a new purchase succeeds, and until every purchase from before has caught up.
func (s *trial) recovery(ctx context.Context, k *kill) error {
	var wg sync.WaitGroup
	var bought, recovered error
	wg.Go(func() {
		name := strings.NewReplacer(" ", "", "(", "", ")", "").Replace(k.name)
		if _, bought = shop.BuyOne(ctx, s.rig.Client, s.canaries,
			fmt.Sprintf("canary-%s-%s-%d", k.phase, name, k.usable.UnixNano())); bought == nil {
			k.bought = time.Since(k.usable)
		}
	})
	wg.Go(func() {
		for s.buyers.Unlanded(k.usable)+s.buyers.Overdue(k.usable) > 0 {
			if recovered = shop.Until(ctx, time.Now().Add(100*time.Millisecond)); recovered != nil {
				recovered = fmt.Errorf("%d purchases from before are still queued, %d are not closed: %w",
					s.buyers.Unlanded(k.usable), s.buyers.Overdue(k.usable), recovered)
				return
			}
		}
		k.recovered = time.Since(k.usable)
	})
	wg.Wait()
	return errors.Join(bought, recovered)
}
