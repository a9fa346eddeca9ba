// Package publisher publishes inventory's messages on the bus.
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

// Publisher implements core.Publisher on a bus.
type Publisher struct {
	bus bus.Publisher
	tel *telemetry.Telemetry
}

// New returns a publisher on a bus.
func New(b bus.Publisher, tel *telemetry.Telemetry) *Publisher { return &Publisher{bus: b, tel: tel} }

// Deductions implements core.Publisher.
func (p *Publisher) Deductions(
	ctx context.Context, list []contract.Deduction, about []contract.ActivityInfo,
) error {
	return items.PublishDeductions(ctx, p.bus, p.tel, list, about)
}

// Closing implements core.Publisher. Each message carries exactly one closing, since messages are delayed
// individually.
func (p *Publisher) Closing(ctx context.Context, c contract.OrderClose, delay time.Duration) error {
	var deliverAt time.Time
	if delay > 0 {
		deliverAt = time.Now().Add(delay) // the bus sends what is left of it, by the same clock
	}
	for chunk := range slices.Chunk(c.OrderSNs, contract.MaxItems) {
		one := c
		one.OrderSNs = chunk
		err := items.Publish(ctx, p.bus, p.tel, contract.TopicOrderClose, deliverAt, []contract.OrderClose{one})
		if err != nil {
			return err
		}
	}
	return nil
}

// Replay implements core.Publisher. It publishes the item unchanged to its topic. An item that is a whole message,
// since it could not be split into items, is published as a message.
func (p *Publisher) Replay(ctx context.Context, d core.DeadLetter) (err error) {
	ctx, end := p.tel.Span(telemetry.WithTraceparent(ctx, d.Traceparent), "replay "+d.Topic, trace.SpanKindProducer,
		telemetry.AttrTopic.String(d.Topic))
	defer func() { end(err) }()
	body := d.Item
	if isItem(d.Item) {
		if body, _, err = contract.Pack([]json.RawMessage{d.Item}); err != nil {
			return err
		}
	}
	m := bus.Message{Topic: d.Topic, Body: body}
	if d.OrderSN != "" {
		m.Keys = []string{d.OrderSN}
	}
	return items.Send(ctx, p.bus, m)
}

// isItem reports whether raw is one item, not a whole message.
func isItem(raw []byte) bool {
	var whole struct {
		V     json.RawMessage `json:"v"`
		Items json.RawMessage `json:"items"`
	}
	if !json.Valid(raw) {
		return false
	}
	if len(bytes.TrimSpace(raw)) > 0 && bytes.TrimSpace(raw)[0] != '{' {
		return true // a value in items that is no object
	}
	return json.Unmarshal(raw, &whole) == nil && (whole.V == nil || whole.Items == nil)
}
