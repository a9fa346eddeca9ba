package core

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// DeadLetter is an item that a consumer gave up on.
type DeadLetter struct {
	ID          string
	Where       string // consumer group that could not process it
	Topic       string
	OrderSN     string
	ActivityID  string
	MerchantID  string // owner of the activity; "" without a known activity
	Why         string
	Item        []byte
	FailedAt    time.Time
	Traceparent string
	State       string // open, replayed or rejected
	Rejecting   bool   // its rejection has begun
	Occurrences int64
	DecidedBy   string
	DecidedAt   *time.Time
}

// States of dead letters.
const (
	DeadLetterOpen     = "open"
	DeadLetterReplayed = "replayed"
	DeadLetterRejected = "rejected"
)

// DeadLetters lists the dead letters in a state, newest first.
func (s *Service) DeadLetters(ctx context.Context, in Scope, state string, p Page) ([]DeadLetter, error) {
	return s.Deps.DeadLetters.DeadLetters(ctx, in, state, p)
}

// AddDeadLetters writes items that a consumer of inventory or of the order service gave up on. An item that fails
// again counts one more occurrence of its dead letter.
func (s *Service) AddDeadLetters(ctx context.Context, list []contract.DeadLetter) error {
	if len(list) == 0 {
		return nil
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return err
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].At = ledger.SanitizeTime(list[i].At, now)
	}
	if err := s.Deps.DeadLetters.AddDeadLetters(ctx, list); err != nil {
		return err
	}
	for _, d := range list {
		s.Recorder.Incident(ctx, "dead letter", "where", d.Where, "topic", d.Topic, "order_sn", d.OrderSN)
	}
	return nil
}

// deadLetter returns one dead letter, refused with not_found if there is none.
func (s *Service) deadLetter(ctx context.Context, in Scope, id string) (*DeadLetter, error) {
	d, err := s.Deps.DeadLetters.DeadLetter(ctx, in, id)
	if err == nil && d == nil {
		err = NotFound()
	}
	return d, err
}

// ReplayDeadLetter publishes the item to its topic again, where its consumer handles it as any other. Then it marks
// the dead letter as replayed, unless the item has failed again meanwhile. A process that dies in between leaves it
// open.
func (s *Service) ReplayDeadLetter(ctx context.Context, by Caller, id string) (*DeadLetter, error) {
	d, err := s.deadLetter(ctx, by.Scope(), id)
	if err != nil {
		return nil, err
	}
	if d.State == DeadLetterRejected {
		return nil, contract.Refuse(contract.CodeStateConflict, "the dead letter was rejected")
	}
	if d.Rejecting {
		return nil, contract.Refuse(contract.CodeStateConflict,
			"the rejection of the dead letter has begun; repeat the rejection")
	}
	if contract.IsCut(d.Item) {
		return nil, contract.Refuse(contract.CodeStateConflict,
			"the item was too long to be kept whole; it can only be rejected")
	}
	if err := s.Pub.Replay(ctx, *d); err != nil {
		return nil, Unavailable("the message could not be published; repeat the call", err)
	}
	return s.Deps.DeadLetters.DecideDeadLetter(ctx, *d, DeadLetterReplayed, s.deadLetterChange(by, "dead_letter.replay", d))
}

// RejectDeadLetter releases the units of a dead letter; its buyer gets failed (system). Every step may be repeated,
// and the dead letter is marked last. So a repeated call finishes one that died.
func (s *Service) RejectDeadLetter(ctx context.Context, by Caller, id string) (*DeadLetter, error) {
	d, err := s.deadLetter(ctx, by.Scope(), id)
	if err != nil {
		return nil, err
	}
	if d.Topic == contract.TopicReservations || d.Topic == contract.TopicDeductions {
		err = s.rejectPurchase(ctx, d)
	}
	// Events and closings hold no units: other messages and sweeps repeat how their orders ended.
	if err != nil {
		return nil, GateUnreachable(err)
	}
	return s.Deps.DeadLetters.DecideDeadLetter(ctx, *d, DeadLetterRejected, s.deadLetterChange(by, "dead_letter.reject", d))
}

// rejectPurchase ends the purchase of a dead letter. If half of a rejection were followed by a replay, the purchase
// would stay reserved: the order service creates no order after the tombstone. So a dead letter whose rejection has
// begun can only be rejected.
func (s *Service) rejectPurchase(ctx context.Context, d *DeadLetter) error {
	if err := s.Deps.DeadLetters.BeginRejection(ctx, d.ID); err != nil {
		return err
	}
	if d.Topic == contract.TopicReservations {
		return s.rejectReservation(ctx, d)
	}
	return s.rejectDeduction(ctx, d)
}

func (s *Service) deadLetterChange(by Caller, action string, d *DeadLetter) Change {
	return Change{
		At: s.clock(), Who: by.UserID, Role: by.Role(), Action: action,
		Object: "dead_letter", ObjectID: d.ID, MerchantID: d.MerchantID,
		Detail: map[string]any{"order_sn": d.OrderSN, "topic": d.Topic},
	}
}

// rejectReservation ends a purchase that never landed. It writes a rejected row first, so that no replay and no late
// delivery takes units, and then syncs the gate. If the ledger has another purchase under this order_sn, that purchase
// is valid and stays as it is: see endConflicting.
func (s *Service) rejectReservation(ctx context.Context, d *DeadLetter) error {
	it, ok := looseReservation(d)
	if !ok {
		return nil // without an order_sn it can have taken nothing
	}
	if err := s.completeFromGate(ctx, &it); err != nil {
		return err
	}
	var row ledger.Row
	mine := false
	err := s.Store.Ledger(ctx, []string{it.ActivityID}, func(tx LedgerTx) error {
		rows, err := tx.Reservations([]string{it.OrderSN})
		if err != nil {
			return err
		}
		var known bool
		if row, known = rows[it.OrderSN]; known {
			mine = row.Same(it.UserID, it.ActivityID, it.Lines)
			return nil
		}
		mine = true
		now, err := tx.Now()
		if err != nil {
			return err
		}
		it.Traceparent = d.Traceparent
		row = ledger.New(it, now).Rejected(ledger.ReasonSystem)
		m := ledger.NewMoves()
		m.Place(row)
		return tx.Apply(m)
	})
	switch {
	case err != nil:
		return err
	case !mine:
		return s.endConflicting(ctx, row, it, d.FailedAt)
	case row.State == ledger.StateReserved:
		return s.tombstone(ctx, row)
	}
	return s.Gates.Sync(ctx, []ledger.Row{row})
}

// endConflicting ends a purchase in its gate whose order_sn belongs to another purchase in the ledger, row.
//
// If row has another gate, no row of the ledger can ever end this purchase, and its gate has an entry of its own for
// it. The entry ends as failed(system) and its units are released. An entry of a third purchase stays as it is.
//
// If row has the same gate, that gate lost row's entry and accepted this purchase since. A gate has one entry for an
// order_sn. row gets it, as with every later settle: the units of this purchase are released, and the gate has no entry
// of it any more.
func (s *Service) endConflicting(ctx context.Context, row ledger.Row, it contract.Reservation, at time.Time) error {
	if row.ActivityID == it.ActivityID {
		return s.Gates.Sync(ctx, []ledger.Row{row})
	}
	if it.Validate() != nil {
		return nil // completeFromGate found no entry: it holds no units
	}
	e, err := s.Gate.Lookup(ctx, it.ActivityID, it.OrderSN)
	if err != nil && !errors.Is(err, ErrNoGate) {
		return err
	}
	if e != nil && e.UserID != it.UserID {
		return nil
	}
	return s.Gates.Sync(ctx, []ledger.Row{{
		OrderSN: it.OrderSN, ActivityID: it.ActivityID, UserID: it.UserID, Lines: it.Lines,
		State: ledger.StateRejected, Reason: ledger.ReasonSystem, ReservedAt: at,
	}})
}

// completeFromGate takes buyer and lines from the gate's entry if those of the item are invalid.
func (s *Service) completeFromGate(ctx context.Context, it *contract.Reservation) error {
	if it.Validate() == nil {
		return nil
	}
	it.UserID, it.Lines = "", nil
	e, err := s.Gate.Lookup(ctx, it.ActivityID, it.OrderSN)
	if errors.Is(err, ErrNoGate) {
		due, derr := s.Gates.Due(ctx, it.ActivityID)
		if derr != nil || due {
			return errors.Join(err, derr)
		}
		return nil
	}
	if err == nil && e != nil {
		it.UserID, it.Lines = e.UserID, e.Lines
	}
	return err
}

// rejectDeduction ends a purchase that the ledger holds and the order service could not process. If the item differs
// from the ledger row of its order_sn, nothing changes: that purchase is valid.
func (s *Service) rejectDeduction(ctx context.Context, d *DeadLetter) error {
	if !contract.ValidID(d.OrderSN) {
		return nil
	}
	rows, err := s.Store.Reservations(ctx, []string{d.OrderSN})
	if err != nil {
		return err
	}
	row, ok := rows[d.OrderSN]
	if !ok || contradicts(d, row) {
		return nil
	}
	if row.State != ledger.StateReserved {
		return s.Gates.Sync(ctx, []ledger.Row{row})
	}
	return s.tombstone(ctx, row)
}

// contradicts reports whether a readable item describes another purchase than the ledger row.
func contradicts(d *DeadLetter, row ledger.Row) bool {
	var it contract.Deduction
	if json.Unmarshal(d.Item, &it) != nil || it.Validate() != nil {
		return false
	}
	return !row.Same(it.UserID, it.ActivityID, contract.PlainLines(it.Lines))
}

// tombstone makes the order service never create this order, and makes the ledger follow its response.
func (s *Service) tombstone(ctx context.Context, row ledger.Row) error {
	outcomes, err := s.CloseOrders(ctx, contract.OrderClose{
		OrderSNs: []string{row.OrderSN}, ActivityID: row.ActivityID, Traceparent: row.Traceparent,
	}, ledger.ReasonRejected, ledger.ReasonSystem)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if o.OrderSN == row.OrderSN && (o.Outcome == OutcomeNotDue || o.Outcome == OutcomePaying) {
			return contract.Refuse(contract.CodeStateConflict,
				"the order exists and may still be paid; it closes by itself")
		}
	}
	return nil
}

// looseReservation reads as much as possible of an item that may be invalid. A cut item is known by the ids that were
// read from it before.
func looseReservation(d *DeadLetter) (contract.Reservation, bool) {
	var it contract.Reservation
	if contract.IsCut(d.Item) {
		it = contract.Reservation{OrderSN: d.OrderSN, ActivityID: d.ActivityID}
	} else if err := json.Unmarshal(d.Item, &it); err != nil {
		var ids struct {
			OrderSN    string `json:"order_sn"`
			UserID     string `json:"user_id"`
			ActivityID string `json:"activity_id"`
		}
		var typed *json.UnmarshalTypeError
		if !errors.As(err, &typed) || (json.Unmarshal(d.Item, &ids) != nil && ids.OrderSN == "") {
			return it, false
		}
		it = contract.Reservation{OrderSN: ids.OrderSN, UserID: ids.UserID, ActivityID: ids.ActivityID}
	}
	if !contract.ValidID(it.OrderSN) || !contract.ValidID(it.ActivityID) {
		return it, false
	}
	return it, true
}
