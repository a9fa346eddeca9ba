package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Bounds of the description of an activity. Inventory accepts no longer texts and no more SKUs.
const (
	maxInfoText = 200 // characters
	maxInfoSKUs = 100
)

// ActivityInfo describes an activity in a message of deductions, for the lists of the order service and for the time
// until which contacts are kept. AsOf is inventory's time when it read the activity: of two descriptions the later one
// applies.
type ActivityInfo struct {
	ActivityID string    `json:"activity_id"`
	Title      string    `json:"title"`
	EndsAt     time.Time `json:"ends_at"`
	SKUs       []SKUName `json:"skus"`
	AsOf       time.Time `json:"as_of"`
}

// SKUName is the name of a SKU.
type SKUName struct {
	SKUID string `json:"sku_id"`
	Name  string `json:"name"`
}

// Validate reports the first thing that makes the description unusable.
func (a ActivityInfo) Validate() error {
	switch {
	case !ValidID(a.ActivityID):
		return errors.New("activity_id: not an id")
	case a.Title == "" || utf8.RuneCountInString(a.Title) > maxInfoText:
		return fmt.Errorf("title: must have 1 to %d characters", maxInfoText)
	case a.EndsAt.Year() < 2000 || a.EndsAt.Year() > 2200:
		return errors.New("ends_at: must be from 2000 to 2200")
	case a.AsOf.IsZero():
		return errors.New("as_of: missing")
	case len(a.SKUs) > maxInfoSKUs:
		return fmt.Errorf("skus: must be at most %d", maxInfoSKUs)
	}
	for i, sku := range a.SKUs {
		if !ValidID(sku.SKUID) || utf8.RuneCountInString(sku.Name) > maxInfoText {
			return fmt.Errorf("skus[%d]: malformed", i)
		}
	}
	return nil
}

// activitiesFrame is the length that a list of activities adds to a body, without the activities and the commas
// between them.
const activitiesFrame = len(`,"activities":[]`)

// EncodeDeductions is Encode for deductions. Each message also describes the activities of its items, each once, as
// far as they are in about. The description counts toward the bounds. It is left out of a message that it would make
// too large even with a single item.
func EncodeDeductions(items []Deduction, about []ActivityInfo) ([][]byte, error) {
	infos := make(map[string]json.RawMessage, len(about))
	for _, a := range about {
		raw, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("encode activity: %w", err)
		}
		infos[a.ActivityID] = raw
	}
	var bodies [][]byte
	var m deductionMessage
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("encode item: %w", err)
		}
		if !m.add(raw, item.ActivityID, infos) {
			bodies, m = append(bodies, m.body()), deductionMessage{}
			if !m.add(raw, item.ActivityID, infos) {
				return nil, fmt.Errorf("encode: an item of %d bytes: %w", len(raw), ErrTooLarge)
			}
		}
	}
	if len(m.items) > 0 {
		bodies = append(bodies, m.body())
	}
	return bodies, nil
}

// deductionMessage is a message of deductions that is being filled.
type deductionMessage struct {
	items      []json.RawMessage
	activities []json.RawMessage
	described  map[string]bool // activities whose description is included, or too large for any message
	size       int             // bytes of the items and activities, each with a comma
}

// add adds an item and, if this is the first item of its activity, the description. It returns false if the item does
// not fit. An empty message takes any item that fits without its description.
func (m *deductionMessage) add(item json.RawMessage, activityID string, infos map[string]json.RawMessage) bool {
	info := infos[activityID]
	if m.described[activityID] {
		info = nil
	}
	size := func() int { return frame + activitiesFrame + m.size + len(item) + 1 + len(info) + 1 }
	if len(m.items) == 0 && size() > MaxBytes {
		info = nil
	}
	if len(m.items) == MaxItems || size() > MaxBytes && len(m.items) > 0 || frame+len(item) > MaxBytes {
		return false
	}
	m.items, m.size = append(m.items, item), m.size+len(item)+1
	if info != nil {
		m.activities, m.size = append(m.activities, info), m.size+len(info)+1
	}
	if m.described == nil {
		m.described = map[string]bool{}
	}
	m.described[activityID] = true
	return true
}

func (m *deductionMessage) body() []byte {
	if len(m.activities) == 0 {
		return join(m.items, frame+m.size)
	}
	body := join(m.items, frame+activitiesFrame+m.size)
	body = append(body[:len(body)-1], `,"activities":`...)
	body = appendList(body, m.activities)
	return append(body, '}')
}

// DecodeDeductions is Decode for deductions. It also returns the usable descriptions of activities. A description that
// is not usable is left out, since no deduction depends on it.
func DecodeDeductions(body []byte) (good []Deduction, bad []BadItem, about []ActivityInfo) {
	good, bad = Decode[Deduction](body)
	var e struct {
		V          int               `json:"v"`
		Activities []json.RawMessage `json:"activities"`
	}
	if json.Unmarshal(body, &e) != nil || e.V != 1 {
		return good, bad, nil
	}
	for _, one := range e.Activities {
		var a ActivityInfo
		if json.Unmarshal(one, &a) == nil && a.Validate() == nil {
			about = append(about, a)
		}
	}
	return good, bad, about
}
