package inproc

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"flashsale.internal/pkg/bus"
)

// ErrFull says that a group of the topic has as much waiting as Options.Capacity allows.
var ErrFull = errors.New("bus: the queue is full")

// entryOverhead is about what an entry costs beside its body, in bytes.
const entryOverhead = 512

// broker keeps the messages. One lock guards all of it, queues and entries included.
type broker struct {
	opts   Options
	mu     sync.Mutex
	topics map[string]*topic
	seq    uint64
}

type topic struct {
	groups map[string]*queue
	early  *queue // what was published before the first group came; that group's queue from then on
}

// entry is one message on its way to one group.
type entry struct {
	msg    bus.Message
	due    time.Time
	seq    uint64 // order of publication; also the id
	failed int    // handler calls that failed
}

func (e *entry) cost() int64 { return int64(len(e.msg.Body)) + entryOverhead }

// queue is what one group has still to handle.
type queue struct {
	waiting entries
	cost    int64         // of the waiting entries and of those being handled
	changed chan struct{} // closed, and replaced, when an entry begins to wait
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

func (q *queue) push(e *entry) {
	heap.Push(&q.waiting, e)
	close(q.changed)
	q.changed = make(chan struct{})
}

// topic returns the topic of that name. The caller holds mu.
func (b *broker) topic(name string) *topic {
	t := b.topics[name]
	if t == nil {
		t = &topic{groups: make(map[string]*queue), early: newQueue()}
		b.topics[name] = t
	}
	return t
}

// queue returns the group's queue, which begins to exist by that.
func (b *broker) queue(topicName, group string) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topic(topicName)
	q := t.groups[group]
	if q == nil {
		if q = t.early; q == nil {
			q = newQueue()
		}
		t.early = nil
		t.groups[group] = q
	}
	return q
}

func (b *broker) publish(m bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topic(m.Topic)
	queues := make([]*queue, 0, 1)
	if t.early != nil {
		queues = append(queues, t.early)
	}
	for _, q := range t.groups {
		queues = append(queues, q)
	}
	b.seq++
	published := entry{msg: m, due: m.DeliverAt, seq: b.seq}
	for _, q := range queues { // all or none
		if q.cost+published.cost() > b.opts.Capacity {
			return fmt.Errorf("publish to %s: %w", m.Topic, ErrFull)
		}
	}
	for _, q := range queues {
		e := published
		q.cost += e.cost()
		q.push(&e)
	}
	return nil
}

// take waits for an entry that is due. It returns nil when ctx ends.
func (b *broker) take(ctx context.Context, q *queue) *entry {
	for ctx.Err() == nil {
		b.mu.Lock()
		var due <-chan time.Time
		if len(q.waiting) > 0 {
			wait := time.Until(q.waiting[0].due)
			if wait <= 0 {
				e := heap.Pop(&q.waiting).(*entry)
				b.mu.Unlock()
				return e
			}
			due = time.After(min(wait, time.Second)) // looks again each second, as the wall clock may be set
		}
		changed := q.changed
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
	return nil
}

// done forgets an entry that was handled.
func (b *broker) done(q *queue, e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.cost -= e.cost()
}

// failed has an entry delivered again after a pause, and returns the pause.
func (b *broker) failed(q *queue, e *entry) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.failed++
	pause := b.opts.pause(e.failed)
	e.due = time.Now().Add(pause)
	q.push(e)
	return pause
}

// giveBack has an entry delivered to somebody else, as if it had not been taken.
func (b *broker) giveBack(q *queue, e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.push(e)
}

// pause before redelivery number n: doubling, the upper half of it by chance.
func (o Options) pause(n int) time.Duration {
	d := o.RetryMin
	for ; n > 1 && d < o.RetryMax; n-- {
		d *= 2
	}
	d = min(d, o.RetryMax)
	return d/2 + rand.N(d/2+1) //nolint:gosec // chance against stampedes, not against guessing
}

func (e *entry) delivery() bus.Delivery {
	return bus.Delivery{Message: e.msg, ID: strconv.FormatUint(e.seq, 10), Attempt: e.failed + 1}
}

// entries is a heap by due time, then by order of publication.
type entries []*entry

func (h entries) Len() int { return len(h) }
func (h entries) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].seq < h[j].seq
	}
	return h[i].due.Before(h[j].due)
}
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(x any)   { *h = append(*h, x.(*entry)) }
func (h *entries) Pop() any {
	old := *h
	last := len(old) - 1
	e := old[last]
	old[last] = nil
	*h = old[:last]
	return e
}
