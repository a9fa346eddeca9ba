package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of one message. The broker would refuse a larger one, or its transaction would last too long.
const (
	MaxItems = 256
	MaxBytes = 256 << 10
)

// MessagesPath is the route of an internal listener that takes messages while RocketMQ is unavailable. The name of the
// topic follows. MaxBrokerlessBytes bounds such a message.
const (
	MessagesPath       = "/internal/v1/messages/"
	MaxBrokerlessBytes = 2 * MaxBytes // an operator may replay what was published by hand
)

// Item is the constraint of all types that a message carries.
type Item interface {
	Reservation | Deduction | OrderEvent | OrderClose | DeadLetter
	Validate() error
}

type envelope struct {
	V     int               `json:"v"`
	Items []json.RawMessage `json:"items"`
}

// BadItem is an item of a message that can never be processed.
type BadItem struct {
	Raw []byte
	Err error
}

// frame is the length of a body without its items and the commas between them.
const frame = len(`{"v":1,"items":[]}`)

// ErrTooLarge reports that a single item exceeds MaxBytes. An item that passes Validate does not, unless its free text
// is very long.
var ErrTooLarge = fmt.Errorf("does not fit into a message of %d bytes", MaxBytes)

// Encode packs the items, in order, into as few message bodies as the bounds allow. It returns ErrTooLarge for a
// single item that exceeds MaxBytes.
func Encode[T Item](items []T) ([][]byte, error) {
	raws := make([]json.RawMessage, len(items))
	for i, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("encode item: %w", err)
		}
		raws[i] = raw
	}
	var bodies [][]byte
	for len(raws) > 0 {
		n, size, err := fits(raws)
		if err != nil {
			return nil, err
		}
		bodies, raws = append(bodies, join(raws[:n], size)), raws[n:]
	}
	return bodies, nil
}

// Pack makes one message body from the first n encoded items, as many as the bounds allow. n is at least 1, or err
// reports what is wrong with the first item.
func Pack(items []json.RawMessage) (body []byte, n int, err error) {
	if n, _, err = fits(items); err != nil {
		return nil, 0, err
	}
	if body, err = json.Marshal(envelope{V: 1, Items: items[:n]}); err != nil {
		return nil, 0, fmt.Errorf("encode: %w", err)
	}
	return body, n, nil
}

// fits returns how many of the items make one message, and its length in bytes.
func fits(items []json.RawMessage) (n, size int, err error) {
	size = frame - 1 // the last item has no comma
	for n < len(items) && n < MaxItems && size+len(items[n])+1 <= MaxBytes {
		size += len(items[n]) + 1
		n++
	}
	if n > 0 {
		return n, size, nil
	}
	if len(items) == 0 {
		return 0, 0, errors.New("encode: no item")
	}
	return 0, 0, fmt.Errorf("encode: an item of %d bytes: %w", len(items[0]), ErrTooLarge)
}

// join makes a message body from items that json.Marshal has just written. They need no second pass.
func join(items []json.RawMessage, size int) []byte {
	body := append(make([]byte, 0, size), `{"v":1,"items":`...)
	return append(appendList(body, items), '}')
}

// appendList appends a JSON array of encoded values.
func appendList(body []byte, values []json.RawMessage) []byte {
	body = append(body, '[')
	for i, raw := range values {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, raw...)
	}
	return append(body, ']')
}

// Decode unpacks a message body. It returns items that do not parse or validate separately, so that a bad item never
// blocks the others. A body that is not a message is returned as one bad item.
func Decode[T Item](body []byte) (good []T, bad []BadItem) {
	if all, ok := decodeGood[T](body); ok {
		return all, nil
	}
	var e struct {
		V     int  `json:"v"`
		Items once `json:"items"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, []BadItem{{Raw: body, Err: fmt.Errorf("not a message: %w", err)}}
	}
	if e.V != 1 {
		return nil, []BadItem{{Raw: body, Err: fmt.Errorf("version %d is unknown", e.V)}}
	}
	if len(e.Items) == 0 {
		// Encode makes no such message. Acknowledging it would hide the fault of its sender.
		return nil, []BadItem{{Raw: body, Err: errors.New("no items")}}
	}
	for _, raw := range e.Items {
		var item T
		err := json.Unmarshal(raw, &item)
		if err == nil {
			err = item.Validate()
		}
		if err != nil {
			bad = append(bad, BadItem{Raw: raw, Err: err})
			continue
		}
		good = append(good, item)
	}
	return good, bad
}

// once is a list of items that fails to decode when the message holds two lists: encoding/json would silently drop the
// first.
type once []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (o *once) UnmarshalJSON(raw []byte) error {
	if *o != nil {
		return errors.New("two lists of items")
	}
	return json.Unmarshal(raw, (*[]json.RawMessage)(o))
}

// twoLists reports, at little cost, whether a body may have two lists of items. It recognises the usual spellings.
func twoLists(body []byte) bool {
	return bytes.Count(body, []byte(`"items":`)) > 1 ||
		bytes.Contains(body, []byte(`"Items":`)) || bytes.Contains(body, []byte(`"ITEMS":`))
}

// decodeGood decodes a message without faults, as nearly all are, in one pass instead of three. At any fault it
// returns false, and Decode finds the item at fault.
func decodeGood[T Item](body []byte) ([]T, bool) {
	var e struct {
		V     int `json:"v"`
		Items []T `json:"items"`
	}
	if twoLists(body) || json.Unmarshal(body, &e) != nil || e.V != 1 || len(e.Items) == 0 {
		return nil, false
	}
	for _, item := range e.Items {
		if item.Validate() != nil {
			return nil, false
		}
	}
	return e.Items, true
}
