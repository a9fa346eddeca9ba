package stockgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RequestCounts are numbers of buyers' requests to one activity: in one second, or since its publication.
//
// All but Accepted count responses, and in one second Accepted does as well. Counts that a process has not added when
// it is killed are lost. The total of Accepted is exact: it is the number of entries that the gate has and had, those
// included that it adopted from the ledger.
type RequestCounts struct {
	At       time.Time        // the second, by Redis time; zero for totals
	Accepted int64            // purchases accepted, without repeated requests
	Paths    int64            // paths issued
	Solved   int64            // challenges solved
	Failed   int64            // wrong answers to challenges
	Refused  map[string]int64 // path and purchase requests refused, by error code
}

// MaxPoints is the number of seconds that CountsSince returns at most: 15 min.
const MaxPoints = 900

// maxCodes bounds the error codes in one call of AddCounts.
const maxCodes = 64

// Names of the counters in Redis.
const (
	counterAccepted = "accepted"
	counterPaths    = "paths"
	counterSolved   = "solved"
	counterFailed   = "failed"
	counterRefused  = "refused:" // and the code
)

// pointsKey returns the key of the points of the minute that holds at. It is a hash with the fields second|counter,
// for the counts of all processes, and by|source, for the last second that a process has added. Seconds are Unix
// times. It expires 16 min after the last change.
func pointsKey(activityID string, at time.Time) string {
	return keyOf(activityID, "points:"+strconv.FormatInt(at.Unix()/60, 10))
}

// AddCounts adds the counts of one second of one process to the points and, except Accepted, to the totals of an
// activity. source names the process: 1 to 64 of a-z 0-9 _ -. It counts each second once, in the order of time: a call
// with a second that is not later than the last one of that source in the same minute changes nothing. So a call may
// be repeated, but one with other counts needs a later second. It fails with ErrNoGate if the gate does not exist. One
// script call, O(counters).
func (g *Gate) AddCounts(ctx context.Context, activityID, source string, c RequestCounts) error {
	if err := validateActivity(activityID); err != nil {
		return err
	}
	counters, err := c.counters()
	if err != nil {
		return err
	}
	if !validToken(source, maxAdjustmentID) {
		return fmt.Errorf("stockgate: source of counts %q is malformed", source)
	}
	if len(counters) == 0 {
		return nil
	}
	args := append(make([]any, 0, 2+len(counters)), source, c.At.Unix())
	keys := append(keysOf(activityID), pointsKey(activityID, c.At))
	_, err = g.runWith(ctx, scriptAddCounts, keys, append(args, counters...)...)
	return err
}

// counters returns the names and values of the counters that are not 0.
func (c RequestCounts) counters() (list []any, err error) {
	add := func(name string, n int64) {
		if n < 0 || n >= maxExact {
			err = fmt.Errorf("stockgate: count %s of %d is out of range", name, n)
		}
		if n > 0 {
			list = append(list, name, n)
		}
	}
	if c.At.Unix() <= 0 || c.At.Nanosecond() != 0 {
		return nil, fmt.Errorf("stockgate: time of counts %s is no whole second", c.At)
	}
	if len(c.Refused) > maxCodes {
		return nil, fmt.Errorf("stockgate: counts of %d codes", len(c.Refused))
	}
	add(counterAccepted, c.Accepted)
	add(counterPaths, c.Paths)
	add(counterSolved, c.Solved)
	add(counterFailed, c.Failed)
	for _, code := range slices.Sorted(maps.Keys(c.Refused)) {
		if !validToken(code, maxAdjustmentID) {
			return nil, fmt.Errorf("stockgate: code %q is malformed", code)
		}
		add(counterRefused+code, c.Refused[code])
	}
	return list, err
}

// set sets the counter of that name. It ignores a name that a later release may have added.
func (c *RequestCounts) set(name, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: count %s: %w", ErrBroken, name, err)
	}
	switch code, refused := strings.CutPrefix(name, counterRefused); {
	case name == counterAccepted:
		c.Accepted = n
	case name == counterPaths:
		c.Paths = n
	case name == counterSolved:
		c.Solved = n
	case name == counterFailed:
		c.Failed = n
	case refused:
		if c.Refused == nil {
			c.Refused = map[string]int64{}
		}
		c.Refused[code] = n
	}
	return nil
}

// Totals returns the counts of an activity since its publication, over all processes. They are zero if there are none.
// Accepted is the number of purchases in the gate, those included whose entries were trimmed: it equals the number of
// ledger rows once all have landed, also after Redis lost data. An ending that is repeated after its entry was
// trimmed, a day after the first one, counts again. Paths and Refused begin at 0 after Redis lost them. One round
// trip.
func (g *Gate) Totals(ctx context.Context, activityID string) (RequestCounts, error) {
	if err := validateActivity(activityID); err != nil {
		return RequestCounts{}, err
	}
	var hash *redis.MapStringStringCmd
	var held *redis.IntCmd
	var trimmed *redis.StringCmd
	_, err := call(ctx, g, func(ctx context.Context) (struct{}, error) {
		p := g.rdb.Pipeline()
		hash = p.HGetAll(ctx, keyOf(activityID, "counts"))
		held = p.HLen(ctx, keyOf(activityID, "held"))
		trimmed = p.HGet(ctx, keyOf(activityID, "gate"), "trimmed")
		_, err := p.Exec(ctx)
		if errors.Is(err, redis.Nil) { // Redis has lost the gate
			err = nil
		}
		return struct{}{}, err
	})
	if err != nil {
		return RequestCounts{}, err
	}
	var c RequestCounts
	for name, value := range hash.Val() {
		err = errors.Join(err, c.set(name, value))
	}
	if err != nil {
		return RequestCounts{}, err
	}
	ended, _ := trimmed.Int64() // 0 if there is no such field
	c.Accepted = held.Val() + ended
	return c, nil
}

// CountsSince returns the counts of an activity in each second from since on, over all processes, oldest first.
// Seconds without counts are left out. It returns at most the latest MaxPoints seconds; points are kept for 16 min.
// Processes add their counts about a second later, so the last two points may still grow. One round trip, O(points).
func (g *Gate) CountsSince(ctx context.Context, activityID string, since time.Time) ([]RequestCounts, error) {
	if err := validateActivity(activityID); err != nil {
		return nil, err
	}
	// The minute after the present one is for differences between the clocks of Redis and of this machine.
	now := time.Now()
	from, last := now.Add(-(MaxPoints+60)*time.Second), now.Add(time.Minute)
	if since.After(from) {
		from = since
	}
	hashes, err := call(ctx, g, func(ctx context.Context) ([]*redis.MapStringStringCmd, error) {
		p := g.rdb.Pipeline()
		var replies []*redis.MapStringStringCmd
		for at := from; at.Unix()/60 <= last.Unix()/60; at = at.Add(time.Minute) {
			replies = append(replies, p.HGetAll(ctx, pointsKey(activityID, at)))
		}
		if len(replies) == 0 { // since is in the future
			return nil, nil
		}
		_, err := p.Exec(ctx)
		return replies, err
	})
	if err != nil {
		return nil, err
	}
	points := map[int64]*RequestCounts{}
	for _, hash := range hashes {
		if err := addPoints(points, hash.Val()); err != nil {
			return nil, err
		}
	}
	list := make([]RequestCounts, 0, len(points))
	for second, c := range points {
		if second >= since.Unix() {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b RequestCounts) int { return cmp.Compare(a.At.Unix(), b.At.Unix()) })
	return list[max(0, len(list)-MaxPoints):], nil
}

// addPoints adds the points of one minute.
func addPoints(points map[int64]*RequestCounts, hash map[string]string) error {
	for field, value := range hash {
		at, name, _ := strings.Cut(field, "|")
		if at == "by" {
			continue
		}
		second, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: point %q: %w", ErrBroken, field, err)
		}
		c := points[second]
		if c == nil {
			c = &RequestCounts{At: time.Unix(second, 0).UTC()}
			points[second] = c
		}
		if err := c.set(name, value); err != nil {
			return err
		}
	}
	return nil
}
