package challenge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
)

const (
	redisPrefix = "fs:challenge:"        // in the Redis of the limits
	wrongPrefix = redisPrefix + "wrong:" // number of wrong answers in a row of a user or an address
	pausePrefix = redisPrefix + "pause:" // exists during the pause of a user or an address
	// wrongMemory is the time after which wrong answers no longer count. It exceeds the longest pause.
	wrongMemory = 2 * contract.ChallengePauseMost
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

func subjectOf(userID string) string { return "u:" + userID }

// Left returns the rest of the pause of a user.
func (p *Pauses) Left(ctx context.Context, now time.Time, userID string) time.Duration {
	var left time.Duration
	err := p.shared.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) (err error) {
		left, err = rdb.PTTL(ctx, pausePrefix+subjectOf(userID)).Result()
		return err
	})
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		left = p.local[subjectOf(userID)].paused.Sub(now)
	}
	return max(0, left)
}

// begin begins an attempt of a user, or returns the rest of the pause.
func (p *Pauses) begin(ctx context.Context, now time.Time, userID, address string) (*attempt, time.Duration) {
	a := &attempt{user: subjectOf(userID)}
	if address != "" {
		a.address = "a:" + address
	}
	var left time.Duration
	err := p.shared.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) (err error) {
		left, err = a.begin(ctx, rdb)
		return err
	})
	if err != nil {
		a.alone = true
		left = p.beginHere(now, a)
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

func (a *attempt) begin(ctx context.Context, rdb redis.UniversalClient) (left time.Duration, err error) {
	before, err := wrongBefore(ctx, rdb, a.user)
	if err != nil {
		return 0, err
	}
	left, err = claim(ctx, rdb, a.user, before)
	if a.again = before > 0 && a.address != ""; left > 0 || err != nil || a.address == "" {
		return left, err
	}
	if a.wrongAddress, err = wrongBefore(ctx, rdb, a.address); err != nil || !a.again {
		return 0, err
	}
	if left, err = claim(ctx, rdb, a.address, a.wrongAddress); left > 0 {
		err = rdb.Del(ctx, pausePrefix+a.user).Err()
	}
	return left, err
}

func wrongBefore(ctx context.Context, rdb redis.UniversalClient, subject string) (int64, error) {
	n, err := rdb.Get(ctx, wrongPrefix+subject).Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return n, err
}

// claim begins the pause of a subject, or returns its rest if it has begun.
func claim(ctx context.Context, rdb redis.UniversalClient, subject string, before int64) (time.Duration, error) {
	key := pausePrefix + subject
	err := rdb.SetArgs(ctx, key, 1, redis.SetArgs{Mode: "NX", TTL: contract.ChallengePause(before)}).Err()
	if !errors.Is(err, redis.Nil) {
		return 0, err
	}
	left, err := rdb.PTTL(ctx, key).Result()
	return max(left, time.Millisecond), err
}

func (a *attempt) end(ctx context.Context, rdb redis.UniversalClient, o outcome) error {
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // keys of several nodes
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

// beginHere is begin for this process alone.
func (p *Pauses) beginHere(now time.Time, a *attempt) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	user, address := p.known(now, a.user), p.known(now, a.address)
	left := user.paused.Sub(now)
	a.again, a.wrongAddress = user.wrong > 0 && a.address != "", address.wrong
	if a.again {
		left = max(left, address.paused.Sub(now))
	}
	if left > 0 {
		return left
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
