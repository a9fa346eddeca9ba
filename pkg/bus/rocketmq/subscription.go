package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	client "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/cenkalti/backoff/v5"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/lifecycle"
)

const (
	// settleTime is the time that the client gets before its shutdown, to store the results of the last handlers or send
	// their messages back, and for heartbeats on their way. The broker lists a consumer whose heartbeat it handles after
	// the end of the connection for two minutes, and no process gets the messages of its queues.
	settleTime = 300 * time.Millisecond
	// steadyAfter is the lifetime of a consumer object from which the pause before its replacement is short again.
	steadyAfter = 30 * time.Second
	// shutdownWait bounds the wait for the shutdown of a replaced consumer object, which may hang on a dead broker.
	shutdownWait = time.Second
	// clientTimeout is the time after which the client sends a message back to the broker by itself, counted from the
	// end of the longest wait for a slot (see consumeTimeout). The message would then be handled twice, so consume must
	// return long before.
	clientTimeout = 15 * time.Minute
	// Bounds of the messages that the client pulls ahead for one topic.
	maxAheadMessages, maxAheadMiB = 2048, 128
)

// subscription runs one consumer object of the client at a time, and replaces it when it is lost.
type subscription struct {
	cfg        Config
	sub        bus.Subscription
	handler    bus.Handler
	retryLevel func(attempt int) int
	retries    *retries
	holdFor    time.Duration
	access     *lifecycle.Access
	log        *slog.Logger

	slots   chan struct{}   // one element for each running handler call, of all consumer objects
	closing chan struct{}   // closed when no more handler calls may begin
	life    context.Context // of run and of the handlers
	end     context.CancelFunc
	ended   chan struct{} // closed when run has returned
}

func newSubscription(
	cfg Config, s bus.Subscription, h bus.Handler, access *lifecycle.Access, log *slog.Logger,
) *subscription {
	sub := &subscription{
		cfg: cfg, sub: s, handler: h,
		retryLevel: retryLevel, retries: newRetries(firstRetry, maxRetryPause), holdFor: holdFor, access: access,
		log:   log.With("topic", s.Topic, "group", s.Group),
		slots: make(chan struct{}, s.Concurrency), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	sub.life, sub.end = context.WithCancel(context.Background())
	return sub
}

// run creates a consumer object whenever RocketMQ is ready for one, and shuts it down when it is lost. It returns when
// the subscription ends.
func (s *subscription) run() {
	defer close(s.ended)
	monitor := &routeMonitor{
		nameServers: s.cfg.NameServers, topic: s.cfg.Prefix + s.sub.Topic, group: s.cfg.Prefix + s.sub.Group,
		connections: newConnections(s.cfg), access: s.access, log: s.log,
	}
	defer monitor.connections.close()
	again := backoff.NewExponentialBackOff()
	again.MaxInterval = 30 * time.Second
	for {
		built, err := monitor.ready(s.life)
		if err != nil {
			return
		}
		began := time.Now()
		c, err := s.start()
		if err == nil {
			s.log.Info("consuming", "brokers", built.alive)
			err = s.watch(monitor, built, c)
			c.stop()
		}
		if s.life.Err() != nil {
			return
		}
		s.log.Warn("consumer lost, will be replaced", "reason", err)
		if time.Since(began) > steadyAfter {
			again.Reset()
		}
		if pause(s.life, again.NextBackOff()) != nil {
			return
		}
	}
}

// watch returns when the consumer object is lost, or when the subscription ends.
func (s *subscription) watch(monitor *routeMonitor, built view, c *consumerObject) error {
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	lost := make(chan error, 1)
	go func() { lost <- monitor.watch(ctx, built, c.instance) }()
	select {
	case err := <-lost:
		return err
	case <-s.closing:
		c.client.Suspend()
		return <-lost
	}
}

// stop waits for the running handlers, until ctx ends, and then ends the subscription.
func (s *subscription) stop(ctx context.Context) error {
	close(s.closing)
	err := s.drain(ctx)
	s.end()
	select {
	case <-s.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("handlers of %s are not done: %w", s.sub.Group, err)
	}
	return nil
}

// drain takes all slots: then no handler is running.
func (s *subscription) drain(ctx context.Context) error {
	for range cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// consumerObject is one consumer of the client library.
type consumerObject struct {
	client   client.PushConsumer
	instance string
	down     chan struct{} // closed after shutdown: from then on the client drops all results
}

func (s *subscription) start() (*consumerObject, error) {
	c := &consumerObject{instance: instanceName(), down: make(chan struct{})}
	var err error
	c.client, err = client.NewPushConsumer(
		consumer.WithNsResolver(resolver(s.cfg.NameServers)),
		consumer.WithGroupName(s.cfg.Prefix+s.sub.Group),
		consumer.WithInstance(c.instance),
		consumer.WithCredentials(s.cfg.login()),
		consumer.WithConsumerModel(consumer.Clustering),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeGoroutineNums(s.sub.Concurrency+maxWaiting),
		consumer.WithConsumeMessageBatchMaxSize(1),
		consumer.WithMaxReconsumeTimes(math.MaxInt32), // without the broker's own queue of dead letters
		consumer.WithConsumeTimeout(consumeTimeout(s.sub)),
		consumer.WithPullThresholdForTopic(maxAheadMessages),
		consumer.WithPullThresholdSizeForTopic(maxAheadMiB),
	)
	if err != nil {
		return nil, fmt.Errorf("create a consumer: %w", err)
	}
	all := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	err = c.client.Subscribe(s.cfg.Prefix+s.sub.Topic, all,
		func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return s.consume(ctx, c, ms[0]), nil // no error: the client would log the whole message
		})
	if err == nil {
		err = c.client.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	return c, nil
}

// consumeTimeout returns the time for which the client lets a message stay in this process. Messages of the topic and
// of its retry topic wait for the same slots, and each handler call before them may last for the whole Timeout.
func consumeTimeout(s bus.Subscription) time.Duration {
	return clientTimeout + time.Duration(2*maxWaiting/s.Concurrency+4)*s.Timeout
}

// stop shuts the client down, after settleTime. If the shutdown takes longer than shutdownWait, as with a dead broker,
// it continues in the background.
func (c *consumerObject) stop() {
	c.client.Suspend()
	time.Sleep(settleTime)
	done := make(chan struct{})
	go func() {
		_ = c.client.Shutdown() // never fails
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(shutdownWait):
	}
	close(c.down)
}

// consume is called by the client for each message. It returns when the message was handled, must be redelivered by the
// broker, or no longer belongs to this consumer object.
func (s *subscription) consume(ctx context.Context, c *consumerObject, m *primitive.MessageExt) consumer.ConsumeResult {
	var (
		d       = s.delivery(m)
		begun   uint64           // result of retries.begin before the first attempt in this process
		failed  time.Time        // when the first attempt failed
		expired <-chan time.Time // receives when the message has waited in this process for holdFor since then
		err     error
	)
	for ; ; d.Attempt++ {
		if !s.enter(c, expired) {
			break
		}
		if failed.IsZero() {
			begun = s.retries.begin()
		}
		err = s.sub.Handle(s.life, s.handler, d)
		<-s.slots
		if err == nil {
			if failures, lasted := s.retries.succeeded(); failures > 0 {
				s.log.InfoContext(ctx, "outage ended, messages are handled", "failures", failures, "after", lasted)
			}
			return consumer.ConsumeSuccess
		}
		alone, first := s.retries.failed(begun)
		if alone {
			return s.sendBack(ctx, d, s.retryLevel(int(m.ReconsumeTimes)+1), err)
		}
		if first {
			s.log.WarnContext(ctx, "no message is handled, messages wait for retries",
				"id", d.ID, "attempt", d.Attempt, "error", err)
		}
		if failed.IsZero() {
			failed, expired = time.Now(), time.After(s.holdFor)
		}
		if !s.retries.turn(s.closing, c.down, expired) {
			break
		}
	}
	if !failed.IsZero() && time.Since(failed) >= s.holdFor {
		return s.sendBack(ctx, d, 1, err) // the shortest pause: it has waited for long already
	}
	return dropped(c)
}

// sendBack makes the client send a message back to the broker, for redelivery after the pause of the level.
func (s *subscription) sendBack(ctx context.Context, d bus.Delivery, level int, err error) consumer.ConsumeResult {
	if cc, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		cc.DelayLevelWhenNextConsume = level
	}
	s.log.WarnContext(ctx, "message not handled, will be redelivered",
		"id", d.ID, "attempt", d.Attempt, "pause_level", level, "error", err)
	return consumer.ConsumeRetryLater
}

// dropped returns the result of a message that must not be handled in this process any more. It waits for the shutdown
// of the client, which then drops the result. The broker delivers the message to another consumer and counts no
// attempt.
func dropped(c *consumerObject) consumer.ConsumeResult {
	<-c.down
	return consumer.ConsumeRetryLater
}

// enter takes a slot for a handler call. It returns false when the subscription is closing, the consumer object was
// replaced, or expired receives first.
func (s *subscription) enter(c *consumerObject, expired <-chan time.Time) bool {
	select {
	case <-expired:
		return false
	case <-s.closing:
		return false
	case <-c.down:
		return false
	case s.slots <- struct{}{}:
	}
	select {
	case <-s.closing: // select may have chosen the slot although both were ready
		<-s.slots
		return false
	default:
		return true
	}
}

func (s *subscription) delivery(m *primitive.MessageExt) bus.Delivery {
	d := bus.Delivery{
		Message: bus.Message{Topic: s.sub.Topic, Keys: strings.Fields(m.GetKeys()), Body: m.Body},
		ID:      m.MsgId,
		Attempt: int(m.ReconsumeTimes) + 1,
	}
	if ms, err := strconv.ParseInt(m.GetProperty("TIMER_OUT_MS"), 10, 64); err == nil {
		d.DeliverAt = time.UnixMilli(ms).UTC()
	}
	return d
}

// retryLevel returns the pause before the redelivery of a message that fails while others are handled, as a level of
// the broker: levels 1 to 4 are 1 s, 5 s, 10 s, 30 s. The broker has only these pauses, so the jitter is a random
// choice between two neighbours.
func retryLevel(attempt int) int {
	level := min(attempt, 4)
	if level > 1 {
		level -= rand.IntN(2) //nolint:gosec // jitter against stampedes, not a secret
	}
	return level
}
