package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Topics of the system. Messages go round robin over a topic's queues; nothing relies on order.
const (
	TopicReservations = "seckill-reservations"
	TopicDeductions   = "inventory-deductions"
	TopicOrderEvents  = "order-events"
	TopicOrderClose   = "order-close"
	TopicDeadLetters  = "dead-letters"
)

// Consumer groups, one per consuming role.
const (
	GroupInventoryReservations = "inventory-reservations"
	GroupInventoryOrderEvents  = "inventory-order-events"
	GroupInventoryOrderClose   = "inventory-order-close"
	GroupInventoryDeadLetters  = "inventory-dead-letters"
	GroupOrderDeductions       = "order-deductions"
)

// Topics lists every topic of the system.
func Topics() []string {
	return []string{TopicReservations, TopicDeductions, TopicOrderEvents, TopicOrderClose, TopicDeadLetters}
}

// PublishedBy returns the topics to which a service publishes. Inventory replays dead letters to any topic.
func PublishedBy(service string) []string {
	switch service {
	case "seckill":
		return []string{TopicReservations}
	case "order":
		return []string{TopicOrderEvents, TopicOrderClose, TopicDeadLetters}
	case "inventory":
		return Topics()
	}
	return nil
}

// ConsumedBy returns the topics that a service consumes, by consumer group.
func ConsumedBy(service string) map[string]string {
	switch service {
	case "order":
		return map[string]string{GroupOrderDeductions: TopicDeductions}
	case "inventory":
		return map[string]string{
			GroupInventoryReservations: TopicReservations, GroupInventoryOrderEvents: TopicOrderEvents,
			GroupInventoryOrderClose: TopicOrderClose, GroupInventoryDeadLetters: TopicDeadLetters,
		}
	}
	return nil
}

// Groups lists every consumer group of the system.
func Groups() []string {
	return []string{
		GroupInventoryReservations, GroupInventoryOrderEvents, GroupInventoryOrderClose, GroupInventoryDeadLetters,
		GroupOrderDeductions,
	}
}

// Limits of one purchase. They bound what a client may request and what a consumer accepts.
const (
	MaxLines      = 16
	MaxQty        = 100
	MaxUserIDLen  = 64
	MaxPrice      = 100_000_000_000 // minor units
	MaxStock      = 100_000_000     // units
	MaxPayWithinS = 86_400          // seconds
)

// Line is one SKU of a purchase and its quantity in units.
type Line struct {
	SKUID string `json:"sku_id"`
	Qty   int64  `json:"qty"`
}

// PricedLine is a line with the price of one unit, in minor units of the currency.
type PricedLine struct {
	SKUID string `json:"sku_id"`
	Qty   int64  `json:"qty"`
	Price int64  `json:"price"`
}

// Reservation reports that the gate took these units for this user.
type Reservation struct {
	OrderSN     string    `json:"order_sn"`
	UserID      string    `json:"user_id"`
	ActivityID  string    `json:"activity_id"`
	Lines       []Line    `json:"lines"`
	ReservedAt  time.Time `json:"reserved_at"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// Deduction reports that the ledger holds these units for this user and that an order is to be created.
type Deduction struct {
	OrderSN     string       `json:"order_sn"`
	UserID      string       `json:"user_id"`
	ActivityID  string       `json:"activity_id"`
	Lines       []PricedLine `json:"lines"`
	Currency    string       `json:"currency"`
	PayWithinS  int64        `json:"pay_within_s"`
	ReservedAt  time.Time    `json:"reserved_at,omitzero"` // zero in messages of 0.1.0
	Traceparent string       `json:"traceparent,omitempty"`
}

// OrderEventType is a state change of an order.
type OrderEventType string

// The state changes of an order that inventory receives.
const (
	OrderCreated  OrderEventType = "created"
	OrderPaid     OrderEventType = "paid"
	OrderClosed   OrderEventType = "closed"
	OrderRefunded OrderEventType = "refunded"
)

// ReasonRefunded is the reason of a reservation that was released because its order was paid and then refunded. It is
// the only reason that ends a paid entry of the gate.
const ReasonRefunded = "refunded"

// OrderEvent reports a state change of an order.
type OrderEvent struct {
	OrderSN     string         `json:"order_sn"`
	UserID      string         `json:"user_id"`
	ActivityID  string         `json:"activity_id"`
	Lines       []Line         `json:"lines"`
	Type        OrderEventType `json:"type"`
	At          time.Time      `json:"at"`
	ExpiresAt   *time.Time     `json:"expires_at,omitempty"` // on created: when the pay window ends
	Reason      string         `json:"reason,omitempty"`     // on closed: expired, cancelled or rejected
	Traceparent string         `json:"traceparent,omitempty"`
}

// OrderClose is delivered when the pay window of these orders has ended. All of them share the deadline.
type OrderClose struct {
	OrderSNs    []string  `json:"order_sns"`
	ActivityID  string    `json:"activity_id"`
	DueAt       time.Time `json:"due_at"`
	Attempt     int       `json:"attempt,omitempty"` // closings sent before, that came too early for the same due_at
	Traceparent string    `json:"traceparent,omitempty"`
}

// DeadLetter is an item that its consumer gave up on. An operator replays or rejects it.
type DeadLetter struct {
	Where       string    `json:"where"`                 // consumer group that could not process it
	Topic       string    `json:"topic"`                 // topic of the item, to which a replay publishes it
	OrderSN     string    `json:"order_sn,omitempty"`    // empty if the item has no valid one
	ActivityID  string    `json:"activity_id,omitempty"` // empty if the item has no valid one
	Why         string    `json:"why"`                   // for operators; never shown to buyers
	Item        []byte    `json:"item"`                  // received bytes (base64 in JSON), parseable or not
	At          time.Time `json:"at"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// ValidUserID reports whether s is 1 to 64 characters of A-Z a-z 0-9 _ . and -.
func ValidUserID(s string) bool {
	if s == "" || len(s) > MaxUserIDLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return true
}

// DefaultMerchant owns what was created before there were several merchants, and what is created with a token without
// a merchant where the settings allow such tokens.
const DefaultMerchant = "default"

// ValidMerchantID reports whether s can name a merchant. The rules are those of a user id.
func ValidMerchantID(s string) bool { return ValidUserID(s) }

// ValidRef reports whether s can be a merchant's own reference of a product, a SKU or an activity: 1 to 64 characters of
// A-Z a-z 0-9 _ . and -, of which the first is none of _ . and -. So it is one segment of a URL as it is, and no spreadsheet
// evaluates it as a formula.
func ValidRef(s string) bool { return ValidUserID(s) && !strings.ContainsRune("_.-", rune(s[0])) }

// ValidID reports whether s is an id in the wire format: a positive 63-bit integer in plain decimal, without sign or
// leading zero.
func ValidID(s string) bool {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return false
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// ValidateLines reports what is wrong with the lines of a purchase: their number, a malformed SKU, a quantity out of
// 1 to MaxQty, or two lines of one SKU.
func ValidateLines(lines []Line) error {
	if len(lines) < 1 || len(lines) > MaxLines {
		return fmt.Errorf("lines: must be 1 to %d", MaxLines)
	}
	for i, l := range lines {
		if !ValidID(l.SKUID) {
			return fmt.Errorf("lines[%d].sku_id: not an id", i)
		}
		if l.Qty < 1 || l.Qty > MaxQty {
			return fmt.Errorf("lines[%d].qty: must be 1 to %d", i, MaxQty)
		}
		for _, before := range lines[:i] {
			if before.SKUID == l.SKUID {
				return fmt.Errorf("lines[%d].sku_id: second line of one SKU", i)
			}
		}
	}
	return nil
}

func validatePurchase(orderSN, userID, activityID string, lines []Line) error {
	switch {
	case !ValidID(orderSN):
		return errors.New("order_sn: not an id")
	case !ValidUserID(userID):
		return errors.New("user_id: malformed")
	case !ValidID(activityID):
		return errors.New("activity_id: not an id")
	}
	return ValidateLines(lines)
}

// Validate reports the first thing that makes the item unusable.
func (r Reservation) Validate() error {
	return validatePurchase(r.OrderSN, r.UserID, r.ActivityID, r.Lines)
}

// Validate reports the first thing that makes the item unusable.
func (d Deduction) Validate() error {
	if err := validatePurchase(d.OrderSN, d.UserID, d.ActivityID, PlainLines(d.Lines)); err != nil {
		return err
	}
	for i, l := range d.Lines {
		if l.Price < 1 || l.Price > MaxPrice {
			return fmt.Errorf("lines[%d].price: must be 1 to %d", i, int64(MaxPrice))
		}
	}
	if len(d.Currency) != 3 {
		return errors.New("currency: must have 3 characters")
	}
	if d.PayWithinS < 1 || d.PayWithinS > MaxPayWithinS {
		return fmt.Errorf("pay_within_s: must be 1 to %d", MaxPayWithinS)
	}
	return nil
}

// Validate reports the first thing that makes the item unusable.
func (e OrderEvent) Validate() error {
	switch e.Type {
	case OrderCreated, OrderPaid, OrderClosed, OrderRefunded:
	default:
		return fmt.Errorf("type: %q is unknown", e.Type)
	}
	if e.Type == OrderCreated && (e.ExpiresAt == nil || e.ExpiresAt.IsZero()) {
		return errors.New("expires_at: missing on created")
	}
	return validatePurchase(e.OrderSN, e.UserID, e.ActivityID, e.Lines)
}

// Validate reports the first thing that makes the item unusable.
func (c OrderClose) Validate() error {
	if len(c.OrderSNs) < 1 || len(c.OrderSNs) > MaxItems {
		return fmt.Errorf("order_sns: must be 1 to %d", MaxItems)
	}
	for i, sn := range c.OrderSNs {
		if !ValidID(sn) {
			return fmt.Errorf("order_sns[%d]: not an id", i)
		}
	}
	if !ValidID(c.ActivityID) {
		return errors.New("activity_id: not an id")
	}
	if c.DueAt.IsZero() {
		return errors.New("due_at: missing")
	}
	if c.Attempt < 0 {
		return errors.New("attempt: negative")
	}
	return nil
}

// Validate reports the first thing that makes the item unusable.
func (d DeadLetter) Validate() error {
	if d.Where == "" || d.Topic == "" || d.Why == "" {
		return errors.New("where, topic and why are required")
	}
	return nil
}

// PlainLines returns the lines without their prices.
func PlainLines(priced []PricedLine) []Line {
	lines := make([]Line, len(priced))
	for i, l := range priced {
		lines[i] = Line{SKUID: l.SKUID, Qty: l.Qty}
	}
	return lines
}

// SameLines reports whether two purchases have the same lines, in any order.
func SameLines(a, b []Line) bool {
	if len(a) != len(b) {
		return false
	}
	want := make(map[string]int64, len(a))
	for _, l := range a {
		want[l.SKUID] += l.Qty
	}
	for _, l := range b {
		if want[l.SKUID] != l.Qty {
			return false
		}
		delete(want, l.SKUID)
	}
	return len(want) == 0
}
