package ordersn_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/ordersn"
)

// fixed is a lease of one worker id for a range of milliseconds.
type fixed struct {
	worker   int
	from, to int64
}

func (f *fixed) Worker(ms int64) (int, bool) { return f.worker, ms >= f.from && ms <= f.to }

func always(worker int) *fixed { return &fixed{worker: worker, to: 1 << 62} }

func number(t require.TestingT, sn string) int64 {
	n, err := strconv.ParseInt(sn, 10, 64)
	require.NoError(t, err)
	return n
}

func TestNextEncodesItsFields(t *testing.T) {
	now := time.Date(2026, 11, 11, 0, 0, 0, 7e6, time.UTC)
	g := ordersn.NewGenerator(always(200), func() time.Time { return now })
	for want := range 64 {
		text, err := g.Next("u-42")
		require.NoError(t, err)
		sn, err := ordersn.Parse(text)
		require.NoError(t, err)
		require.Equal(t, ordersn.SN{Time: now, Worker: 200, Sequence: want, Gene: ordersn.Gene("u-42")}, sn)
	}
	// The clock is stopped: the 65th call does not wait forever.
	text, err := g.Next("u-42")
	require.NoError(t, err)
	sn, err := ordersn.Parse(text)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Millisecond), sn.Time)
	require.Zero(t, sn.Sequence)
}

func TestNextWaitsForTheNextMillisecond(t *testing.T) {
	g := ordersn.NewGenerator(always(1), nil)
	for range 64 * 20 {
		text, err := g.Next("u")
		require.NoError(t, err)
		sn, err := ordersn.Parse(text)
		require.NoError(t, err)
		require.Less(t, time.Until(sn.Time), 2*time.Millisecond, "ahead of the clock")
	}
}

func TestNoLease(t *testing.T) {
	now := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
	lease := &fixed{worker: 1, from: now.UnixMilli(), to: now.UnixMilli() + 1}
	at := now
	g := ordersn.NewGenerator(lease, func() time.Time { return at })
	at = now.Add(-time.Millisecond)
	_, err := g.Next("u")
	require.ErrorIs(t, err, ordersn.ErrNoLease, "before the lease: the local clock is behind")
	at = now
	issued := 0
	for {
		if _, err = g.Next("u"); err != nil {
			break
		}
		issued++
	}
	require.ErrorIs(t, err, ordersn.ErrNoLease)
	require.Equal(t, 128, issued, "two milliseconds, and none beyond the high-water mark")
	for _, bad := range []time.Time{time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2095, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := ordersn.NewGenerator(always(1), func() time.Time { return bad }).Next("u")
		require.ErrorIs(t, err, ordersn.ErrNoLease)
	}
	_, err = ordersn.NewGenerator(always(256), nil).Next("u")
	require.ErrorIs(t, err, ordersn.ErrNoLease)
}

// Numbers rise and stay within the lease, whatever happens to the clock and the lease.
func TestNextRisesWithAnyClockAndLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
		now := base
		lease := &fixed{worker: 9, from: base.UnixMilli() - 50, to: base.UnixMilli() + 50}
		g := ordersn.NewGenerator(lease, func() time.Time { return now })
		last := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"step": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(-200, 200).Draw(t, "ms/10")) * 100 * time.Microsecond)
			},
			"lease moves": func(t *rapid.T) {
				lease.to = max(lease.to, now.UnixMilli()) + rapid.Int64Range(0, 5).Draw(t, "ms")
			},
			"another worker": func(t *rapid.T) {
				lease.worker = rapid.IntRange(0, 255).Draw(t, "worker")
				lease.from, lease.to = lease.to+1, lease.to+20
			},
			"same window, another worker": func(t *rapid.T) { lease.worker = rapid.IntRange(0, 255).Draw(t, "worker") },
			"issue": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					text, err := g.Next("u")
					if err != nil {
						if !errors.Is(err, ordersn.ErrNoLease) {
							t.Fatal(err)
						}
						return
					}
					n := number(t, text)
					if n <= last {
						t.Fatalf("%d after %d", n, last)
					}
					last = n
					sn, _ := ordersn.Parse(text)
					if ms := sn.Time.UnixMilli(); ms < lease.from || ms > lease.to || sn.Worker != lease.worker {
						t.Fatalf("%+v outside of %+v", sn, *lease)
					}
				}
			},
		})
	})
}

func TestNextConcurrently(t *testing.T) {
	g := ordersn.NewGenerator(always(3), nil)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine := make([]string, 500)
			last := int64(0)
			for i := range mine {
				sn, err := g.Next("u")
				if err != nil {
					t.Error(err)
					return
				}
				if n := number(t, sn); n <= last {
					t.Errorf("%d after %d", n, last)
				} else {
					last = n
				}
				mine[i] = sn
			}
			mu.Lock()
			defer mu.Unlock()
			for _, sn := range mine {
				if seen[sn] {
					t.Errorf("%s twice", sn)
				}
				seen[sn] = true
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 4000)
}

func BenchmarkNext(b *testing.B) {
	g := ordersn.NewGenerator(always(3), nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next("u-42"); err != nil {
				b.Error(err)
			}
		}
	})
}
