package ratelimit

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// flights are the calls of one Conn that are under way. Few callers have a connection each; where more come at a time than
// this machine can serve anyway, those who find all flights gone go together with the next one, as one pipeline: it
// costs both sides two system calls, and not two for each. Nobody waits for company: a flight that lands is followed at once.
type flights struct {
	most int // at a time

	mu      sync.Mutex
	gone    int
	waiting []*passenger
}

// maxPassengers of a flight: below what Redis would do at a stretch for the one at the end to notice.
const maxPassengers = 64

// passenger is a call that waits for a flight.
type passenger struct {
	cmd  onceCmd
	s    *script
	lead chan []*passenger // gets those whom this one is to take along, itself included
	done chan struct{}     // closed when cmd has its answer
}

func newFlights(cluster bool) *flights {
	if cluster { // whose nodes would wait for each other
		return &flights{most: math.MaxInt}
	}
	return &flights{most: max(4, 2*runtime.GOMAXPROCS(0))}
}

// call runs a script once, and returns by the deadline at the latest.
func (f *flights) call(ctx context.Context, rdb redis.UniversalClient, s *script, keys []string, args []any, by *deadline) ([]int64, error) {
	ctx = bounded{ctx, by}
	cmd := s.command(ctx, keys, args)
	f.mu.Lock()
	if f.gone < f.most {
		f.gone++
		f.mu.Unlock()
		defer f.landed()
		return s.run(ctx, rdb, cmd)
	}
	p := &passenger{cmd: cmd, s: s, lead: make(chan []*passenger, 1), done: make(chan struct{})}
	f.waiting = append(f.waiting, p)
	f.mu.Unlock()
	select {
	case <-p.done:
		return p.cmd.Result()
	case group := <-p.lead:
		defer f.landed()
		fly(ctx, rdb, group)
		return p.cmd.Result()
	case <-by.done:
		f.leave(p)
		return nil, context.DeadlineExceeded
	}
}

// fly calls for a group.
func fly(ctx context.Context, rdb redis.UniversalClient, group []*passenger) {
	for len(group) > 0 {
		pipe := rdb.Pipeline()
		for _, p := range group {
			_ = pipe.Process(ctx, p.cmd)
		}
		_, _ = pipe.Exec(ctx) // each has its own error
		var unknown []*passenger
		for _, p := range group {
			if p.s.unknown(p.cmd) {
				p.cmd = p.s.inFull(ctx, p.cmd)
				unknown = append(unknown, p)
			} else {
				close(p.done)
			}
		}
		group = unknown
	}
}

// landed lets the next group go, or frees the place. The last of a group takes the others along: his deadline is the latest.
func (f *flights) landed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(len(f.waiting), maxPassengers)
	if n == 0 {
		f.gone--
		return
	}
	group := f.waiting[:n:n]
	if f.waiting = f.waiting[n:]; len(f.waiting) == 0 {
		f.waiting = nil
	}
	group[n-1].lead <- group
}

// leave is for one whose time is up. If others wait for him to take them along, their time is up as well.
func (f *flights) leave(p *passenger) {
	f.mu.Lock()
	i := slices.Index(f.waiting, p)
	if i >= 0 {
		f.waiting = slices.Delete(f.waiting, i, i+1)
	}
	f.mu.Unlock()
	select {
	case <-p.lead:
		f.landed()
	default:
	}
}
