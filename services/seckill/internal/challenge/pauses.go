package challenge

import (
	"context"
	_ "embed"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
)

const (
	redisPrefix = "fs:challenge:" // in the Redis of the limits
	// All pauses are on one node, so that one script reads and begins those of a user and an address.
	wrongPrefix = redisPrefix + "{pauses}:wrong:" // number of wrong answers in a row of a user or an address
	pausePrefix = redisPrefix + "{pauses}:pause:" // exists during the pause of a user or an address
	// wrongMemory is the time after which wrong answers no longer count. It exceeds the longest pause.
	wrongMemory = 2 * contract.ChallengePauseMost
)

//go:embed lua/pauses.lua
var pausesLua string

var (
	pausesScript = redis.NewScript(pausesLua)
	pauseLengths = func() (ms []any) { // after 0, 1, ... wrong answers
		for before := int64(0); ; before++ {
			pause := contract.ChallengePause(before)
			if ms = append(ms, pause.Milliseconds()); pause == contract.ChallengePauseMost {
				return ms
			}
		}
	}()
)

// Pauses holds for how long users and addresses may not answer after wrong answers. The pause of an address holds for
// users who were wrong themselves: a buyer who shares an address with robots has a first answer like any other. While
// the Redis of the limits is unavailable, each process counts what it has seen.
type Pauses struct {
	shared *admission.Shared

	mu    sync.Mutex
	local map[string]fault
}

// fault is what a process holds of a user or an address.
type fault struct {
	wrong         int64
	paused, until time.Time
}

// outcome of an answer.
type outcome int

const (
	void  outcome = iota // not decided
	wrong                // counts
	right                // ends what was counted
)

// attempt is an answer that is being checked. Its user and address are paused as if it were wrong, so that answers of
// one user in parallel are not checked.
type attempt struct {
	user, address string // subjects; no address is ""
	again         bool   // the user was wrong before, so the address counts
	wrongAddress  int64
	alone         bool // begun without Redis
}

func newPauses(s *admission.Shared) *Pauses { return &Pauses{shared: s, local: map[string]fault{}} }

// Left returns how long a user at an address has to wait; the address is "" if it is not known.
func (p *Pauses) Left(ctx context.Context, now time.Time, userID, address string) time.Duration {
	_, left := p.check(ctx, now, userID, address, false)
	return left
}

// begin begins an attempt of a user, or returns how long the user has to wait.
func (p *Pauses) begin(ctx context.Context, now time.Time, userID, address string) (*attempt, time.Duration) {
	return p.check(ctx, now, userID, address, true)
}

func (p *Pauses) check(
	ctx context.Context, now time.Time, userID, address string, begins bool,
) (*attempt, time.Duration) {
	a := &attempt{user: "u:" + userID}
	if address != "" {
		a.address = "a:" + address
	}
	var left time.Duration
	err := p.shared.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) (err error) {
		left, err = a.check(ctx, rdb, begins)
		return err
	})
	if err != nil {
		a.alone = true
		left = p.checkHere(now, a, begins)
	}
	return a, left
}

// end ends an attempt that has begun. If Redis fails meanwhile, the pause stays.
func (p *Pauses) end(ctx context.Context, now time.Time, a *attempt, o outcome) {
	if a.alone {
		p.endHere(now, a, o)
		return
	}
	_ = p.shared.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) error { return a.end(ctx, rdb, o) })
}

// check makes one call, so that a slow Redis does not take the time of several.
func (a *attempt) check(ctx context.Context, rdb redis.UniversalClient, begins bool) (time.Duration, error) {
	keys := []string{wrongPrefix + a.user, pausePrefix + a.user}
	if a.address != "" {
		keys = append(keys, wrongPrefix+a.address, pausePrefix+a.address)
	}
	got, err := pausesScript.Run(ctx, rdb, keys, append([]any{begins}, pauseLengths...)...).Int64Slice()
	if err != nil {
		return 0, err
	}
	a.again, a.wrongAddress = got[1] > 0 && a.address != "", got[2]
	return time.Duration(got[0]) * time.Millisecond, nil
}

func (a *attempt) end(ctx context.Context, rdb redis.UniversalClient, o outcome) error {
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		if o != wrong {
			pipe.Del(ctx, pausePrefix+a.user)
			if a.again || o == right && a.address != "" {
				pipe.Del(ctx, pausePrefix+a.address)
			}
		}
		for _, subject := range []string{a.user, a.address} {
			switch {
			case subject == "" || o == void:
			case o == right:
				pipe.Del(ctx, wrongPrefix+subject)
			default:
				pipe.Incr(ctx, wrongPrefix+subject)
				pipe.Expire(ctx, wrongPrefix+subject, wrongMemory)
			}
		}
		if o == wrong && a.address != "" {
			pipe.Set(ctx, pausePrefix+a.address, 1, contract.ChallengePause(a.wrongAddress))
		}
		return nil
	})
	return err
}

// checkHere is check for this process alone.
func (p *Pauses) checkHere(now time.Time, a *attempt, begins bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	user, address := p.known(now, a.user), p.known(now, a.address)
	left := user.paused.Sub(now)
	a.again, a.wrongAddress = user.wrong > 0 && a.address != "", address.wrong
	if a.again {
		left = max(left, address.paused.Sub(now))
	}
	if left > 0 || !begins {
		return max(0, left)
	}
	p.keep(now, a.user, user, contract.ChallengePause(user.wrong))
	if a.again {
		p.keep(now, a.address, address, contract.ChallengePause(address.wrong))
	}
	return 0
}

func (p *Pauses) endHere(now time.Time, a *attempt, o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	user, address := p.known(now, a.user), p.known(now, a.address)
	switch o {
	case right:
		delete(p.local, a.user)
		delete(p.local, a.address)
	case void:
		p.keep(now, a.user, user, 0)
		if a.again {
			p.keep(now, a.address, address, 0)
		}
	case wrong:
		user.wrong++
		p.keep(now, a.user, user, user.paused.Sub(now))
		if a.address != "" {
			address.wrong++
			p.keep(now, a.address, address, contract.ChallengePause(a.wrongAddress))
		}
	}
}

// known returns what this process holds of a subject at that time.
func (p *Pauses) known(now time.Time, subject string) fault {
	if f := p.local[subject]; now.Before(f.until) {
		return f
	}
	return fault{}
}

func (p *Pauses) keep(now time.Time, subject string, f fault, pause time.Duration) {
	admission.Prune(p.local, func(f fault) bool { return !now.Before(f.until) })
	f.paused, f.until = now.Add(pause), now.Add(wrongMemory)
	p.local[subject] = f
}
