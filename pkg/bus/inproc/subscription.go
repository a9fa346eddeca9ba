package inproc

import (
	"context"
	"log/slog"
	"sync"

	"flashsale.internal/pkg/bus"
)

// subscription runs the workers of one member in a group, Concurrency of them.
type subscription struct {
	broker  *broker
	queue   *queue
	sub     bus.Subscription
	handler bus.Handler
	log     *slog.Logger

	intake context.Context // ends when no more messages may be taken
	refuse context.CancelFunc
	calls  context.Context // parent of the handlers' contexts; ends when they are no longer waited for
	abort  context.CancelFunc
	idle   chan struct{} // closed when all workers have ended

	mu   sync.Mutex
	held map[*entry]struct{} // being handled; stop removes an entry when it requeues it
}

func subscribe(b *broker, s bus.Subscription, h bus.Handler, log *slog.Logger) *subscription {
	sub := &subscription{
		broker: b, queue: b.queue(s.Topic, s.Group), sub: s, handler: h,
		log:  log.With("topic", s.Topic, "group", s.Group),
		idle: make(chan struct{}), held: make(map[*entry]struct{}),
	}
	sub.intake, sub.refuse = context.WithCancel(context.Background())
	sub.calls, sub.abort = context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for range s.Concurrency {
		workers.Go(sub.work)
	}
	go func() {
		workers.Wait()
		close(sub.idle)
	}()
	return sub
}

func (s *subscription) work() {
	for {
		e := s.broker.take(s.intake, s.queue)
		if e == nil {
			return
		}
		d := e.delivery()
		s.hold(e)
		err := s.sub.Handle(s.calls, s.handler, d)
		switch {
		case !s.unhold(e): // requeued by stop: the result no longer counts
		case err == nil:
			s.broker.done(s.queue, e)
		default:
			pause := s.broker.failed(s.queue, e)
			s.log.Warn("message not handled, will be redelivered",
				"id", d.ID, "attempt", d.Attempt, "in", pause, "error", err)
		}
	}
}

func (s *subscription) hold(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[e] = struct{}{}
}

// unhold ends the hold on an entry. It returns false if stop has requeued the entry.
func (s *subscription) unhold(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[e]
	delete(s.held, e)
	return ok
}

// stop waits for the running handlers. If ctx ends first, it cancels them and requeues their entries.
func (s *subscription) stop(ctx context.Context) error {
	s.refuse()
	defer s.abort()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.held {
		delete(s.held, e)
		s.broker.requeue(s.queue, e)
	}
	return ctx.Err()
}
