// Package publisher says things to the other services over the bus.
package publisher

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
)

// Publisher is the core's publisher on a bus.
type Publisher struct {
	bus bus.Publisher
	tel *telemetry.Telemetry
}

var _ core.Publisher = (*Publisher)(nil)

// New makes a publisher.
func New(b bus.Publisher, tel *telemetry.Telemetry) *Publisher { return &Publisher{bus: b, tel: tel} }

// Deductions implements core.Publisher.
func (p *Publisher) Deductions(ctx context.Context, list []contract.Deduction) error {
	return items.Publish(ctx, p.bus, p.tel, contract.TopicDeductions, time.Time{}, list)
}

// Closings implements core.Publisher. One message carries one closing, never more: it is delayed.
func (p *Publisher) Closings(ctx context.Context, list []contract.OrderClose) error {
	for _, c := range list {
		for part := range slices.Chunk(c.OrderSNs, contract.MaxItems) {
			one := c
			one.OrderSNs = part
			if err := items.Publish(ctx, p.bus, p.tel, contract.TopicOrderClose, c.DueAt, []contract.OrderClose{one}); err != nil {
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
		if body, _, err = contract.Pack([]json.RawMessage{l.Item}); err != nil {
			return err
		}
	}
	m := bus.Message{Topic: l.Topic, Body: body}
	if l.OrderSN != "" {
		m.Keys = []string{l.OrderSN}
	}
	return items.Send(ctx, p.bus, m)
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
