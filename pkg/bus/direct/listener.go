package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
)

// maxWaiting bounds the messages of one subscription that wait for a handler call, for each one that may run.
const maxWaiting = 8

var (
	errNoConsumer = errors.New("no consumer of the topic")
	errBusy       = errors.New("too many direct messages of the topic wait")
)

// Listener runs the handlers of this process for messages that arrive directly.
type Listener struct {
	log *slog.Logger

	mu      sync.Mutex
	closed  bool
	topics  map[string][]*consumer
	running sync.WaitGroup
	calls   context.Context // parent of the handlers' contexts; ends when they are no longer waited for
	abort   context.CancelFunc
}

// consumer is one subscription. Direct messages have their own slots, so that they never wait for messages of the
// broker.
type consumer struct {
	sub     bus.Subscription
	handler bus.Handler
	slots   chan struct{} // one element for each running handler call
	waiting chan struct{} // one element for each message that runs or waits
}

func newListener(log *slog.Logger) *Listener {
	l := &Listener{log: log, topics: map[string][]*consumer{}}
	l.calls, l.abort = context.WithCancel(context.Background())
	return l
}

// subscribe adds a consumer.
func (l *Listener) subscribe(s bus.Subscription, h bus.Handler) {
	s = s.WithDefaults()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[s.Topic] = append(l.topics[s.Topic], &consumer{
		sub: s, handler: h,
		slots: make(chan struct{}, s.Concurrency), waiting: make(chan struct{}, s.Concurrency*maxWaiting),
	})
}

// deliver returns nil once every consumer of the topic in this process has handled the message. After an error some
// may have handled it.
func (l *Listener) deliver(ctx context.Context, d bus.Delivery) error {
	l.mu.Lock()
	consumers := l.topics[d.Topic]
	switch {
	case l.closed:
		l.mu.Unlock()
		return bus.ErrClosed
	case len(consumers) == 0:
		l.mu.Unlock()
		return errNoConsumer
	}
	l.running.Add(1)
	l.mu.Unlock()
	defer l.running.Done()

	ctx, cancel := context.WithCancel(arrivedDirectly(ctx))
	defer cancel()
	defer context.AfterFunc(l.calls, cancel)()
	for _, c := range consumers {
		if err := c.handle(ctx, d); err != nil {
			return fmt.Errorf("group %s: %w", c.sub.Group, err)
		}
	}
	return nil
}

// handle runs the handler once a slot is free.
func (c *consumer) handle(ctx context.Context, d bus.Delivery) error {
	select {
	case c.waiting <- struct{}{}:
		defer func() { <-c.waiting }()
	default:
		return errBusy
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return fmt.Errorf("all %d handler calls are running: %w", cap(c.slots), ctx.Err())
	}
	return c.sub.Handle(ctx, c.handler, d)
}

// ServeHTTP takes the message of a request to contract.MessagesPath. It responds 204 once the message is handled.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	topic := httpserver.PathParam(r, "topic")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, contract.MaxDirectBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			err = contract.Refuse(contract.CodeBodyTooLarge, fmt.Sprintf("A message may have %d bytes.", tooLarge.Limit))
		} else {
			err = contract.InvalidField("body", "could not be read").Because(err)
		}
		problem.Write(w, r, l.log, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeLeft(r))
	defer cancel()
	err = l.deliver(ctx, bus.Delivery{
		Message: bus.Message{Topic: topic, Keys: strings.Fields(r.Header.Get(headerKeys)), Body: body},
		ID:      r.Header.Get(headerID), Attempt: 1,
	})
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errNoConsumer):
		problem.Write(w, r, l.log, contract.Refuse(contract.CodeNotFound, "This process does not consume the topic."))
	default:
		problem.Write(w, r, l.log, contract.Refuse(contract.CodeUnavailable, "The message was not handled.").
			Because(fmt.Errorf("handle message of %s: %w", topic, err)))
	}
}

// timeLeft returns the time that the sender waits for the response, callTimeout at most.
func timeLeft(r *http.Request) time.Duration {
	ms, err := strconv.Atoi(r.Header.Get(headerTimeout))
	if err != nil || ms < 0 || ms > int(callTimeout.Milliseconds()) {
		return callTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// close refuses further messages and waits for the running handlers. When ctx ends first, it cancels their contexts.
func (l *Listener) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	defer l.abort()
	done := make(chan struct{})
	go func() {
		l.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("direct messages are still handled: %w", ctx.Err())
	}
}

type arrivedKey struct{}

// arrivedDirectly marks the context of a message that arrived directly. What its handler publishes need not wait until
// publishing has failed for long in this process, too.
func arrivedDirectly(ctx context.Context) context.Context {
	return context.WithValue(ctx, arrivedKey{}, true)
}

func hasArrivedDirectly(ctx context.Context) bool { return ctx.Value(arrivedKey{}) != nil }
