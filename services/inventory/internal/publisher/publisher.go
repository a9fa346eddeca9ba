// Package publisher says things to the other services over the bus.
package publisher

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
)

const (
	// timeout bounds one message on its way to the broker.
	timeout = 10 * time.Second
	// maxKeys bounds what an operator may search a message by: brokers bound a message's properties.
	maxKeys = 64
)

// Publisher is the core's publisher on a bus.
type Publisher struct {
	bus bus.Publisher
	tel *telemetry.Telemetry
}

var _ core.Publisher = (*Publisher)(nil)

// New makes a publisher.
func New(b bus.Publisher, tel *telemetry.Telemetry) *Publisher { return &Publisher{bus: b, tel: tel} }

// Deductions implements core.Publisher. What the order service does hangs below the publishing in each item's trace.
func (p *Publisher) Deductions(ctx context.Context, items []contract.Deduction) error {
	parents := make([]string, len(items))
	for i, d := range items {
		parents[i] = d.Traceparent
	}
	ctx, batch := p.tel.StartBatch(ctx, "publish "+contract.TopicDeductions, trace.SpanKindProducer, parents,
		telemetry.AttrTopic.String(contract.TopicDeductions), telemetry.AttrOperation.String("send"))
	out := make([]contract.Deduction, len(items))
	for i, d := range items {
		d.Traceparent = batch.Traceparent(i)
		out[i] = d
	}
	err := publish(ctx, p, contract.TopicDeductions, time.Time{}, out, func(d contract.Deduction) string { return d.OrderSN })
	batch.End(err)
	return err
}

// Closings implements core.Publisher. One message carries one closing, never more: it is delayed.
func (p *Publisher) Closings(ctx context.Context, list []contract.OrderClose) (err error) {
	ctx, end := p.tel.Span(ctx, "publish "+contract.TopicOrderClose, trace.SpanKindProducer,
		telemetry.AttrTopic.String(contract.TopicOrderClose), telemetry.AttrOperation.String("send"))
	defer func() { end(err) }()
	for _, c := range list {
		for len(c.OrderSNs) > 0 {
			part := c
			n := min(len(c.OrderSNs), contract.MaxItems)
			part.OrderSNs, c.OrderSNs = c.OrderSNs[:n], c.OrderSNs[n:]
			if err := publish(ctx, p, contract.TopicOrderClose, c.DueAt, []contract.OrderClose{part}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Replay implements core.Publisher: the item goes to its topic as it came. One that came as a whole message, which could
// not be taken apart, goes as a whole message.
func (p *Publisher) Replay(ctx context.Context, l core.DeadLetter) (err error) {
	ctx, end := p.tel.Span(telemetry.WithTraceparent(ctx, l.Traceparent), "replay "+l.Topic, trace.SpanKindProducer, telemetry.AttrTopic.String(l.Topic))
	defer func() { end(err) }()
	body := l.Item
	if isItem(l.Item) {
		if body, err = json.Marshal(struct {
			V     int               `json:"v"`
			Items []json.RawMessage `json:"items"`
		}{1, []json.RawMessage{l.Item}}); err != nil {
			return err
		}
	}
	m := bus.Message{Topic: l.Topic, Body: body}
	if l.OrderSN != "" {
		m.Keys = []string{l.OrderSN}
	}
	return p.send(ctx, m)
}

func isItem(raw []byte) bool {
	var whole struct {
		V     json.RawMessage `json:"v"`
		Items json.RawMessage `json:"items"`
	}
	if !json.Valid(raw) {
		return false
	}
	if len(bytes.TrimSpace(raw)) > 0 && bytes.TrimSpace(raw)[0] != '{' {
		return true // a bare value inside of items
	}
	return json.Unmarshal(raw, &whole) == nil && (whole.V == nil || whole.Items == nil)
}

func publish[T contract.Item](ctx context.Context, p *Publisher, topic string, at time.Time, items []T, key func(T) string) error {
	bodies, err := contract.Encode(items)
	if err != nil {
		return err
	}
	var keys []string
	if key != nil {
		for _, it := range items[:min(len(items), maxKeys)] {
			keys = append(keys, key(it))
		}
	}
	for _, body := range bodies {
		if err := p.send(ctx, bus.Message{Topic: topic, Body: body, DeliverAt: at, Keys: keys}); err != nil {
			return err
		}
	}
	return nil
}

func (p *Publisher) send(ctx context.Context, m bus.Message) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := p.bus.Publish(ctx, m); err != nil {
		return fmt.Errorf("publish to %s: %w", m.Topic, err)
	}
	return nil
}
