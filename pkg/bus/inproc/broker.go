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

// ErrFull means that the queue of a group of the topic is at Options.Capacity.
var ErrFull = errors.New("bus: the queue is full")

// entryOverhead is the approximate memory of an entry without its body, in bytes.
const entryOverhead = 512

// broker keeps the messages. One lock guards all its data, including queues and entries.
type broker struct {
	opts   Options
	mu     sync.Mutex
	topics map[string]*topic
	seq    uint64
}

type topic struct {
	groups map[string]*queue
	early  *queue // messages published before the first group subscribed; becomes that group's queue
}

// entry is a message in the queue of one group.
type entry struct {
	msg    bus.Message
	due    time.Time
	seq    uint64 // order of publication; also the id
	failed int    // handler calls that failed
}

func (e *entry) cost() int64 { return int64(len(e.msg.Body)) + entryOverhead }

// queue holds the messages that one group has not handled yet.
type queue struct {
	waiting entries
	cost    int64         // bytes of the waiting entries and of those being handled
	changed chan struct{} // closed and replaced when an entry is added to waiting
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

// queue returns the queue of the group, and creates it if there is none.
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
			due = time.After(min(wait, time.Second)) // at most a second, because the wall clock may be set
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

// done drops an entry that was handled.
func (b *broker) done(q *queue, e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.cost -= e.cost()
}

// failed schedules the redelivery of an entry after a pause, and returns the pause.
func (b *broker) failed(q *queue, e *entry) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.failed++
	pause := b.opts.pause(e.failed)
	e.due = time.Now().Add(pause)
	q.push(e)
	return pause
}

// requeue puts an entry back into the queue, as if it had not been taken.
func (b *broker) requeue(q *queue, e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.push(e)
}

// pause returns the pause before redelivery number n: it doubles, and its upper half is random.
func (o Options) pause(n int) time.Duration {
	d := o.RetryMin
	for ; n > 1 && d < o.RetryMax; n-- {
		d *= 2
	}
	d = min(d, o.RetryMax)
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter against stampedes, not a secret
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
