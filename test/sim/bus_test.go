package sim

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
)

// busFaults stands between one process and the broker.
type busFaults struct {
	p      *process
	member *inproc.Bus
}

var _ bus.Bus = (*busFaults)(nil)

func (b *busFaults) Publish(ctx context.Context, m bus.Message) error {
	w := b.p.w
	name, kinds := "publish "+m.Topic, writing
	delayed := m.DeliverAt.After(time.Now().Add(time.Second))
	if delayed {
		name += " delayed"
	}
	switch {
	case delayed, m.Topic == contract.TopicReservations, m.Topic == contract.TopicDeductions:
		// A timer that is lost, and a message that a broker lost after confirming it: each has a sweeper behind it.
		kinds = append(append([]kind(nil), writing...), vanishes)
	}
	send := func(ctx context.Context) error {
		err := w.broker.Publish(ctx, m)
		if err == nil && m.Topic == contract.TopicReservations {
			w.noteCarried(m.Keys, m.Body)
		}
		return err
	}
	err := b.p.at(ctx, "bus", name, kinds, []any{m.Body}, func() error { return send(ctx) }, func() { _ = send(context.Background()) })
	switch {
	case errors.Is(err, errVanished):
		return nil
	case errors.Is(err, errFault):
		return errors.New("sim: no confirmation by the broker")
	}
	return err
}

func (b *busFaults) Subscribe(s bus.Subscription, h bus.Handler) error {
	kinds := []kind{failBefore, failAfter, late, twice, dieBefore, dieAfter}
	return b.member.Subscribe(s, func(ctx context.Context, d bus.Delivery) error {
		name := "deliver " + d.Topic
		return b.p.at(ctx, "bus", name, kinds, []any{d.Body}, func() error { return h(ctx, d) }, nil)
	})
}

func (b *busFaults) Close(ctx context.Context) error { return b.member.Close(ctx) }
