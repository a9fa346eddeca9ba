package contract

import (
	"encoding/json"
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

// Encode packs the items, in order, into as few message bodies as the bounds allow. An item that alone is over
// MaxBytes is an error: nothing that passes Validate is.
func Encode[T Item](items []T) ([][]byte, error) {
	var bodies [][]byte
	var pack []json.RawMessage
	size := 0
	flush := func() error {
		if len(pack) == 0 {
			return nil
		}
		body, err := json.Marshal(envelope{V: 1, Items: pack})
		if err != nil {
			return err
		}
		bodies, pack, size = append(bodies, body), nil, 0
		return nil
	}
	const frame = len(`{"v":1,"items":[]}`)
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("encode item: %w", err)
		}
		if len(raw)+frame > MaxBytes {
			return nil, fmt.Errorf("encode item: %d bytes do not fit into a message of %d", len(raw), MaxBytes)
		}
		if len(pack) == MaxItems || size+len(raw)+1+frame > MaxBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		pack = append(pack, raw)
		size += len(raw) + 1
	}
	return bodies, flush()
}

// Decode unpacks a message body. Items that do not parse or do not validate come back apart, so that one of them never
// holds up the others. A body that is no message at all comes back as one bad item.
func Decode[T Item](body []byte) (good []T, bad []BadItem) {
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, []BadItem{{Raw: body, Err: fmt.Errorf("not a message: %w", err)}}
	}
	if e.V != 1 {
		return nil, []BadItem{{Raw: body, Err: fmt.Errorf("version %d is unknown", e.V)}}
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
