package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/lifecycle"
)

// publishers is the name of the producers' group, after the prefix.
const publishers = "publishers"

// replaceAfter is the time without any response after which the producer is replaced, and the minimum time between two
// replacements. A new producer has neither a half-open connection nor an outdated route.
const replaceAfter = 10 * time.Second

// sender sends with a bounded number of goroutines. A send of the client cannot be cancelled (with a name server that
// accepts connections but never responds, one send takes 24 s). A caller whose time is up therefore returns, and the
// send continues without it.
type sender struct {
	cfg    Config
	log    *slog.Logger
	access *lifecycle.Access
	slots  chan struct{} // one element for each send in flight

	close   sync.Once
	closing chan struct{} // closed when no more sends may begin

	mu          sync.Mutex
	producer    client.Producer
	builtAt     time.Time
	silentSince time.Time // start of the time without any response; zero after a response
}

func newSender(cfg Config, log *slog.Logger, access *lifecycle.Access) (*sender, error) {
	p, err := newProducer(cfg)
	if err != nil {
		return nil, err
	}
	return &sender{
		cfg: cfg, log: log, access: access, slots: make(chan struct{}, cfg.MaxSends), closing: make(chan struct{}),
		producer: p, builtAt: time.Now(),
	}, nil
}

func newProducer(cfg Config) (client.Producer, error) {
	p, err := client.NewProducer(
		producer.WithNsResolver(resolver(cfg.NameServers)),
		producer.WithGroupName(cfg.Prefix+publishers),
		producer.WithCredentials(cfg.login()),
		producer.WithInstanceName(instanceName()),
		producer.WithSendMsgTimeout(cfg.PublishTimeout),
		producer.WithRetry(0),                          // callers retry, with a pause
		producer.WithCompressMsgBodyOverHowmuch(1<<30), // no compression: it costs more than half of the send rate
	)
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("rocketmq: create a producer: %w", err)
	}
	return p, nil
}

// send sends a message. It returns nil only after the response SendOK, and ErrDenied if the broker denies access.
func (s *sender) send(ctx context.Context, m bus.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.PublishTimeout, errors.New("no response in time"))
	defer cancel()
	if err := s.enter(ctx); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		defer func() { <-s.slots }()
		p := s.current()
		// Without the caller's deadline: the client would set it on the connection that all sends share, and close it.
		res, err := p.SendSync(context.WithoutCancel(ctx), message(s.cfg.Prefix, m))
		if err == nil && res.Status != primitive.SendOK {
			err = fmt.Errorf("stored with less durability than required: status %d", res.Status)
		}
		s.noteResponse(err == nil || strings.HasPrefix(err.Error(), "CODE:"))
		err = sendError(err)
		switch {
		case err == nil:
			s.access.Served()
		case errors.Is(err, ErrDenied):
			s.access.Denied(ctx, err)
		}
		sent <- err
	}()
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return fmt.Errorf("outcome unknown: %w", context.Cause(ctx))
	}
}

// enter takes a slot.
func (s *sender) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-s.closing:
		return bus.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("all %d sends are in flight: %w", s.cfg.MaxSends, context.Cause(ctx))
	case s.slots <- struct{}{}:
	}
	select {
	case <-s.closing: // select may have chosen the slot although both were ready
		<-s.slots
		return bus.ErrClosed
	default:
		return nil
	}
}

func message(prefix string, m bus.Message) *primitive.Message {
	msg := primitive.NewMessage(prefix+m.Topic, m.Body)
	msg.WithKeys(m.Keys)
	if left := time.Until(m.DeliverAt); left > 0 {
		// A delay, not a time: the broker's clock has its own offset.
		ms := (left + time.Millisecond - time.Nanosecond).Milliseconds() // rounded up: never early
		msg.WithProperty("TIMER_DELAY_MS", strconv.FormatInt(ms, 10))
	}
	return msg
}

// current returns the producer to send with. It replaces a producer that got no response for replaceAfter.
func (s *sender) current() client.Producer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.silentSince.IsZero() && time.Since(s.silentSince) > replaceAfter && time.Since(s.builtAt) > replaceAfter {
		s.builtAt = time.Now()
		fresh, err := newProducer(s.cfg)
		if err != nil {
			s.log.Warn("replace producer failed", "error", err)
			return s.producer
		}
		s.log.Warn("no response from RocketMQ, producer replaced", "since", s.silentSince)
		_ = s.producer.Shutdown() // never fails
		s.producer = fresh
	}
	return s.producer
}

// noteResponse records whether a send got a response, which may be a refusal.
func (s *sender) noteResponse(received bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case received:
		s.silentSince = time.Time{}
	case s.silentSince.IsZero():
		s.silentSince = time.Now()
	}
}

// stop waits for the sends in flight and shuts the producer down.
func (s *sender) stop(ctx context.Context) (err error) {
	s.close.Do(func() {
		close(s.closing)
		err = s.drain(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.producer.Shutdown() // never fails
	})
	return err
}

// drain takes all slots: then no send is in flight.
func (s *sender) drain(ctx context.Context) error {
	for n := range cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("up to %d sends are still in flight: %w", cap(s.slots)-n, ctx.Err())
		}
	}
	return nil
}
