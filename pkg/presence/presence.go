// Package presence shows operators every process of the system: each writes its state to the Redis of the limits every
// 5 s, and any of them reads all states. A state expires 20 s after it was written, so a process that died disappears.
package presence

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/lifecycle"
)

const (
	every     = 5 * time.Second  // between two announcements
	ttl       = 20 * time.Second // of a state
	forget    = time.Minute      // after which a reader drops a process from the index
	dropAfter = time.Hour        // after which each announcement does so; longer than clocks differ
	timeout   = 2 * time.Second  // of reading the vitals, and of one exchange with Redis
	maxListed = 1000             // processes in a list
	keyPrefix = "presence:"
	indexKey  = keyPrefix + "index" // sorted set of <component>:<instance>, by the time of the last announcement in ms
)

// Breaker is the state of a circuit breaker: closed, half-open or open.
type Breaker struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Pool is a pool of connections.
type Pool struct {
	Name  string `json:"name"`
	InUse int    `json:"in_use"`
	Max   int    `json:"max"` // 0 if there is no bound
}

// Vitals are what a service reports about its dependencies.
type Vitals struct {
	Breakers []Breaker `json:"breakers"`
	Pools    []Pool    `json:"pools"`
	// ClockOffsetMS is how far the clock of the process is ahead of that of a dependency, in ms, by dependency: redis,
	// database. One that has not responded for 30 s is left out.
	ClockOffsetMS map[string]int64 `json:"clock_offset_ms"`
	// Warnings are what the process does not do at present, although it may be ready. They are among the Reasons of its
	// state.
	Warnings []string `json:"-"`
}

// State is the state of one service in one process.
type State struct {
	Component string   `json:"component"`
	Instance  string   `json:"instance"`
	Version   string   `json:"version"`
	Ready     bool     `json:"ready"`
	Reasons   []string `json:"reasons"` // why it is not ready, and its Warnings
	Vitals
	StartedAt time.Time `json:"started_at"`
	At        time.Time `json:"at"` // when it was read, by the clock of the process
}

// Announcer announces the state of one service.
type Announcer struct {
	rdb       redis.UniversalClient // nil without Redis
	component string
	instance  string
	startedAt time.Time
	ready     func() error
	vitals    func(ctx context.Context) Vitals
}

// Announce returns an announcer of a service, whose Component announces it. rdb is the Redis of the limits; nil for
// none. ready returns why the service is not ready, nil if it is. vitals must end with its ctx.
func Announce(
	rdb redis.UniversalClient, component string, ready func() error, vitals func(ctx context.Context) Vitals,
) *Announcer {
	return &Announcer{
		rdb: rdb, component: component, instance: instanceName(), startedAt: time.Now().UTC(), ready: ready, vitals: vitals,
	}
}

// instanceName returns the name of the host, which is that of the pod, and a part that is new at each start.
func instanceName() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "-" + hex.EncodeToString(id[:])
}

// State reads the present state.
func (a *Announcer) State(ctx context.Context) State {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s := State{
		Component: a.component, Instance: a.instance, Version: command.Version(), Ready: true, Reasons: []string{},
		StartedAt: a.startedAt, Vitals: a.vitals(ctx),
	}
	if s.Breakers == nil {
		s.Breakers = []Breaker{}
	}
	if s.Pools == nil {
		s.Pools = []Pool{}
	}
	if s.ClockOffsetMS == nil {
		s.ClockOffsetMS = map[string]int64{}
	}
	if err := a.ready(); err != nil {
		s.Ready, s.Reasons = false, strings.Split(err.Error(), "\n")
	}
	s.Reasons = append(s.Reasons, s.Warnings...)
	s.At = time.Now().UTC()
	return s
}

// Component announces the state every 5 s. At the end it withdraws the state. While Redis is unreachable it keeps
// trying.
func (a *Announcer) Component() lifecycle.Component {
	return lifecycle.Component{Name: a.component + " presence", Run: func(ctx context.Context) error {
		if a.rdb == nil {
			<-ctx.Done()
			return nil
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			_ = a.announce(ctx) // the next round repeats it; operators see the process disappear
			select {
			case <-ctx.Done():
				a.withdraw(ctx)
				return nil
			case <-tick.C:
			}
		}
	}}
}

func (a *Announcer) member() string { return a.component + ":" + a.instance }

func (a *Announcer) announce(ctx context.Context) error {
	s := a.State(ctx)
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := a.rdb.Pipeline()
	p.Set(ctx, keyPrefix+a.member(), text, ttl)
	p.ZAdd(ctx, indexKey, redis.Z{Score: float64(s.At.UnixMilli()), Member: a.member()})
	p.ZRemRangeByScore(ctx, indexKey, "-inf", strconv.FormatInt(s.At.Add(-dropAfter).UnixMilli(), 10))
	p.Expire(ctx, indexKey, forget)
	_, err = p.Exec(ctx)
	return err
}

func (a *Announcer) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	p := a.rdb.Pipeline()
	p.Del(ctx, keyPrefix+a.member())
	p.ZRem(ctx, indexKey, a.member())
	_, _ = p.Exec(ctx) // if it fails, the state expires
}

// ErrNoRedis is returned by List without a Redis.
var ErrNoRedis = errors.New("presence: no redis is configured for limits")

// List returns the states of all processes, by component and instance: those that announced themselves in the last 20
// s, at most 1000. Two round trips, O(processes).
func List(ctx context.Context, rdb redis.UniversalClient) ([]State, error) {
	if rdb == nil {
		return nil, ErrNoRedis
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	members, err := rdb.ZRevRangeWithScores(ctx, indexKey, 0, maxListed-1).Result()
	if err != nil {
		return nil, fmt.Errorf("presence: %w", err)
	}
	states := make([]State, 0, len(members))
	if len(members) == 0 {
		return states, nil
	}
	p := rdb.Pipeline()
	texts := make([]*redis.StringCmd, len(members))
	for i, m := range members {
		texts[i] = p.Get(ctx, keyPrefix+memberOf(m))
	}
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("presence: %w", err)
	}
	var expired []any
	for i, t := range texts {
		var s State
		if json.Unmarshal([]byte(t.Val()), &s) == nil {
			states = append(states, s)
		} else if time.Since(time.UnixMilli(int64(members[i].Score))) > forget {
			expired = append(expired, memberOf(members[i]))
		}
	}
	if len(expired) > 0 { // of processes that died
		_ = rdb.ZRem(ctx, indexKey, expired...).Err()
	}
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Instance, b.Instance))
	})
	return states, nil
}

func memberOf(z redis.Z) string {
	m, _ := z.Member.(string)
	return m
}
