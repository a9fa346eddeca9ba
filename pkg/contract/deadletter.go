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

// NewDeadLetter returns the dead letter of an item of topic that the consumer group can never process. It reads
// order_sn, activity_id and traceparent from the item if they are valid there. An item of more than 128 KiB is cut,
// and its length is added to why.
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
	if len(item) > maxDeadLetterItem {
		d.Item = item[:maxDeadLetterItem]
		d.Why += fmt.Sprintf(" (cut from %d bytes)", len(item))
	}
	return d
}

// IsCut reports whether NewDeadLetter cut this item of a dead letter. No consumer can process what is left of it.
func IsCut(item []byte) bool {
	return len(item) == maxDeadLetterItem && !json.Valid(item)
}
