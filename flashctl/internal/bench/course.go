package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
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

// Interval is one part of the window of a sale.
type Interval struct {
	From        time.Duration `json:"from_ns"` // since the start of the window
	Took        time.Duration `json:"took_ns"`
	Accepted    float64       `json:"accepted_per_s"`
	Landed      float64       `json:"landed_per_s"`
	Unavailable int64         `json:"unavailable"` // responses with status 503
	Oldest      time.Duration `json:"oldest_ns"`   // age of the oldest journal entry at the end
}

// intervals returns the differences between successive readings. A reading with an error is left out.
func intervals(readings []reading) []Interval {
	var all []Interval
	var valid []reading
	for _, r := range readings {
		if r.err == nil {
			valid = append(valid, r)
		}
	}
	for i := 1; i < len(valid); i++ {
		from, to := valid[i-1], valid[i]
		seconds := to.at.Sub(from.at).Seconds()
		all = append(all, Interval{
			From: from.at.Sub(valid[0].at), Took: to.at.Sub(from.at),
			Accepted:    ratio(float64(to.accepted-from.accepted), seconds),
			Landed:      ratio(float64(to.created-from.created), seconds),
			Unavailable: to.unavailable - from.unavailable,
			Oldest:      to.oldest,
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
func (c *course) stop() []Interval {
	c.end()
	c.wg.Wait()
	all := intervals(c.readings)
	if n := len(all); n > 1 && all[n-1].Took < all[0].Took/10 {
		all = all[:n-1]
	}
	return all
}

func (b *bench) read(ctx context.Context, s *sale) reading {
	r := reading{at: time.Now(), accepted: s.count(), unavailable: s.unavailable.Load()}
	var journal error
	r.created, r.err = b.created(ctx)
	r.oldest, journal = oldestEntry(ctx, b.cfg.Redis, s.id, time.Now())
	r.err = errors.Join(r.err, journal)
	return r
}

// oldestEntry returns the age of the oldest entry in the journal of an activity's gate, 0 if the journal is empty. It
// reads the stream without pkg/stockgate, because the gate has no call for it and the measurement needs no other.
func oldestEntry(ctx context.Context, redis, activityID string, now time.Time) (time.Duration, error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", redis)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(conn, "XRANGE fs:{%s}:journal - + COUNT 1\r\n", activityID); err != nil {
		return 0, err
	}
	return entryAge(bufio.NewReader(conn), now)
}

// entryAge reads the reply to XRANGE and returns the age of its first entry: the id of a stream's entry begins with the
// Unix time of its creation in milliseconds.
func entryAge(reply *bufio.Reader, now time.Time) (time.Duration, error) {
	for {
		line, err := reply.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("read journal: %w", err)
		}
		line = strings.TrimSpace(line)
		switch {
		case line == "*0":
			return 0, nil
		case strings.HasPrefix(line, "-"):
			return 0, fmt.Errorf("read journal: %s", line)
		case strings.HasPrefix(line, "*"), strings.HasPrefix(line, "$"):
			continue
		}
		unixMilli, _, _ := strings.Cut(line, "-")
		n, err := strconv.ParseInt(unixMilli, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read journal: id %q", line)
		}
		return max(now.Sub(time.UnixMilli(n)), 0), nil
	}
}

// sustained measures the same as fetched for three minutes, in intervals of ten seconds.
func (b *bench) sustained(ctx context.Context) error {
	within := b.scaled(180 * time.Second)
	return b.window(ctx, saleWindow{
		name: "path fetched before, sustained", bare: 2, every: within / 18, buyers: expectedSustained,
		traffic: traffic{conns: 256, within: within},
	})
}

// courses prints the windows that were read in intervals.
func (r *Report) courses(p printer) {
	for _, w := range r.Windows {
		if len(w.Course) == 0 {
			continue
		}
		p("| %s: from | accepted/s | landed/s | 503 | oldest journal entry |", w.Name)
		p("|---:|---:|---:|---:|---:|")
		for _, i := range w.Course {
			p("| %s | %.0f | %.0f | %d | %s |", ms(i.From.Round(time.Millisecond)), i.Accepted, i.Landed, i.Unavailable,
				ms(i.Oldest))
		}
		p("")
	}
}
