package sim

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
)

// busFaults injects faults between one process and the broker.
type busFaults struct {
	p      *process
	member *inproc.Bus
}

var _ bus.Bus = (*busFaults)(nil)

var errNoBroker = errors.New("sim: broker is unavailable")

func (b *busFaults) Publish(ctx context.Context, m bus.Message) (err error) {
	w := b.p.w
	if w.noBroker.Load() {
		return errNoBroker
	}
	name, kinds := "publish "+m.Topic, writing
	if closed, _ := ctx.Value(outcomesKey{}).(*outcomes); closed != nil && m.Topic == contract.TopicOrderClose {
		closed.notePutOff(m.Body)
	}
	delayed := m.DeliverAt.After(time.Now().Add(time.Second))
	if delayed {
		name += " delayed"
	}
	if m.Topic == contract.TopicOrderEvents && b.p.service == "order" {
		plain := m.Body
		defer func() {
			if err == nil {
				w.noteEvents(plain)
			}
		}()
	}
	if w.vanishing(m.Topic, delayed) {
		kinds = append(append([]kind(nil), writing...), vanishes)
	}
	if m.Topic == contract.TopicDeductions && w.sale.abandonAfter < time.Hour {
		switch { // so many losses that inventory abandons reservations
		case w.plan.chance("broker: keeps inventory-deductions back", 0.15):
			w.running.Go(func() {
				time.Sleep(w.sale.abandonAfter + w.plan.pause(name))
				_ = w.broker.Publish(context.Background(), m)
			})
			return nil
		case w.plan.chance("broker: loses inventory-deductions", 0.7):
			return nil
		}
	}
	if m.Topic == contract.TopicReservations && w.sale.losesFresh &&
		w.plan.chance("broker: loses seckill-reservations", 0.3) {
		return nil
	}
	if m.Topic == contract.TopicOrderEvents && w.sale.losesEvents && w.plan.chance("broker: loses order-events", 0.4) {
		return nil
	}
	if delayed && w.sale.losesTimers && w.plan.chance("broker: loses order-close", 0.5) {
		return nil
	}
	if delayed && w.sale.hurries && w.plan.chance("broker: hurries order-close", 0.5) { // as with a fast clock
		m.DeliverAt = time.Now().Add(time.Duration(rng(w.seed,
			"early "+string(m.Body)).Int64N(int64(time.Until(m.DeliverAt)))))
	}
	if w.sale.garbles && w.plan.chance("broker: garbles "+m.Topic, w.noise(m.Topic)) {
		if m.Topic == contract.TopicReservations {
			w.noteGarbled(m.Body)
		}
		m.Body = garble(m.Body, rng(w.seed, string(m.Body)))
		w.history.note(b.p.name(), "! garbled "+m.Topic, m.Body)
	}
	if delayed && w.sale.brokerAhead != 0 && !w.plan.ended() {
		point := "broker: clock ahead"
		if w.sale.brokerAhead < 0 {
			point = "broker: clock behind"
		}
		coverage.pass(point)
		coverage.add(point, happens)
		m.DeliverAt = m.DeliverAt.Add(-w.sale.brokerAhead)
	}
	if w.keeps(m, delayed) {
		return nil
	}
	send := func(ctx context.Context) error {
		err := w.broker.Publish(ctx, w.ofThisLife(m))
		if err == nil && m.Topic == contract.TopicReservations {
			w.noteCarried(m.Body)
		}
		return err
	}
	err = b.p.at(ctx, "bus", name, kinds, []any{m.Body}, func() error { return send(ctx) },
		func() { _ = send(context.Background()) })
	switch {
	case errors.Is(err, errVanished):
		return nil
	case errors.Is(err, errFault):
		return errors.New("sim: no confirmation by the broker")
	}
	return err
}

// keeps keeps some messages for the next day. It reports whether the message is kept back: its topic may lose messages.
func (w *world) keeps(m bus.Message, delayed bool) bool {
	if !w.sale.latecomers || m.Topic == contract.TopicDeadLetters ||
		!w.plan.chance("broker: delivers "+m.Topic+" after 25 h", 0.3) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, m)
	return len(w.kept)%2 == 0 && w.vanishing(m.Topic, delayed)
}

// noise returns the rate of garbled messages of the topic. A garbled dead letter needs a garbled deduction first.
func (w *world) noise(topic string) float64 {
	switch {
	case topic == w.sale.loudest, topic == contract.TopicDeductions && w.sale.loudest == contract.TopicDeadLetters:
		return 0.7
	}
	return 0.15
}

// noteEvents records the steps of orders whose events the broker got, even if it loses them.
func (w *world) noteEvents(body []byte) {
	events, _ := contract.Decode[contract.OrderEvent](body)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range events {
		w.events[ev.OrderSN+" "+string(ev.Type)] = true
	}
}

// vanishing reports whether confirmed messages of the topic may get lost: a sweeper must recover them.
func (w *world) vanishing(topic string, delayed bool) bool {
	switch topic {
	case contract.TopicReservations, contract.TopicDeductions:
		return true
	case contract.TopicOrderEvents:
		return w.sale.losesEvents
	case contract.TopicOrderClose:
		return !w.sale.keepsTimers && (delayed || w.sale.losesOrders)
	}
	return false
}

func (b *busFaults) Subscribe(s bus.Subscription, h bus.Handler) error {
	kinds := []kind{failBefore, failAfter, late, twice, dieBefore, dieAfter}
	return b.member.Subscribe(s, func(ctx context.Context, d bus.Delivery) error {
		if b.p.w.noBroker.Load() {
			return errNoBroker
		}
		if b.p.w.diedWith(d.Message) {
			return nil
		}
		if b.p.w.stalled.Load() && d.Topic == b.p.w.sale.brokerless.holds {
			return errNoBroker
		}
		name := "deliver " + d.Topic
		d.Body = b.p.w.readable(d.Body)
		return b.p.at(ctx, "bus", name, kinds, []any{d.Body}, func() error {
			closed := &outcomes{byOrder: map[string]string{}, putOff: map[string]bool{}}
			err := h(context.WithValue(ctx, outcomesKey{}, closed), d)
			if err == nil && !b.p.dead.Load() {
				b.p.w.acknowledged(b.p.service, d.Topic, d.Body, closed)
			}
			return err
		}, nil)
	})
}

func (b *busFaults) Close(ctx context.Context) error { return b.member.Close(ctx) }
