package stockgate

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/contract"
)

// Suspect is an address or a user with many refused requests to one activity.
//
// The counts by cause are lower bounds: they lack the requests from before the key was kept. All of its requests are
// at most Total + Error, as far as the processes that counted them kept the key. See AddSuspects.
type Suspect struct {
	Key                                               string // an IPv4 address, the /64 of an IPv6 address, or a user id
	Early, RateLimited, FailedChallenges, VoidedPaths int64
	// Error counts refused requests that may be of this key, or of another one before it.
	Error int64
}

// Total returns the number of refused requests that are known to be of this key.
func (s Suspect) Total() int64 { return s.Early + s.RateLimited + s.FailedChallenges + s.VoidedPaths }

// Suspects are the addresses and users with the most refused requests to one activity.
type Suspects struct{ Addresses, Users []Suspect }

// Bounds of suspects.
const (
	// MaxSuspects is the number of keys of each kind that a gate keeps: MAX in add_suspects.lua.
	MaxSuspects = 500
	// MaxSuspectsAdded is the number of keys of each kind in one call of AddSuspects.
	MaxSuspectsAdded = 200
)

// suspectKeys returns the keys of the suspects of an activity: for addresses and for users a zset and a hash. They
// expire 7 days after the last change.
func suspectKeys(activityID string) []string {
	return []string{
		keyOf(activityID, "suspects:addresses"), keyOf(activityID, "suspects:addresses:counts"),
		keyOf(activityID, "suspects:users"), keyOf(activityID, "suspects:users:counts"),
	}
}

// AddSuspects adds the refused requests that one process counted up to a time, by address and user. source names the
// process: 1 to 64 of a-z 0-9 _ -. A call with a time that is not later than the last one of that source changes
// nothing, for 16 min. So a call may be repeated, but one with other counts needs a later time, in whole milliseconds.
// It fails with ErrNoGate if the gate does not exist.
//
// The gate keeps MaxSuspects keys of each kind by the Space-Saving algorithm of Metwally, Agrawal and El Abbadi
// (Efficient computation of frequent and top-k elements in data streams, ICDT 2005). One script call, O(keys log
// MaxSuspects).
func (g *Gate) AddSuspects(ctx context.Context, activityID, source string, until time.Time, s Suspects) error {
	if err := validateActivity(activityID); err != nil {
		return err
	}
	if !validToken(source, maxAdjustmentID) {
		return fmt.Errorf("stockgate: source of suspects %q is malformed", source)
	}
	if until.UnixMilli() <= 0 {
		return fmt.Errorf("stockgate: time of suspects %s is out of range", until)
	}
	args := make([]any, 0, 2+6*(len(s.Addresses)+len(s.Users)))
	args = append(args, until.UnixMilli(), len(s.Addresses))
	for _, kind := range []struct {
		list  []Suspect
		valid func(string) bool
	}{{s.Addresses, validAddress}, {s.Users, contract.ValidUserID}} {
		if len(kind.list) > MaxSuspectsAdded {
			return fmt.Errorf("stockgate: %d suspects of one kind", len(kind.list))
		}
		for _, one := range kind.list {
			if !kind.valid(one.Key) {
				return fmt.Errorf("stockgate: suspect %q is malformed", one.Key)
			}
			args = append(args, one.Key)
			for _, n := range one.counts() {
				if *n < 0 || *n >= maxExact/MaxSuspects {
					return fmt.Errorf("stockgate: count %d of a suspect is out of range", *n)
				}
				args = append(args, *n)
			}
		}
	}
	if len(args) == 2 {
		return nil
	}
	keys := append(append(keysOf(activityID), suspectKeys(activityID)...), keyOf(activityID, "suspects:by:"+source))
	_, err := g.runWith(ctx, scriptAddSuspects, keys, args...)
	return err
}

// counts returns the counts in the order in which Redis stores them.
func (s *Suspect) counts() [5]*int64 {
	return [...]*int64{&s.Early, &s.RateLimited, &s.FailedChallenges, &s.VoidedPaths, &s.Error}
}

// validAddress reports whether s is an address or a network as httpfield.Subject returns it.
func validAddress(s string) bool {
	if strings.Contains(s, "/") {
		_, err := netip.ParsePrefix(s)
		return err == nil
	}
	_, err := netip.ParseAddr(s)
	return err == nil
}

// Suspects returns the suspects of an activity, those with most known refused requests first. Both lists are empty if
// there are none. One round trip, O(MaxSuspects).
func (g *Gate) Suspects(ctx context.Context, activityID string) (Suspects, error) {
	if err := validateActivity(activityID); err != nil {
		return Suspects{}, err
	}
	keys := suspectKeys(activityID)
	hashes, err := call(ctx, g, func(ctx context.Context) ([2]*redis.MapStringStringCmd, error) {
		p := g.rdb.Pipeline()
		replies := [...]*redis.MapStringStringCmd{p.HGetAll(ctx, keys[1]), p.HGetAll(ctx, keys[3])}
		_, err := p.Exec(ctx)
		return replies, err
	})
	if err != nil {
		return Suspects{}, err
	}
	var s Suspects
	if s.Addresses, err = parseSuspects(hashes[0].Val()); err != nil {
		return Suspects{}, err
	}
	s.Users, err = parseSuspects(hashes[1].Val())
	return s, err
}

func parseSuspects(hash map[string]string) ([]Suspect, error) {
	list := make([]Suspect, 0, len(hash))
	for key, stored := range hash {
		one := Suspect{Key: key}
		numbers := strings.Split(stored, ",")
		counts := one.counts()
		if len(numbers) < len(counts) { // a later release may add some
			return nil, fmt.Errorf("%w: counts of suspect %q", ErrBroken, key)
		}
		for i, n := range counts {
			var err error
			if *n, err = strconv.ParseInt(numbers[i], 10, 64); err != nil {
				return nil, fmt.Errorf("%w: counts of suspect %q: %w", ErrBroken, key, err)
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), strings.Compare(a.Key, b.Key))
	})
	return list, nil
}
