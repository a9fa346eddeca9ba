package redisless

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stock is inventory and the journal of one gate.
type stock struct {
	mu       sync.Mutex
	mode     contract.ActivityMode
	lost     map[string]time.Duration // of the last reading of the modes
	reserved []contract.RedislessPurchase
	outcome  contract.RedislessOutcome
	down     bool          // inventory
	noRedis  bool          // the journal
	journal  int64         // purchases
	oldest   time.Duration // age of the oldest one
	ledger   []contract.LedgerState
	degraded map[string]bool // what Redis has of sales: whether they have the setting
	reads    int             // of these
}

var errDown = fmt.Errorf("%w: down", core.ErrUnavailable)

func (s *stock) Modes(_ context.Context, lost map[string]time.Duration) (contract.Modes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return contract.Modes{}, errDown
	}
	s.lost = lost
	return contract.Modes{Now: time.Now(), Activities: []contract.ActivityMode{s.mode}}, nil
}

func (s *stock) Reserve(_ context.Context, r contract.RedislessReserve) ([]contract.RedislessResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errDown
	}
	if err := r.Validate(); err != nil { // as inventory does
		return nil, fmt.Errorf("%w: inventory: %w: %w", core.ErrUnavailable, core.ErrRefused, err)
	}
	results := make([]contract.RedislessResult, len(r.Items))
	for i, it := range r.Items {
		s.reserved = append(s.reserved, it)
		results[i] = contract.RedislessResult{Outcome: s.outcome}
		if s.outcome == contract.RedislessReserved {
			results[i].Fresh = true
			results[i].Purchase = &contract.LedgerState{OrderSN: it.OrderSN, UserID: it.UserID, Lines: it.Lines, Status: "queued"}
		}
	}
	return results, nil
}

func (s *stock) Lookup(context.Context, contract.RedislessLookup) ([]contract.LedgerState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errDown
	}
	return s.ledger, nil
}

func (s *stock) Backlog(context.Context, string) (int64, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noRedis {
		return 0, 0, errDown
	}
	return s.journal, s.oldest, nil
}

func (s *stock) Sale(_ context.Context, activityID string) (core.Sale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	set, is := s.degraded[activityID]
	switch {
	case s.noRedis:
		return core.Sale{}, errDown
	case !is:
		return core.Sale{}, core.ErrNoSale
	}
	return core.Sale{ActivityID: activityID, Degraded: set}, nil
}

func (s *stock) set(change func()) { s.mu.Lock(); defer s.mu.Unlock(); change() }

// taken returns the purchases that Reserve has had.
func (s *stock) taken() []contract.RedislessPurchase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reserved)
}

// readings returns how often Sale was called.
func (s *stock) readings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// reported returns the lost gates of the last reading of the modes.
func (s *stock) reported() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// redisGate is the gate in Redis: it accepts everything and holds nothing.
type redisGate struct{ core.Purchases }

func (redisGate) Reserve(_ context.Context, _ string, p core.Purchase) (core.Verdict, error) {
	return core.Verdict{Outcome: core.Accepted, Reservation: core.Reservation{OrderSN: p.OrderSN}}, nil
}

func (redisGate) LookupAll(context.Context, string, []string) (map[string]core.Reservation, error) {
	return map[string]core.Reservation{}, nil
}

func (redisGate) OfUser(context.Context, string, string) (core.UserPurchases, error) {
	return core.UserPurchases{}, nil
}

func (redisGate) Lookup(context.Context, string, string) (core.Reservation, bool, error) {
	return core.Reservation{}, false, nil
}

func redisless(outage int64, perSecond int64) contract.ActivityMode {
	return contract.ActivityMode{
		ActivityID: "1", Mode: contract.ModeRedisless, Outage: outage, PerSecond: perSecond,
		Sale: &contract.RedislessSale{State: "open", EndsAt: time.Now().Add(time.Hour), Items: []contract.RedislessItem{{SKUID: "7", Left: 5}}},
	}
}

// run runs a Watch and a Switch in a bubble.
func run(t *testing.T, s *stock, fn func(t *testing.T, w *Watch, g *Switch)) {
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWatch(s, s, telemetry.Discard(t))
		require.NoError(t, err)
		g := NewSwitch(redisGate{}, w, time.Second, 100)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		fn(t, w, g)
		cancel()
		require.NoError(t, <-done)
		g.Close(t.Context())
	})
}

// purchases returns n accepted purchases, the first with the order_sn 1000.
func purchases(n int) []core.Acceptance { return purchasesFrom(1000, n) }

func purchasesFrom(orderSN, n int) []core.Acceptance {
	list := make([]core.Acceptance, n)
	for i := range list {
		list[i] = core.Acceptance{
			Purchase:   core.Purchase{OrderSN: strconv.Itoa(orderSN + i), UserID: "u", Lines: []contract.Line{{SKUID: "7", Qty: 1}}},
			ReservedAt: time.Now(),
		}
	}
	return list
}

func reserve(t *testing.T, g *Switch) (core.Outcome, error) {
	v, err := g.Reserve(t.Context(), "1", core.Purchase{OrderSN: "5", UserID: "u", Lines: []contract.Line{{SKUID: "7", Qty: 1}}})
	return v.Outcome, err
}

func TestPurchasesFollowTheMode(t *testing.T) {
	s := &stock{mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, outcome: contract.RedislessReserved}
	run(t, s, func(t *testing.T, _ *Watch, g *Switch) {
		outcome, err := reserve(t, g)
		require.NoError(t, err)
		require.Equal(t, core.Accepted, outcome)
		require.Empty(t, s.taken())
		s.set(func() { s.mode = redisless(1, 10) })
		time.Sleep(1500 * time.Millisecond)
		outcome, err = reserve(t, g)
		require.NoError(t, err)
		require.Equal(t, core.Accepted, outcome)
		require.Len(t, s.taken(), 1)
		for redisless, want := range map[contract.RedislessOutcome]core.Outcome{
			contract.RedislessSoldOut: core.SoldOut, contract.RedislessLimitReached: core.LimitReached, contract.RedislessConflict: core.Conflict,
			contract.RedislessNotStarted: core.NotStarted, contract.RedislessEnded: core.Ended, contract.RedislessPaused: core.Paused,
			contract.RedislessUnknownSKU: core.UnknownSKU,
		} {
			s.set(func() { s.outcome = redisless })
			outcome, err = reserve(t, g)
			require.NoError(t, err)
			require.Equal(t, want, outcome, redisless)
		}
		s.set(func() { s.outcome = contract.RedislessLater })
		_, err = reserve(t, g)
		require.ErrorIs(t, err, core.ErrLater)
		s.set(func() { s.mode.Mode = contract.ModeReturning })
		time.Sleep(1500 * time.Millisecond)
		_, err = reserve(t, g)
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		s.set(func() { s.mode.Mode, s.mode.Drop = contract.ModeRedisless, 99 })
		time.Sleep(1500 * time.Millisecond)
		dropped := 0
		for range 200 {
			before := len(s.taken())
			if _, err := reserve(t, g); errors.Is(err, core.ErrLater) && len(s.taken()) == before {
				dropped++
			}
		}
		require.Greater(t, dropped, 150)
	})
}

// A process that reaches its gate and not inventory sells on at the gate, but not with an order_sn that another process
// has issued without Redis: the ledger alone decides those.
func TestNumbersIssuedWithoutRedisNeedRecentModes(t *testing.T) {
	s := &stock{mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate}}
	run(t, s, func(t *testing.T, _ *Watch, g *Switch) {
		withoutRedis := core.Purchase{
			OrderSN: strconv.Itoa(1<<40 | 230<<14), UserID: "u", Lines: []contract.Line{{SKUID: "7", Qty: 1}},
		}
		_, err := g.Reserve(t.Context(), "1", withoutRedis)
		require.NoError(t, err)
		s.set(func() { s.down = true })
		time.Sleep(3500 * time.Millisecond)
		_, err = g.Reserve(t.Context(), "1", withoutRedis)
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		_, err = g.Reserve(t.Context(), "2", withoutRedis)
		require.NoError(t, err, "a sale without the setting")
		outcome, err := reserve(t, g)
		require.NoError(t, err)
		require.Equal(t, core.Accepted, outcome)
	})
}

func TestAcceptedPurchasesAreHandedOverFirst(t *testing.T) {
	s := &stock{
		mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, outcome: contract.RedislessReserved,
		journal: 5, oldest: time.Hour,
	}
	run(t, s, func(t *testing.T, w *Watch, g *Switch) {
		require.True(t, w.Keeps("1"))
		require.False(t, w.Keeps("2"))
		w.Accepted("1", purchases(600))
		r, found, err := g.Lookup(t.Context(), "1", "1000")
		require.NoError(t, err)
		require.False(t, found, "the gate decides: %v", r)
		s.set(func() { s.mode = redisless(1, 10) })
		s.set(func() { s.noRedis = true })
		time.Sleep(1200 * time.Millisecond)
		require.Len(t, s.taken(), 600)
		require.True(t, s.taken()[0].Accepted)
		kept, dropped := w.Kept()
		require.Zero(t, kept)
		require.Zero(t, dropped)

		// Until it is handed over, nothing is sold.
		s.set(func() { s.mode, s.down = redisless(2, 10), false })
		time.Sleep(1200 * time.Millisecond)
		s.set(func() { s.down = true })
		w.Accepted("1", purchases(1))
		require.True(t, w.handedOver("1", 2))
		require.False(t, w.handedOver("1", 3))
		time.Sleep(validFor)
		r, found, err = g.Lookup(t.Context(), "1", "1000")
		require.ErrorIs(t, err, core.ErrUnavailable)
		require.False(t, found, "%v", r)
	})
}

// A purchase that inventory refuses holds up no other, nor what is sold without Redis.
func TestARefusedPurchaseHoldsUpNoOther(t *testing.T) {
	s := &stock{
		mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, outcome: contract.RedislessReserved,
		journal: 5, oldest: time.Hour,
	}
	run(t, s, func(t *testing.T, w *Watch, g *Switch) {
		list := purchases(600)
		list[17].ReservedAt = time.Time{}
		list[599].UserID = ""
		w.Accepted("1", list)
		s.set(func() { s.mode, s.noRedis = redisless(1, 10), true })
		time.Sleep(1200 * time.Millisecond)
		taken := s.taken()
		require.Len(t, taken, 598)
		for _, p := range taken {
			require.NotContains(t, []string{"1017", "1599"}, p.OrderSN)
		}
		kept, _ := w.Kept()
		require.Zero(t, kept)
		outcome, err := reserve(t, g)
		require.NoError(t, err)
		require.Equal(t, core.Accepted, outcome)
	})
}

// A purchase that is repeated while it is kept, as when too few replicas have it, is kept once, with its first time.
func TestARepeatedPurchaseIsKeptOnce(t *testing.T) {
	s := &stock{
		mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, outcome: contract.RedislessReserved,
		journal: 5, oldest: time.Hour,
	}
	run(t, s, func(t *testing.T, w *Watch, _ *Switch) {
		list := purchases(3)
		w.Accepted("1", list)
		w.Accepted("1", purchases(4))
		kept, _ := w.Kept()
		require.Equal(t, 4, kept)
		s.set(func() { s.mode, s.noRedis = redisless(1, 10), true })
		time.Sleep(1200 * time.Millisecond)
		require.Len(t, s.taken(), 4)
		require.True(t, s.taken()[0].ReservedAt.Equal(list[0].ReservedAt))
	})
}

// A process that stops hands over what it has accepted, also if the sale has just become redisless.
func TestAcceptedPurchasesAreHandedOverAtTheEnd(t *testing.T) {
	s := &stock{
		mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, outcome: contract.RedislessReserved,
		journal: 5, oldest: time.Hour,
	}
	run(t, s, func(_ *testing.T, w *Watch, _ *Switch) {
		w.Accepted("1", purchases(300))
		s.set(func() { s.mode = redisless(1, 10) })
	})
	require.Len(t, s.taken(), 300)
}

func TestPublishedPurchasesAreNotKept(t *testing.T) {
	s := &stock{mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate}, journal: 2, oldest: time.Hour}
	run(t, s, func(t *testing.T, w *Watch, _ *Switch) {
		w.Accepted("1", purchases(3))
		time.Sleep(2 * time.Second)
		kept, _ := w.Kept()
		require.Equal(t, 3, kept, "the journal has older ones")
		w.Accepted("1", purchasesFrom(2000, 2))
		s.set(func() { s.oldest = time.Second })
		for range 110 { // until the next probe; the second one would find the age of the oldest entry unchanged
			if kept, _ = w.Kept(); kept < 5 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, 2, kept, "those accepted before the oldest entry are published")
		s.set(func() { s.journal = 0 })
		time.Sleep(1500 * time.Millisecond)
		kept, _ = w.Kept()
		require.Zero(t, kept)
		w.Accepted("1", purchases(MaxAccepted+7))
		kept, dropped := w.Kept()
		require.Equal(t, MaxAccepted, kept)
		require.Equal(t, int64(7), dropped)
	})
}

// Redis fails before this process has read the gate of a sale that was just published.
func TestAGateThatWasNeverReachedIsReported(t *testing.T) {
	s := &stock{mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, noRedis: true}
	run(t, s, func(t *testing.T, _ *Watch, _ *Switch) {
		require.Empty(t, s.reported())
		time.Sleep(4 * time.Second)
		require.GreaterOrEqual(t, s.reported()["1"], 3*time.Second)
	})
}

func TestALostGateIsReported(t *testing.T) {
	s := &stock{mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}}
	run(t, s, func(t *testing.T, _ *Watch, _ *Switch) {
		require.Empty(t, s.reported())
		s.set(func() { s.noRedis = true })
		time.Sleep(2500 * time.Millisecond)
		require.Empty(t, s.reported())
		time.Sleep(3 * time.Second)
		require.GreaterOrEqual(t, s.reported()["1"], 3*time.Second)
		s.set(func() { s.noRedis = false })
		time.Sleep(3 * time.Second)
		require.Empty(t, s.reported())
	})
}

// A process that has lost the gate for long does not use it again before it has read the modes.
func TestAGateThatReturnsIsUsedAfterTheModesAreRead(t *testing.T) {
	s := &stock{mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}}
	run(t, s, func(t *testing.T, _ *Watch, g *Switch) {
		s.set(func() { s.noRedis, s.down = true, true })
		time.Sleep(5 * time.Second)
		s.set(func() { s.noRedis = false })
		time.Sleep(5 * time.Second)
		_, err := reserve(t, g)
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		_, _, err = g.Lookup(t.Context(), "1", "5")
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		s.set(func() { s.down = false })
		time.Sleep(2 * time.Second)
		outcome, err := reserve(t, g)
		require.NoError(t, err)
		require.Equal(t, core.Accepted, outcome)
		require.Empty(t, s.taken())
	})
}

// A process that has never read the modes uses no gate that may be behind the ledger, however long it waits.
func TestAGateIsUsedAfterTheFirstReadingOfTheModes(t *testing.T) {
	s := &stock{
		mode: contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate, PerSecond: 10}, down: true,
		degraded: map[string]bool{"1": true, "2": false},
	}
	run(t, s, func(t *testing.T, w *Watch, g *Switch) {
		time.Sleep(time.Hour)
		_, err := reserve(t, g)
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		_, _, err = g.Lookup(t.Context(), "1", "5")
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		_, err = g.LookupAll(t.Context(), "1", []string{"5"})
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		_, err = g.OfUser(t.Context(), "1", "u")
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		require.Equal(t, 1, s.readings(), "readings within a second are shared")

		_, _, err = g.Lookup(t.Context(), "2", "5")
		require.NoError(t, err, "a sale without the setting does not need inventory")
		_, _, err = g.Lookup(t.Context(), "3", "5")
		require.ErrorIs(t, err, core.ErrNoSale, "Redis may have lost it")
		s.set(func() { s.degraded["2"] = true })
		time.Sleep(settingAge + time.Millisecond)
		_, _, err = g.Lookup(t.Context(), "2", "5")
		require.ErrorIs(t, err, core.ErrBreakerOpen, "the setting may be made later")
		s.set(func() { s.noRedis = true })
		time.Sleep(settingAge + time.Millisecond)
		_, _, err = g.Lookup(t.Context(), "2", "5")
		require.ErrorIs(t, err, core.ErrUnavailable)

		s.set(func() { s.noRedis, s.down = false, false })
		time.Sleep(1500 * time.Millisecond)
		outcome, err := reserve(t, g)
		require.NoError(t, err)
		require.Equal(t, core.Accepted, outcome)
		_, found, err := g.Lookup(t.Context(), "1", "5")
		require.NoError(t, err)
		require.False(t, found)
		require.Empty(t, w.settings)
	})
}

func TestPathsFollowPerSecond(t *testing.T) {
	s := &stock{mode: redisless(1, 10)}
	run(t, s, func(t *testing.T, w *Watch, _ *Switch) {
		admitted := func() (n int) {
			for range 100 {
				if w.AdmitPath("1") {
					n++
				}
			}
			return n
		}
		require.Equal(t, 10, admitted())
		w.Holders(5)
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, admitted(), "the share of one of five processes")
		require.True(t, w.AdmitPath("2"), "another sale")
	})
}

func TestResultsComeFromTheLedgerMeanwhile(t *testing.T) {
	s := &stock{mode: redisless(1, 10), down: true}
	run(t, s, func(t *testing.T, w *Watch, g *Switch) {
		s.set(func() {
			s.down = false
			s.ledger = []contract.LedgerState{{OrderSN: "5", UserID: "u", Status: "created"}}
		})
		time.Sleep(1500 * time.Millisecond)
		_, _, err := g.Lookup(t.Context(), "1", "5")
		require.ErrorIs(t, err, core.ErrBreakerOpen, "another process may not have read the mode")
		time.Sleep(validFor)
		r, found, err := g.Lookup(t.Context(), "1", "5")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, core.StatusCreated, r.Status)
		_, found, err = g.Lookup(t.Context(), "1", "6")
		require.ErrorIs(t, err, core.ErrBreakerOpen, "the gate may have accepted it")
		require.False(t, found)
		_, found, err = g.Lookup(t.Context(), "1", strconv.Itoa(1<<40|230<<14))
		require.NoError(t, err, "it was issued without Redis")
		require.False(t, found)
		own, err := g.OfUser(t.Context(), "1", "u")
		require.NoError(t, err)
		require.Equal(t, core.UserPurchases{OrderSNs: []string{"5"}}, own, "inventory states no allowance")

		// A process that cannot read the modes does not respond that a purchase does not exist.
		s.set(func() { s.mode = contract.ActivityMode{ActivityID: "1", Mode: contract.ModeGate} })
		time.Sleep(1500 * time.Millisecond)
		_, _, err = g.Lookup(t.Context(), "1", "6")
		require.NoError(t, err)
		s.set(func() { s.down = true })
		time.Sleep(3500 * time.Millisecond)
		_, _, err = g.Lookup(t.Context(), "1", "6")
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		_, found, err = g.Lookup(t.Context(), "2", "6")
		require.NoError(t, err)
		require.False(t, found, "a sale without the setting")
		require.False(t, w.Redisless())
	})
}

func TestTheCatalogueOfRedislessSales(t *testing.T) {
	s := &stock{mode: redisless(1, 10), outcome: contract.RedislessSoldOut}
	run(t, s, func(t *testing.T, w *Watch, g *Switch) {
		c := Catalogue{Catalogue: deadCatalogue{}, Watch: w}
		states, err := c.GateStates(t.Context(), []string{"1", "2"})
		require.ErrorIs(t, err, core.ErrUnavailable)
		require.Equal(t, int64(5), states["1"].Left["7"])
		require.NotContains(t, states, "2")
		_, err = reserve(t, g)
		require.NoError(t, err)
		states, err = c.GateStates(t.Context(), []string{"1"})
		require.NoError(t, err)
		require.Zero(t, states["1"].Left["7"], "sold out until the modes are read again")
		sales, err := c.Sales(t.Context())
		require.NoError(t, err)
		require.Len(t, sales, 1)
		ready, err := c.Ready(t.Context())
		require.NoError(t, err)
		require.True(t, ready)
		now, err := c.Now(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), now, time.Millisecond)
	})
}

// deadCatalogue is a catalogue in a Redis that does not respond.
type deadCatalogue struct{}

func (deadCatalogue) Sale(context.Context, string) (core.Sale, error) { return core.Sale{}, errDown }
func (deadCatalogue) Sales(context.Context) ([]core.Sale, error)      { return nil, errDown }
func (deadCatalogue) Ready(context.Context) (bool, error)             { return false, errDown }
func (deadCatalogue) Now(context.Context) (time.Time, error)          { return time.Time{}, errDown }

func (deadCatalogue) GateStates(context.Context, []string) (map[string]core.GateState, error) {
	return nil, errDown
}

// A sale keeps its rules of admission while Redis is unavailable and until its gate decides again, and a process without
// one of them admits no buyer.
func TestASaleKeepsItsRulesWithoutRedis(t *testing.T) {
	s := &stock{mode: redisless(1, 10)}
	s.mode.Sale.RoomRate, s.mode.Sale.Challenge = 50, "pow:20"
	s.mode.Sale.Rules = []contract.AdmissionRule{contract.RuleRoom, contract.RuleChallenge}
	run(t, s, func(t *testing.T, w *Watch, _ *Switch) {
		c := Catalogue{Watch: w}
		set := func(change func()) {
			s.set(func() {
				sale := *s.mode.Sale // a reading is never changed
				s.mode.Sale = &sale
				change()
			})
			time.Sleep(1500 * time.Millisecond)
		}
		for _, mode := range []contract.SaleMode{contract.ModeRedisless, contract.ModeReturning} {
			set(func() { s.mode.Mode = mode })
			states, err := c.GateStates(t.Context(), []string{"1"})
			require.NoError(t, err)
			require.EqualValues(t, 50, states["1"].RoomRate, mode)
			require.Equal(t, contract.Challenge{Kind: contract.ChallengePow, Difficulty: 20}, states["1"].Challenge, mode)
		}
		require.Zero(t, w.RoomPace("1"), "nothing is sold while the sale returns")
		set(func() { s.mode.Mode = contract.ModeRedisless })
		require.EqualValues(t, 10, w.RoomPace("1"), "no more than the purchases that the sale may have")
		set(func() { s.mode.PerSecond = 1000 })
		require.EqualValues(t, 50, w.RoomPace("1"))
		set(func() { s.mode.Sale.State = "paused" })
		require.Zero(t, w.RoomPace("1"))
		set(func() { s.mode.Sale.State, s.mode.Sale.Rules = "open", append(s.mode.Sale.Rules, "lottery") })
		states, err := c.GateStates(t.Context(), []string{"1"})
		require.ErrorIs(t, err, core.ErrBreakerOpen)
		require.Empty(t, states)
		require.Zero(t, w.RoomPace("1"))
		set(func() { s.mode.Sale.Rules, s.mode.Sale.Challenge = nil, "riddle:5" })
		_, err = c.GateStates(t.Context(), []string{"1"})
		require.ErrorIs(t, err, core.ErrBreakerOpen, "a kind of a later release")
	})
}

// A redisless sale shows the seller and the notice that inventory has, and none where it has none: inventory of 0.1.0
// sends neither.
func TestARedislessSaleShowsSellerAndNotice(t *testing.T) {
	at := time.Date(2026, 11, 11, 9, 0, 0, 0, time.UTC)
	s := &stock{mode: redisless(1, 10), noRedis: true}
	run(t, s, func(t *testing.T, w *Watch, _ *Switch) {
		c := Catalogue{Catalogue: deadCatalogue{}, Watch: w}
		shown, err := c.Sale(t.Context(), "1")
		require.NoError(t, err)
		require.Nil(t, shown.Seller)
		require.Nil(t, shown.Notice)
		s.set(func() {
			m := redisless(1, 10)
			m.Sale.Seller = &contract.RedislessSeller{Name: "Acme", TermsURL: "https://acme.example", Delivery: "Ships"}
			m.Sale.Notice = &contract.RedislessNotice{Text: "It goes on.", At: at}
			s.mode = m
		})
		time.Sleep(1500 * time.Millisecond)
		shown, err = c.Sale(t.Context(), "1")
		require.NoError(t, err)
		require.Equal(t, &core.Seller{Name: "Acme", TermsURL: "https://acme.example", Delivery: "Ships"}, shown.Seller)
		require.Equal(t, &core.Notice{Text: "It goes on.", At: at}, shown.Notice)
	})
}
