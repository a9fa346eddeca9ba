package brokerless

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
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
)

// arrivingKept is the time after a message has arrived by a call for which arrivingFor is not 0. It is longer than the
// pauses between the sweeps, 5 s.
const arrivingKept = 10 * time.Second

// maxWaiting bounds the messages of one subscription that wait for a handler call, for each one that may run.
const maxWaiting = 8

var (
	errNoConsumer = errors.New("no consumer of the topic")
	errBusy       = errors.New("too many brokerless messages of the topic wait")
)

// Listener runs the handlers of this process for messages that arrive by a call.
type Listener struct {
	log     *slog.Logger
	begins  func()       // is called when a message arrives that is the first for arrivingKept
	arrived atomic.Int64 // when the latest message arrived, in ns since 1970; 0 before the first
	since   atomic.Int64 // when the first one of those arrived that followed each other within arrivingKept

	mu     sync.Mutex
	topics map[string][]*consumer
}

// consumer is one subscription. Brokerless messages have their own slots, so that they never wait for messages of the
// broker.
type consumer struct {
	sub     bus.Subscription
	handler bus.Handler
	slots   chan struct{} // one element for each running handler call
	waiting chan struct{} // one element for each message that runs or waits
}

func newListener(log *slog.Logger) *Listener {
	return &Listener{log: log, begins: func() {}, topics: map[string][]*consumer{}}
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
	l.mu.Unlock()
	if len(consumers) == 0 {
		return errNoConsumer
	}
	ctx = arrivedByCall(ctx)
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
	l.noteArrival(time.Now())
	topic := httpserver.PathParam(r, "topic")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, contract.MaxBrokerlessBytes))
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

// noteArrival records that a message has arrived.
func (l *Listener) noteArrival(now time.Time) {
	before := l.arrived.Load()
	begins := before == 0 || now.Sub(time.Unix(0, before)) >= arrivingKept
	if begins {
		l.since.Store(now.UnixNano()) // before arrived, by which arrivingFor reads it
	}
	l.arrived.Store(now.UnixNano())
	if begins {
		l.begins()
	}
}

// arrivingFor returns for how long messages have arrived by calls, at least 1 ns; 0 if none has within arrivingKept.
func (l *Listener) arrivingFor() time.Duration {
	if !l.arrivedWithin(arrivingKept) {
		return 0
	}
	return max(1, time.Since(time.Unix(0, l.since.Load())))
}

// arrivedWithin reports whether a message has arrived within the last d.
func (l *Listener) arrivedWithin(d time.Duration) bool {
	last := l.arrived.Load()
	return last != 0 && time.Since(time.Unix(0, last)) < d
}

type arrivedKey struct{}

// arrivedByCall marks the context of a message that arrived by a call. What its handler publishes need not wait until
// publishing has failed for long in this process, too.
func arrivedByCall(ctx context.Context) context.Context {
	return context.WithValue(ctx, arrivedKey{}, true)
}

func hasArrivedByCall(ctx context.Context) bool { return ctx.Value(arrivedKey{}) != nil }
