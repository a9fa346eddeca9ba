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
)

const (
	// settle is how long the client gets to note, or to send back to the broker, the results of the last handlers.
	settle = 300 * time.Millisecond
	// steady is how long a consumer object has to last for the pause before its replacement to be short again.
	steady = 30 * time.Second
	// shutdownWait is how long the replacement of a consumer object waits for the old one, which may be stuck on a dead broker.
	shutdownWait = time.Second
	// clientTimeout is when the client sends a message back by itself, counted from the end of the longest wait for a slot
	// (see consumeTimeout). Both copies would be handled, so consume is to be through long before.
	clientTimeout = 15 * time.Minute
	// What the client may have pulled ahead for one topic.
	maxAheadMessages, maxAheadMiB = 2048, 128
)

// subscription keeps one consumer object of the client at work, replacing it when need be.
type subscription struct {
	cfg        Config
	sub        bus.Subscription
	handler    bus.Handler
	retryLevel func(attempt int) int
	tries      *tries
	holdFor    time.Duration
	log        *slog.Logger

	slots   chan struct{}   // one for each handler call under way, of all consumer objects
	closing chan struct{}   // closed when no more handler calls may begin
	life    context.Context // of run and of the handlers
	end     context.CancelFunc
	ended   chan struct{} // closed when run is over
}

func newSubscription(cfg Config, s bus.Subscription, h bus.Handler, log *slog.Logger) *subscription {
	sub := &subscription{
		cfg: cfg, sub: s, handler: h, retryLevel: retryLevel, tries: newTries(firstTry, longestTry), holdFor: holdFor,
		log:   log.With("topic", s.Topic, "group", s.Group),
		slots: make(chan struct{}, s.Concurrency), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	sub.life, sub.end = context.WithCancel(context.Background())
	return sub
}

// run builds a consumer object whenever RocketMQ is ready for one, and takes it down when it is lost.
func (s *subscription) run() {
	defer close(s.ended)
	look := &lookout{
		nameServers: s.cfg.NameServers, topic: s.cfg.Prefix + s.sub.Topic, group: s.cfg.Prefix + s.sub.Group, links: make(links),
	}
	defer look.links.close()
	again := backoff.NewExponentialBackOff()
	again.MaxInterval = 30 * time.Second
	for {
		built, err := look.ready(s.life)
		if err != nil {
			return
		}
		began := time.Now()
		c, err := s.start()
		if err == nil {
			s.log.Info("consuming", "brokers", built.alive)
			err = s.watch(look, built, c)
			c.stop()
		}
		if s.life.Err() != nil {
			return
		}
		s.log.Warn("the consumer is replaced", "because", err)
		if time.Since(began) > steady {
			again.Reset()
		}
		if pause(s.life, again.NextBackOff()) != nil {
			return
		}
	}
}

// watch returns when the consumer object is lost, or when the subscription is over.
func (s *subscription) watch(look *lookout, built view, c *consumerObject) error {
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	lost := make(chan error, 1)
	go func() { lost <- look.watch(ctx, built, c.instance) }()
	select {
	case err := <-lost:
		return err
	case <-s.closing:
		c.client.Suspend()
		return <-lost
	}
}

// stop lets the handlers under way finish, for as long as ctx lasts, and then ends the subscription.
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

// drain takes all slots: then no handler is at work.
func (s *subscription) drain(ctx context.Context) error {
	for range cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-time.After(settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// consumerObject is one consumer of the client library.
type consumerObject struct {
	client   client.PushConsumer
	instance string
	down     chan struct{} // closed when the client drops all further results
}

func (s *subscription) start() (*consumerObject, error) {
	c := &consumerObject{instance: instanceName(), down: make(chan struct{})}
	var err error
	c.client, err = client.NewPushConsumer(
		consumer.WithNsResolver(resolver(s.cfg.NameServers)),
		consumer.WithGroupName(s.cfg.Prefix+s.sub.Group),
		consumer.WithInstance(c.instance),
		consumer.WithConsumerModel(consumer.Clustering),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeGoroutineNums(s.sub.Concurrency+maxWaiting),
		consumer.WithConsumeMessageBatchMaxSize(1),
		consumer.WithMaxReconsumeTimes(math.MaxInt32), // no dead-letter queue of the broker's
		consumer.WithConsumeTimeout(consumeTimeout(s.sub)),
		consumer.WithPullThresholdForTopic(maxAheadMessages),
		consumer.WithPullThresholdSizeForTopic(maxAheadMiB),
	)
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	all := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	err = c.client.Subscribe(s.cfg.Prefix+s.sub.Topic, all,
		func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			return s.consume(ctx, c, ms[0]), nil // never an error: the client would log the message
		})
	if err == nil {
		err = c.client.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	return c, nil
}

// consumeTimeout bounds how long the client leaves a message here. Those of the topic and of its retries wait for the same
// slots, and each handler before them may last for the whole Timeout.
func consumeTimeout(s bus.Subscription) time.Duration {
	return clientTimeout + time.Duration(2*maxWaiting/s.Concurrency+4)*s.Timeout
}

// stop shuts the client down. That can hang for long on a dead broker, then it goes on in the background.
func (c *consumerObject) stop() {
	c.client.Suspend()
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

// consume is called by the client for each message. It returns when the message was handled, is to come again from the
// broker, or is not this consumer object's any more.
func (s *subscription) consume(ctx context.Context, c *consumerObject, m *primitive.MessageExt) consumer.ConsumeResult {
	var (
		d      = s.delivery(m)
		begun  uint64           // what tries.begin said before the first attempt here
		failed time.Time        // when that one failed
		long   <-chan time.Time // from then on: tells when the message has waited here for long enough
		err    error
	)
	for ; ; d.Attempt++ {
		if !s.enter(c, long) {
			break
		}
		if failed.IsZero() {
			begun = s.tries.begin()
		}
		err = s.sub.Handle(s.life, s.handler, d)
		<-s.slots
		if err == nil {
			if failures, lasted := s.tries.succeeded(); failures > 0 {
				s.log.InfoContext(ctx, "messages are handled again", "failures", failures, "after", lasted)
			}
			return consumer.ConsumeSuccess
		}
		alone, first := s.tries.failed(begun)
		if alone {
			return s.comesAgain(ctx, d, s.retryLevel(int(m.ReconsumeTimes)+1), err)
		}
		if first {
			s.log.WarnContext(ctx, "message not handled, nor any other; they wait", "id", d.ID, "attempt", d.Attempt, "error", err)
		}
		if failed.IsZero() {
			failed, long = time.Now(), time.After(s.holdFor)
		}
		if !s.tries.turn(s.closing, c.down, long) {
			break
		}
	}
	if !failed.IsZero() && time.Since(failed) >= s.holdFor {
		return s.comesAgain(ctx, d, 1, err) // whoever waited here long enough is not to wait there
	}
	return dropped(c)
}

// comesAgain has the client send a message back to the broker.
func (s *subscription) comesAgain(ctx context.Context, d bus.Delivery, level int, err error) consumer.ConsumeResult {
	if cc, ok := primitive.GetConcurrentlyCtx(ctx); ok {
		cc.DelayLevelWhenNextConsume = level
	}
	s.log.WarnContext(ctx, "message not handled, it comes again", "id", d.ID, "attempt", d.Attempt, "pause_level", level, "error", err)
	return consumer.ConsumeRetryLater
}

// dropped is for a message that is not to be handled here any more. Once the client is down it drops what it is told, and
// the message goes to another consumer as if this one had never had it.
func dropped(c *consumerObject) consumer.ConsumeResult {
	<-c.down
	return consumer.ConsumeRetryLater
}

// enter takes a slot for a handler call. It refuses when the subscription is closing, the consumer object was replaced, or
// long tells.
func (s *subscription) enter(c *consumerObject, long <-chan time.Time) bool {
	select {
	case <-long:
		return false
	case <-s.closing:
		return false
	case <-c.down:
		return false
	case s.slots <- struct{}{}:
	}
	select {
	case <-s.closing: // it was a matter of luck which case was chosen
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
	if ms, err := strconv.ParseInt(m.GetProperty("TIMER_DELIVER_MS"), 10, 64); err == nil {
		d.DeliverAt = time.UnixMilli(ms).UTC()
	}
	return d
}

// retryLevel is the pause before a message that fails by itself comes again, as a number into the broker's table: 1 s, 5 s, 10 s, 30 s are
// levels 1 to 4. As the broker knows these pauses only, chance is in the choice between two neighbours.
func retryLevel(attempt int) int {
	level := min(attempt, 4)
	if level > 1 {
		level -= rand.IntN(2) //nolint:gosec // chance against stampedes, not against guessing
	}
	return level
}
