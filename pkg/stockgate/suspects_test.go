package stockgate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (e *env) addSuspects(source string, until time.Time, s Suspects) {
	e.t.Helper()
	require.NoError(e.t, e.AddSuspects(e.t.Context(), e.activityID, source, until, s))
}

func (e *env) suspects() Suspects {
	e.t.Helper()
	s, err := e.Suspects(e.t.Context(), e.activityID)
	require.NoError(e.t, err)
	return s
}

func TestSuspectsOfAllProcessesAddUp(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		at := time.Now()
		s := Suspects{
			Addresses: []Suspect{{Key: "192.0.2.1", Early: 1, Error: 4}, {Key: "2001:db8::/64", RateLimited: 2}},
			Users:     []Suspect{{Key: "ann", FailedChallenges: 3, VoidedPaths: 5}},
		}
		require.ErrorIs(t, e.AddSuspects(t.Context(), e.activityID, "a", at, s), ErrNoGate)
		e.open(openConfig(), 5)
		require.Empty(t, e.suspects().Addresses)
		require.Empty(t, e.suspects().Users)
		var same sync.WaitGroup
		for range 4 { // repetitions count once
			same.Go(func() { assert.NoError(t, e.AddSuspects(t.Context(), e.activityID, "a", at, s)) })
		}
		same.Wait()
		e.addSuspects("a", at.Add(-time.Second), s) // late
		e.addSuspects("b", at, Suspects{Users: []Suspect{{Key: "ann", Early: 1, Error: 1}, {Key: "bob", Early: 2}}})
		e.addSuspects("b", at.Add(time.Millisecond), Suspects{Addresses: []Suspect{{Key: "192.0.2.1", Early: 2}}})
		e.addSuspects("b", at.Add(2*time.Millisecond), Suspects{})
		require.Equal(t, Suspects{
			Addresses: []Suspect{{Key: "192.0.2.1", Early: 3, Error: 4}, {Key: "2001:db8::/64", RateLimited: 2}},
			Users:     []Suspect{{Key: "ann", Early: 1, FailedChallenges: 3, VoidedPaths: 5, Error: 1}, {Key: "bob", Early: 2}},
		}, e.suspects())
		for _, key := range suspectKeys(e.activityID) {
			ttl, err := e.rdb.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.InDelta(t, 7*24*time.Hour, ttl, float64(time.Minute), key)
		}
		e.check()
	})
}

// The gate keeps a bounded number of keys, and of these the most frequent ones. A key that replaces another one starts
// with its total as error.
func TestSuspectsAreBounded(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 5)
		at, sum := time.Now(), int64(0)
		add := func(users ...Suspect) {
			at = at.Add(time.Second)
			e.addSuspects("a", at, Suspects{Users: users})
			for _, u := range users {
				sum += u.Total()
			}
		}
		add(Suspect{Key: "robot", Early: 50})
		var crowd []Suspect
		for i := range MaxSuspects + 300 {
			crowd = append(crowd, Suspect{Key: fmt.Sprint("u", i), RateLimited: 1})
		}
		for part := range slices.Chunk(crowd, MaxSuspectsAdded) {
			add(part...)
		}
		users := e.suspects().Users
		require.Len(t, users, MaxSuspects)
		require.Equal(t, Suspect{Key: "robot", Early: 50}, users[0])
		totals, err := e.rdb.ZRangeWithScores(t.Context(), suspectKeys(e.activityID)[2], 0, -1).Result()
		require.NoError(t, err)
		require.Len(t, totals, MaxSuspects)
		scores, all := map[string]int64{}, int64(0)
		for _, z := range totals {
			scores[z.Member.(string)] = int64(z.Score)
			all += int64(z.Score)
		}
		require.Equal(t, sum, all, "each request counts in one total")
		for _, u := range users {
			require.Equal(t, scores[u.Key], u.Total()+u.Error, u.Key)
			require.LessOrEqual(t, u.Error, sum/MaxSuspects, u.Key)
		}
	})
}

func TestDamagedSuspectsAreReported(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 5)
		for _, stored := range []string{"1,2,3", "1,2,3,4,x"} {
			require.NoError(t, e.rdb.HSet(t.Context(), suspectKeys(e.activityID)[1], "192.0.2.1", stored).Err())
			_, err := e.Suspects(t.Context(), e.activityID)
			require.ErrorIs(t, err, ErrBroken, stored)
		}
	})
}

// Suspects that are of another type stop no purchase.
func TestDamagedSuspectsStopNoSale(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.open(openConfig(), 5)
		_, err := e.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, key := range suspectKeys(e.activityID) {
				p.Set(t.Context(), key, "x", 0)
			}
			return nil
		})
		require.NoError(t, err)
		require.Error(t, e.AddSuspects(t.Context(), e.activityID, "a", time.Now(), Suspects{Users: []Suspect{{Key: "ann", Early: 1}}}))
		require.Equal(t, Accepted, e.reserve("1", "ann", lines(1)).Outcome)
	})
}

func TestMalformedSuspectsNeverReachRedis(t *testing.T) {
	ctx, g, at := t.Context(), New(nil, Options{}), time.Unix(1000, 0)
	var many []Suspect
	for i := range MaxSuspectsAdded + 1 {
		many = append(many, Suspect{Key: strconv.Itoa(i), Early: 1})
	}
	users := func(list ...Suspect) Suspects { return Suspects{Users: list} }
	for name, s := range map[string]Suspects{
		"user":     users(Suspect{Key: "a b", Early: 1}),
		"no user":  users(Suspect{Early: 1}),
		"address":  {Addresses: []Suspect{{Key: "ann", Early: 1}}},
		"network":  {Addresses: []Suspect{{Key: "192.0.2.1/x", Early: 1}}},
		"negative": users(Suspect{Key: "ann", Early: -1}),
		"large":    users(Suspect{Key: "ann", Error: maxExact}),
		"many":     users(many...),
	} {
		require.Error(t, g.AddSuspects(ctx, "1", "a", at, s), name)
	}
	fine := users(Suspect{Key: "ann", Early: 1})
	require.Error(t, g.AddSuspects(ctx, "x", "a", at, fine))
	require.Error(t, g.AddSuspects(ctx, "1", "", at, fine))
	require.Error(t, g.AddSuspects(ctx, "1", strings.Repeat("a", 65), at, fine))
	require.Error(t, g.AddSuspects(ctx, "1", "a", time.Time{}, fine))
	require.NoError(t, g.AddSuspects(ctx, "1", "a", at, Suspects{}), "nothing to add")
	_, err := g.Suspects(ctx, "x")
	require.Error(t, err)
}
