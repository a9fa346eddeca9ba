package contract

import (
	"encoding/json"
	"fmt"
	"time"
)

const (
	// maxDeadLetterItem bounds the bytes of an item in a dead letter, so that the dead letter (base64) fits into a
	// message.
	maxDeadLetterItem = 128 << 10
	maxTraceparentLen = 64
)

// NewDeadLetter returns the dead letter of an item of topic that the consumer group gave up on. It reads order_sn,
// activity_id and traceparent from the item if they are valid there.
func NewDeadLetter(group, topic string, item []byte, why string, at time.Time) DeadLetter {
	// Each field is parsed on its own: one of a wrong type must not hide the others.
	var fields struct {
		OrderSN     json.RawMessage `json:"order_sn"`
		ActivityID  json.RawMessage `json:"activity_id"`
		Traceparent json.RawMessage `json:"traceparent"`
	}
	_ = json.Unmarshal(item, &fields)
	text := func(raw json.RawMessage) (s string) {
		_ = json.Unmarshal(raw, &s)
		return s
	}
	d := DeadLetter{Where: group, Topic: topic, Why: why, Item: item, At: at.UTC()}
	if sn := text(fields.OrderSN); ValidID(sn) {
		d.OrderSN = sn
	}
	if id := text(fields.ActivityID); ValidID(id) {
		d.ActivityID = id
	}
	if t := text(fields.Traceparent); len(t) <= maxTraceparentLen {
		d.Traceparent = t
	}
	return d
}

// Cut returns the dead letter with at most 128 KiB of its item, so that it fits into a message. Why then ends with the
// length of the whole item.
func (d DeadLetter) Cut() DeadLetter {
	if len(d.Item) > maxDeadLetterItem {
		d.Why += fmt.Sprintf(" (cut from %d bytes)", len(d.Item))
		d.Item = d.Item[:maxDeadLetterItem]
	}
	return d
}

// IsCut reports whether DeadLetter.Cut cut this item. No consumer can process what is left of it.
func IsCut(item []byte) bool {
	return len(item) == maxDeadLetterItem && !json.Valid(item)
}
