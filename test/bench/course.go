package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reading holds the counters of a sale at one moment.
type reading struct {
	at          time.Time
	accepted    int
	created     int           // orders, since the order service started
	unavailable int64         // responses with status 503
	oldest      time.Duration // age of the oldest journal entry; 0 if the journal is empty
	err         error
}

// interval is one part of the window of a sale.
type interval struct {
	from, took       time.Duration // since the start of the window
	accepted, landed float64       // a second
	unavailable      int64         // responses with status 503
	oldest           time.Duration // age of the oldest journal entry at the end
}

// intervalsOf returns the differences between successive readings. A reading with an error is left out.
func intervalsOf(readings []reading) []interval {
	var all []interval
	var valid []reading
	for _, r := range readings {
		if r.err == nil {
			valid = append(valid, r)
		}
	}
	for i := 1; i < len(valid); i++ {
		from, to := valid[i-1], valid[i]
		seconds := to.at.Sub(from.at).Seconds()
		all = append(all, interval{
			from: from.at.Sub(valid[0].at), took: to.at.Sub(from.at),
			accepted:    ratio(float64(to.accepted-from.accepted), seconds),
			landed:      ratio(float64(to.created-from.created), seconds),
			unavailable: to.unavailable - from.unavailable,
			oldest:      to.oldest,
		})
	}
	return all
}

// course reads the counters of a sale in intervals.
type course struct {
	end      func()
	wg       sync.WaitGroup
	readings []reading
}

// startCourse begins to read the counters of a sale, now and after each interval. It does nothing if every is 0.
func (b *bench) startCourse(ctx context.Context, s *sale, every time.Duration) *course {
	ctx, end := context.WithCancel(ctx)
	c := &course{end: end}
	if every <= 0 {
		return c
	}
	c.readings = append(c.readings, b.read(ctx, s))
	c.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				c.readings = append(c.readings, b.read(context.WithoutCancel(ctx), s))
				return
			case <-tick.C:
				c.readings = append(c.readings, b.read(ctx, s))
			}
		}
	})
	return c
}

// stop takes a last reading and returns the intervals. One that is shorter than a tenth of the first is left out.
func (c *course) stop() []interval {
	c.end()
	c.wg.Wait()
	all := intervalsOf(c.readings)
	if n := len(all); n > 1 && all[n-1].took < all[0].took/10 {
		all = all[:n-1]
	}
	return all
}

func (b *bench) read(ctx context.Context, s *sale) reading {
	r := reading{at: time.Now(), accepted: s.count(), unavailable: s.unavailable.Load()}
	var failed error
	r.created, r.err = b.created(ctx)
	r.oldest, failed = b.oldestEntry(ctx, s.ActivityID)
	r.err = errors.Join(r.err, failed)
	return r
}

// oldestEntry returns the age of the oldest entry in the journal of an activity's gate, 0 if the journal is empty. It
// reads the stream without pkg/stockgate, because the key of an earlier system may be another one.
func (b *bench) oldestEntry(ctx context.Context, activityID string) (time.Duration, error) {
	entries, err := b.redis.XRangeN(ctx, fmt.Sprintf(b.Journal, activityID), "-", "+", 1).Result()
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	return entryAge(entries[0].ID, time.Now())
}

// entryAge returns the age of an entry of a stream: its id begins with the Unix time of its creation in milliseconds.
func entryAge(id string, now time.Time) (time.Duration, error) {
	unixMilli, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(unixMilli, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("id %q of a journal entry", id)
	}
	return max(now.Sub(time.UnixMilli(n)), 0), nil
}

func courseTable(intervals []interval) Table {
	t := Table{Head: []string{"Sustained, from", "accepted/s", "landed/s", "503", "oldest journal entry"}}
	for _, i := range intervals {
		t.add(i.from.Round(time.Millisecond).String(), i.accepted, i.landed, i.unavailable, i.oldest)
	}
	return t
}
