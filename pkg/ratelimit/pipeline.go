package ratelimit

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// pipeline bounds the calls of one Conn that are in flight. While there are few, each has a connection of its own.
// When all slots are taken, which is more than this machine can serve at a time anyway, new calls are queued. When a
// call ends, the queued ones are sent together in one Redis pipeline: that costs each side two system calls for all of
// them, instead of two for each. A call is never delayed to form a larger batch.
type pipeline struct {
	limit int // of calls and batches in flight

	mu       sync.Mutex
	inFlight int
	pending  []*pendingCall
}

// maxBatch is the number of calls in a batch: so few that the last one is not noticeably delayed.
const maxBatch = 64

// pendingCall is a call that waits until a slot is free.
type pendingCall struct {
	cmd  noRetryCmd
	s    *script
	send chan []*pendingCall // receives the batch that this caller has to send; it contains this call
	done chan struct{}       // closed when cmd has its reply
}

// newPipeline returns a pipeline. It batches nothing in a Redis Cluster, whose nodes would wait for each other.
func newPipeline(cluster bool) *pipeline {
	if cluster {
		return &pipeline{limit: math.MaxInt}
	}
	return &pipeline{limit: max(4, 2*runtime.GOMAXPROCS(0))}
}

// call runs a script once, and returns by the deadline at the latest.
func (p *pipeline) call(
	ctx context.Context, rdb redis.UniversalClient, s *script, keys []string, args []any, by *deadline,
) ([]int64, error) {
	ctx = callContext{ctx, by}
	cmd := s.command(ctx, keys, args)
	p.mu.Lock()
	if p.inFlight < p.limit {
		p.inFlight++
		p.mu.Unlock()
		defer p.next()
		return s.run(ctx, rdb, cmd)
	}
	c := &pendingCall{cmd: cmd, s: s, send: make(chan []*pendingCall, 1), done: make(chan struct{})}
	p.pending = append(p.pending, c)
	p.mu.Unlock()
	select {
	case <-c.done:
		return c.cmd.Result()
	case batch := <-c.send:
		defer p.next()
		sendBatch(ctx, rdb, batch)
		return c.cmd.Result()
	case <-by.done:
		p.abandon(c)
		return nil, context.DeadlineExceeded
	}
}

// sendBatch runs the calls of a batch in one Redis pipeline. Scripts that the server has not loaded are sent again,
// with their source, in a second one.
func sendBatch(ctx context.Context, rdb redis.UniversalClient, batch []*pendingCall) {
	for len(batch) > 0 {
		pipe := rdb.Pipeline()
		for _, c := range batch {
			_ = pipe.Process(ctx, c.cmd)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		var notLoaded []*pendingCall
		for _, c := range batch {
			if c.s.notLoaded(c.cmd) {
				c.cmd = c.s.withSource(ctx, c.cmd)
				notLoaded = append(notLoaded, c)
			} else {
				close(c.done)
			}
		}
		batch = notLoaded
	}
}

// next starts the next batch, or frees the slot if no call is pending. The last call of the batch sends it, because
// its deadline is the latest.
func (p *pipeline) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.pending), maxBatch)
	if n == 0 {
		p.inFlight--
		return
	}
	batch := p.pending[:n:n]
	if p.pending = p.pending[n:]; len(p.pending) == 0 {
		p.pending = nil
	}
	batch[n-1].send <- batch
}

// abandon removes a call whose deadline has passed. If it was about to send a batch, the deadlines of the other calls
// in it have passed too.
func (p *pipeline) abandon(c *pendingCall) {
	p.mu.Lock()
	i := slices.Index(p.pending, c)
	if i >= 0 {
		p.pending = slices.Delete(p.pending, i, i+1)
	}
	p.mu.Unlock()
	select {
	case <-c.send:
		p.next()
	default:
	}
}
