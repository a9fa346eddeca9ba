package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Bounds of one message. A message over them would be cut by the broker or hold a transaction for too long.
const (
	MaxItems = 256
	MaxBytes = 256 << 10
)

// Item is what a message carries.
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

// frame is what a body holds beside its items and the commas between them.
const frame = len(`{"v":1,"items":[]}`)

// ErrTooLarge says that an item alone is over the bound of a message. No item is that passes Validate and whose free
// text is of sane length.
var ErrTooLarge = fmt.Errorf("does not fit into a message of %d bytes", MaxBytes)

// Encode packs the items, in order, into as few message bodies as the bounds allow. An item that alone is over
// MaxBytes is an error (ErrTooLarge).
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

// Pack makes one message body of as many encoded items, from the first on, as the bounds allow, and tells how many: at
// least one, or an error about the first.
func Pack(items []json.RawMessage) (body []byte, n int, err error) {
	if n, _, err = fits(items); err != nil {
		return nil, 0, err
	}
	if body, err = json.Marshal(envelope{V: 1, Items: items[:n]}); err != nil {
		return nil, 0, fmt.Errorf("encode: %w", err)
	}
	return body, n, nil
}

// fits tells how many of the items make one message, and how long it is.
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

// join makes a message body of items that json.Marshal has just written: another pass over them would change nothing.
func join(items []json.RawMessage, size int) []byte {
	body := append(make([]byte, 0, size), `{"v":1,"items":[`...)
	for i, raw := range items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, raw...)
	}
	return append(body, "]}"...)
}

// Decode unpacks a message body. Items that do not parse or do not validate come back apart, so that one of them never
// holds up the others. A body that is no message at all comes back as one bad item.
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
		// Encode makes no such message; to acknowledge it as done would hide what went wrong.
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

// once is the list of items of a message that has one list. Of two the second would count, and nobody would miss the first.
type once []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (o *once) UnmarshalJSON(raw []byte) error {
	if *o != nil {
		return errors.New("two lists of items")
	}
	return json.Unmarshal(raw, (*[]json.RawMessage)(o))
}

// twoLists tells, at little cost, whether a body may have two lists of items, in any spelling that anybody uses.
func twoLists(body []byte) bool {
	return bytes.Count(body, []byte(`"items"`)) > 1 || bytes.Contains(body, []byte(`"Items"`)) || bytes.Contains(body, []byte(`"ITEMS"`))
}

// decodeGood reads a message without a fault, as nearly all are, in one pass instead of three. At any fault it gives up, and
// Decode looks which item has it.
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
