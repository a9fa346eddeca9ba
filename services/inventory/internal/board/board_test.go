package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sale plays the gate and the ledger of activity 1 of merchant m1.
type sale struct {
	mu       sync.Mutex
	activity core.Activity
	audit    core.GateAudit
	seconds  []Second
	audits   []time.Time
	lands    bool // a purchase lands between each two readings of the ledger
	panics   bool // each audit of the gate panics
	deleted  bool
	ready    core.Readiness
	places   RoomPlaces
	err      error
}

func newSale() *sale {
	now := time.Now()
	return &sale{
		activity: core.Activity{
			ID: "1", MerchantID: "m1", Title: "t", State: core.ActivityPublished, StartsAt: now, EndsAt: now.Add(time.Hour),
			Items: []core.Stock{{SKUID: "1", Total: 10, Available: 7, Reserved: 2, Sold: 1}, {SKUID: "2", Total: 5, Available: 5}},
		},
		audit: core.GateAudit{SKUs: map[string]core.GateStock{"1": {Left: 7, Held: 2, Sold: 1, Total: 10}, "2": {Left: 5, Total: 5}}},
	}
}

func (s *sale) Activity(_ context.Context, in core.Scope, id string) (*core.Activity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if merchant, limited := in.Limit(); id != "1" || s.deleted || limited && merchant != "m1" {
		return nil, contract.Refuse(contract.CodeNotFound, "no such resource")
	}
	a := s.activity
	a.Items = append([]core.Stock(nil), a.Items...)
	if s.lands {
		s.activity.Items[0].Available--
		s.activity.Items[0].Reserved++
	}
	return &a, nil
}

func (s *sale) ReservationCounts(context.Context, core.Scope, string) (merchants.ReservationCounts, error) {
	return merchants.ReservationCounts{Reserved: 2, Sold: 1}, nil
}

func (s *sale) Audit(context.Context, string) (core.GateAudit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audits = append(s.audits, time.Now())
	if s.panics {
		panic("audit of the test")
	}
	return s.audit, s.err
}

func (s *sale) Readiness(context.Context, *core.Activity) (core.Readiness, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready, nil
}

func (s *sale) Requests(context.Context, string) (Requests, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.err, core.ErrGateUnavailable) {
		return Requests{}, s.err
	}
	return Requests{Accepted: 3, Paths: 9, Refused: map[string]int64{"sold_out": 1}}, nil
}

func (s *sale) RoomPlaces(context.Context, string) (RoomPlaces, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places, s.err
}

func (s *sale) RequestsSince(_ context.Context, _ string, since time.Time) (list []Second, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.seconds {
		if !p.At.Before(since) {
			list = append(list, p)
		}
	}
	return list, nil
}

// request adds a refusal to the present second.
func (s *sale) request() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seconds = append(s.seconds, Second{time.Now().UTC().Truncate(time.Second), Requests{Refused: map[string]int64{"sold_out": 1}}})
}

func (s *sale) fail(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.err = err }

func (s *sale) countAudits() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.audits) }

func boardOf(s *sale, change ...func(*Config)) *Board {
	c := DefaultConfig()
	for _, f := range change {
		f(&c)
	}
	return New(Deps{Gate: s, Ledger: s, Redisless: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, c)
}

// All viewers of an activity share one sampler, which audits the gate once a second and stops with the last of them.
func TestViewersShareOneSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		var streams []*Stream
		for _, user := range []string{"a", "b", "c"} {
			first, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), user, "1")
			require.NoError(t, err)
			require.Equal(t, Units{Total: 15, Left: 12, Held: 2, Sold: 1}, first.Units)
			streams = append(streams, stream)
		}
		require.Equal(t, 3, b.Open())
		require.Equal(t, 1, s.countAudits(), "one sample serves those who come together")
		for range 10 {
			time.Sleep(time.Second)
			synctest.Wait()
			var samples []*Sample
			for _, stream := range streams {
				samples = append(samples, <-stream.Updates())
			}
			require.Same(t, samples[0], samples[2])
			_, err := b.Snapshot(t.Context(), core.AllMerchants(), "1")
			require.NoError(t, err)
		}
		require.Equal(t, 11, s.countAudits())
		for _, stream := range streams {
			stream.Close()
			stream.Close()
		}
		synctest.Wait()
		time.Sleep(10 * time.Second)
		require.Equal(t, 11, s.countAudits(), "no viewer is left")
		require.Zero(t, b.Open())
		b.running.Wait()

		// A viewer who comes back starts it again, and the history is still there.
		_, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.NotNil(t, <-stream.Updates())
		stream.Close()
		b.running.Wait()
	})
}

// The streams of a draft end when it is deleted.
func TestADeletedDraftEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		_, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		s.mu.Lock()
		s.deleted = true
		s.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Nil(t, <-stream.Updates())
		_, err = b.Snapshot(t.Context(), core.OfMerchant("m1"), "1")
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		stream.Close()
		b.running.Wait()
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(newSale(), func(c *Config) { c.Streams, c.StreamsPerUser = 3, 2 })
		follow := func(user string) (*Stream, error) {
			_, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), user, "1")
			return stream, err
		}
		var open []*Stream
		for _, user := range []string{"a", "a", "b"} {
			stream, err := follow(user)
			require.NoError(t, err)
			open = append(open, stream)
		}
		for _, user := range []string{"a", "c"} {
			_, err := follow(user)
			require.Equal(t, contract.CodeOverloaded, contract.CodeOf(err), user)
		}
		open[2].Close()
		stream, err := follow("c")
		require.NoError(t, err)
		for _, s := range append(open, stream) {
			s.Close()
		}
		b.running.Wait()
	})
}

func TestStreamsEndWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(newSale())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		_, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		stop()
		<-stream.Done()
		require.NoError(t, <-ended)
		stream.Close()
		_, _, err = b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
		_, err = b.Snapshot(t.Context(), core.OfMerchant("m1"), "1")
		require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	})
}

// Each second with requests is a point of the samples from 3 s after it on, also if the viewer missed samples. Seconds
// before the first viewer have no units.
func TestPointsOfASale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		s.request()
		time.Sleep(4 * time.Second)
		first, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		require.Len(t, first.Points, 1)
		require.Nil(t, first.Points[0].Units)
		require.Equal(t, map[string]int64{"sold_out": 1}, first.Points[0].Refused)
		time.Sleep(1500 * time.Millisecond)
		s.request()
		at := time.Now().UTC().Truncate(time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, (<-stream.Updates()).Points, 1, "the second may still grow")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		points := (<-stream.Updates()).Points
		require.Len(t, points, 2)
		require.Equal(t, at, points[1].At)
		require.Equal(t, &Units{Total: 15, Left: 12, Held: 2, Sold: 1}, points[1].Units)
		for range MaxPoints + 20 {
			time.Sleep(time.Second)
			s.request()
		}
		synctest.Wait()
		last := <-stream.Updates()
		require.LessOrEqual(t, len(last.Points), MaxPoints)
		require.Greater(t, len(last.Points), MaxPoints-10)
		stream.Close()
		b.running.Wait()
	})
}

// While the gate cannot be read, viewers keep the last sample, and new ones are refused. The sampler goes on by itself.
func TestAnUnreachableGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		_, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		s.fail(errors.Join(core.ErrGateUnavailable))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Empty(t, stream.Updates())
		_, err = b.Snapshot(t.Context(), core.OfMerchant("m1"), "1")
		require.Equal(t, contract.CodeGateUnavailable, contract.CodeOf(err))
		_, _, err = b.Follow(t.Context(), core.OfMerchant("m1"), "b", "1")
		require.Equal(t, contract.CodeGateUnavailable, contract.CodeOf(err))
		require.Equal(t, 1, b.Open(), "a refused stream is closed")
		s.fail(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NotNil(t, <-stream.Updates())
		stream.Close()
		b.running.Wait()
	})
}

// While a sale goes on without its gate, its board has the figures of the database.
func TestABoardWithoutAGate(t *testing.T) {
	s := newSale()
	s.activity.Mode = contract.ModeRedisless
	s.activity.Items[0] = core.Stock{SKUID: "1", Total: 10, Available: 9, Reserved: 1}
	s.fail(core.ErrGateUnavailable)
	got, err := boardOf(s).Snapshot(t.Context(), core.OfMerchant("m1"), "1")
	require.NoError(t, err)
	require.Equal(t, contract.ModeRedisless, got.Activity.Mode)
	require.Equal(t, Units{Total: 15, Left: 14, Held: 1}, got.Units)
	require.Nil(t, got.Stock.SKUs[0].Gate)
}

// A panic in a sampler is logged with its stack, once, and the sampler goes on; the process does not end.
func TestAPanicInASampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		var log bytes.Buffer
		b.Log = slog.New(slog.NewTextHandler(&log, nil))
		_, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		panics := func(yes bool) { s.mu.Lock(); defer s.mu.Unlock(); s.panics = yes }
		panics(true)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "sample of a board failed"))
		require.Contains(t, log.String(), "panic: audit of the test")
		require.Contains(t, log.String(), "watch.go")
		require.Empty(t, stream.Updates())
		panics(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NotNil(t, <-stream.Updates())
		stream.Close()
		b.running.Wait()
	})
}

// The board of an ended sale without a gate has the figures of the database.
func TestAnEndedSaleWithoutAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		s.activity.EndsAt = time.Now().Add(-48 * time.Hour)
		s.activity.Items[0] = core.Stock{SKUID: "1", Total: 10, Available: 9, Sold: 1}
		s.audit = core.GateAudit{}
		s.fail(core.ErrNoGate)
		got, err := boardOf(s).Snapshot(t.Context(), core.OfMerchant("m1"), "1")
		require.NoError(t, err)
		require.Equal(t, Units{Total: 15, Left: 14, Sold: 1}, got.Units)
		require.Equal(t, int64(3), got.Totals.Accepted, "the rows of the ledger")
		require.Len(t, got.Stock.SKUs, 2)
		require.Nil(t, got.Stock.SKUs[0].Gate)
		for _, in := range []core.Scope{core.OfMerchant("m2"), {}} {
			_, err = boardOf(s).Snapshot(t.Context(), in, "1")
			require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		}
	})
}

// A purchase that lands between two readings is no difference: the sampler compares again, and shows what it has after
// some attempts.
func TestStockWhilePurchasesLand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		first, stream, err := b.Follow(t.Context(), core.OfMerchant("m1"), "a", "1")
		require.NoError(t, err)
		require.Zero(t, first.Stock.SKUs[0].Difference)
		s.mu.Lock()
		s.lands = true
		s.mu.Unlock()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Equal(t, first.Stock.AsOf, (<-stream.Updates()).Stock.AsOf, "not settled")
		s.mu.Lock()
		s.lands = false
		s.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, (<-stream.Updates()).Stock.AsOf.After(first.Stock.AsOf))
		stream.Close()
		b.running.Wait()
	})
}

// While a sale goes on without its gate, the board has the requests of before. The purchases are those of the ledger.
func TestTheRequestsOfASaleStayWhileItGoesOnWithoutItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		b := boardOf(s)
		_, err := b.Snapshot(t.Context(), core.AllMerchants(), "1")
		require.NoError(t, err)
		s.mu.Lock()
		s.activity.Mode, s.err = contract.ModeRedisless, fmt.Errorf("%w: connection refused", core.ErrGateUnavailable)
		s.mu.Unlock()
		for range 3 {
			time.Sleep(time.Second)
			got, err := b.Snapshot(t.Context(), core.AllMerchants(), "1")
			require.NoError(t, err)
			require.EqualValues(t, 9, got.Totals.Paths)
			require.Equal(t, map[string]int64{"sold_out": 1}, got.Totals.Refused)
			require.Equal(t, merchants.ReservationCounts{Reserved: 2, Sold: 1}.All(), got.Totals.Accepted)
		}
	})
}

// Revenue is that of the sold units, as the gate has them or, without it, the database. A room is shown from its first
// ticket on, paused or not, and not while the gate cannot be read.
func TestABoardHasRevenueAndRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		s.activity.Items[0].Price, s.activity.Items[1].Price = 299_000, 50
		s.audit.SKUs["1"], s.audit.SKUs["2"] = core.GateStock{Left: 7, Sold: 3, Total: 10}, core.GateStock{Sold: 5, Total: 5}
		b := boardOf(s)
		read := func() *Sample {
			t.Helper()
			time.Sleep(time.Second)
			got, err := b.Snapshot(t.Context(), core.AllMerchants(), "1")
			require.NoError(t, err)
			return got
		}
		require.EqualValues(t, 3*299_000+5*50, read().Revenue)
		s.audit.SKUs["1"] = core.GateStock{Sold: 1e13, Total: 1e13}
		require.EqualValues(t, core.MaxRevenue, read().Revenue, "no overflow")
		s.places = RoomPlaces{Sequence: 1205, Admitted: 900, Lapsed: 840}
		require.Nil(t, read().Room, "a sale without a room")
		s.activity.RoomRate = 10
		want := &Room{Waiting: 305, Admitted: 60, Lapsed: 840, Estimate: 31 * time.Second}
		require.Equal(t, want, read().Room)
		s.activity.State = core.ActivityPaused
		require.Equal(t, want, read().Room)
		s.places = RoomPlaces{}
		require.Nil(t, read().Room, "no ticket yet")
		s.places, s.ready = RoomPlaces{Sequence: 3, Admitted: 3}, core.ReadinessUnread
		require.Equal(t, &Room{Admitted: 3}, read().Room)
		s.fail(fmt.Errorf("%w: connection refused", core.ErrGateUnavailable))
		got := read()
		require.Nil(t, got.Room)
		require.EqualValues(t, 299_000, got.Revenue, "the database has one sold unit")
	})
}

// Of a sale that stops with its gate, the board shows why, with the counts of the database. The others have no board
// until the gate responds, or the sale goes on without it.
func TestABoardShowsThatASaleStopsWithItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSale()
		s.activity.Items[0] = core.Stock{SKUID: "1", Total: 10, Available: 6, Reserved: 3, Sold: 1}
		b := boardOf(s)
		s.fail(fmt.Errorf("%w: connection refused", core.ErrGateUnavailable))
		for ready, stops := range map[core.Readiness]bool{
			core.ReadinessReady: false, core.ReadinessOff: false, core.ReadinessInactive: false,
			core.ReadinessUnread: true, core.ReadinessOutdated: true, core.ReadinessImporting: true,
		} {
			s.mu.Lock()
			s.ready = ready
			s.mu.Unlock()
			time.Sleep(time.Second)
			got, err := b.Snapshot(t.Context(), core.AllMerchants(), "1")
			if !stops {
				require.Equal(t, contract.CodeGateUnavailable, contract.CodeOf(err), ready)
				continue
			}
			require.NoError(t, err, ready)
			require.Equal(t, ready, got.Readiness)
			require.Equal(t, Units{Total: 15, Left: 11, Held: 3, Sold: 1}, got.Units)
			require.Nil(t, got.Stock.SKUs[0].Gate)
		}
	})
}
