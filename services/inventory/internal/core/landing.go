package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sort"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Land writes reservations into the ledger in one transaction, first come, first served in the order of the message.
// Then it syncs the gate and publishes the deductions. It may be called with the same items any number of times: a
// known order_sn takes nothing and repeats the effects of its row's present state. deadLetters are items of the same
// message that could not be read. While the orders of all activities are imported after a restore, Land fails with
// ErrImporting for new order_sns: orders get their units first, and a purchase that has ended must not land again.
func (s *Service) Land(ctx context.Context, items []contract.Reservation, deadLetters []contract.DeadLetter) error {
	l, err := s.landInLedger(ctx, items, deadLetters, false)
	if err != nil {
		return err
	}
	s.recordLanding(ctx, l)
	// A failure of one does not prevent the other: without Redis the orders are still created.
	return errors.Join(s.Gates.Sync(ctx, l.rows), s.PublishDeductions(ctx, l.rows))
}

// LandHandedOver writes reservations into the ledger that a process of seckill hands over without a message. It returns
// their rows, and those that are new and hold units. The caller syncs the gate and publishes the deductions.
func (s *Service) LandHandedOver(
	ctx context.Context, items []contract.Reservation,
) (rows, landed []ledger.Row, err error) {
	l, err := s.landInLedger(ctx, items, nil, true)
	if err != nil {
		return nil, nil, err
	}
	s.recordLanding(ctx, l)
	return l.rows, l.Landed, nil
}

// landInLedger runs the ledger transaction. It first takes all items for new ones. Only if the ledger has one of them,
// as after a redelivery, or if new ones may not land now, does it read their rows. Items that were handed over become
// no dead letters.
func (s *Service) landInLedger(
	ctx context.Context, items []contract.Reservation, deadLetters []contract.DeadLetter, handedOver bool,
) (l Landing, err error) {
	l, err = s.tryLanding(ctx, items, deadLetters, handedOver, handedOver)
	if errors.Is(err, ErrKnown) || errors.Is(err, ErrImporting) {
		return s.tryLanding(ctx, items, deadLetters, handedOver, true)
	}
	return l, err
}

func (s *Service) tryLanding(
	ctx context.Context, items []contract.Reservation, deadLetters []contract.DeadLetter, handedOver, read bool,
) (l Landing, err error) {
	err = InSpan(ctx, s.Recorder, "ledger transaction", true, func(ctx context.Context) error {
		return s.Store.Ledger(ctx, activitiesOf(items), func(tx LedgerTx) error {
			now, err := tx.Now()
			if err != nil {
				return err
			}
			l = Landing{now: now, republishAfter: s.Timing.RepublishAfter, handedOver: handedOver, read: read}
			if err := l.decide(tx, items, s.HoldBack); err != nil {
				return err
			}
			if len(l.Moves.Insert) > 0 {
				if importing, err := tx.ImportsOrders(); err != nil || importing {
					return cmp.Or(err, ErrImporting)
				}
			}
			l.Moves.DeadLetters = append(l.Moves.DeadLetters, deadLetters...)
			l.Moves.Unread = !read
			if err := tx.Apply(l.Moves); err != nil {
				return err
			}
			if len(l.Landed) == 0 {
				return nil
			}
			return l.purchases.Write(tx)
		})
	})
	return l, err
}

func (s *Service) recordLanding(ctx context.Context, l Landing) {
	s.Incidents.RaiseUnreadable(ctx, l.broken)
	for _, d := range l.Moves.DeadLetters {
		s.Recorder.Incident(ctx, "reservation became a dead letter", "order_sn", d.OrderSN)
	}
	lags := make([]time.Duration, 0, len(l.Landed))
	for _, r := range l.Landed {
		lags = append(lags, l.now.Sub(r.ReservedAt))
	}
	s.Recorder.Landed(ctx, len(l.Landed), lags)
	for _, r := range l.displaced {
		l.refused[r.Reason]--
		s.Recorder.Displaced(ctx, r.Reason)
		s.Incidents.Raise(ctx, "displaced "+r.ActivityID, "an accepted purchase lost to one that was sold without the gate",
			"order_sn", r.OrderSN, "activity_id", r.ActivityID, "reason", r.Reason)
	}
	for reason, n := range l.refused {
		if n > 0 {
			s.Recorder.Refused(ctx, reason, n)
		}
	}
	for _, sn := range l.conflicts {
		s.Recorder.Incident(ctx, "a purchase that was handed over contradicts the ledger", "order_sn", sn)
	}
}

// Landing is the outcome of one run of a transaction that lands purchases.
type Landing struct {
	Moves  *ledger.Moves
	Landed []ledger.Row // new rows that hold units

	now            time.Time
	republishAfter time.Duration
	handedOver     bool // by a process of seckill, without a message
	read           bool // the rows of the items; false: all items are taken for new ones
	purchases      Purchases
	rows           []ledger.Row   // all rows of the message in their present state, known ones included
	refused        map[string]int // by reason, how many new rows were rejected
	displaced      []ledger.Row   // those of activities that have sold without the gate
	conflicts      []string       // order_sns that were handed over and contradict the ledger
	broken         []ledger.Row   // known ones that cannot be read
}

// NewLanding makes the outcome of a transaction whose caller decides which purchases it places.
func NewLanding(now time.Time, republishAfter time.Duration, purchases Purchases) *Landing {
	return &Landing{
		now: now, republishAfter: republishAfter, Moves: ledger.NewMoves(), purchases: purchases, refused: map[string]int{},
	}
}

func (l *Landing) decide(tx LedgerTx, items []contract.Reservation, holdBack Decorator) error {
	l.Moves, l.refused = ledger.NewMoves(), map[string]int{}
	sns := make([]string, len(items))
	users := map[string][]string{}
	for i, it := range items {
		sns[i] = it.OrderSN
		users[it.ActivityID] = append(users[it.ActivityID], it.UserID)
	}
	rows := make(map[string]ledger.Row, len(items))
	if l.read {
		var err error
		if rows, l.broken, err = tx.ReadableReservations(sns); err != nil {
			return err
		}
	}
	broken := make(map[string]bool, len(l.broken))
	for _, r := range l.broken {
		broken[r.OrderSN] = true
	}
	held, err := HeldBy(tx, users)
	if err != nil {
		return err
	}
	if l.purchases, err = holdBack(tx, held, sortedKeys(users)); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, it := range items {
		if broken[it.OrderSN] {
			continue // it has landed, and waits for an operator
		}
		row, known := rows[it.OrderSN]
		a := tx.Activity(it.ActivityID)
		if why := l.invalid(it, row, known, a); why != "" {
			if l.handedOver {
				l.conflicts = append(l.conflicts, it.OrderSN)
			} else {
				l.addDeadLetter(it, why)
			}
			continue
		}
		if !known {
			row = l.Place(a, it)
			rows[row.OrderSN] = row
		}
		if !seen[row.OrderSN] {
			seen[row.OrderSN] = true
			l.rows = append(l.rows, row)
		}
	}
	return nil
}

// invalid returns why an item becomes a dead letter, "" if it does not. known means that the ledger has its order_sn.
func (l *Landing) invalid(it contract.Reservation, row ledger.Row, known bool, a *Activity) string {
	switch {
	case known && row.Same(it.UserID, it.ActivityID, it.Lines):
		return ""
	case known:
		return "order_sn is known with another user, activity or lines"
	case a == nil || a.State == ActivityDraft:
		return "activity is unknown"
	}
	if sku := UnknownSKU(a, it.Lines); sku != "" {
		return "SKU " + sku + " is not sold in this activity"
	}
	return ""
}

// Place adds the row of a new reservation: reserved, or rejected for the limit or the stock. It updates a's items for
// the next item.
func (l *Landing) Place(a *Activity, it contract.Reservation) ledger.Row {
	row := ledger.New(it, l.now)
	if refusal := l.purchases.Refusal(a, it); refusal != "" {
		row = row.Rejected(refusal)
		l.Moves.Place(row)
		l.refused[row.Reason]++
		if a.Outage > 0 {
			l.displaced = append(l.displaced, row)
		}
		return row
	}
	again := l.now.Add(l.republishAfter)
	row.RepublishAt = &again
	l.Moves.Place(row)
	l.purchases.Take(a, it)
	l.Landed = append(l.Landed, row)
	return row
}

func (l *Landing) addDeadLetter(it contract.Reservation, why string) {
	raw, err := json.Marshal(it)
	if err != nil {
		raw = []byte(it.OrderSN)
	}
	d := contract.NewDeadLetter(contract.GroupInventoryReservations, contract.TopicReservations, raw, why, l.now)
	d.OrderSN, d.ActivityID = it.OrderSN, it.ActivityID // also where the reservation could not be encoded
	l.Moves.DeadLetters = append(l.Moves.DeadLetters, d)
}

// UnknownSKU returns a SKU of the lines that the activity does not sell, "" if there is none.
func UnknownSKU(a *Activity, lines []contract.Line) string {
	for _, l := range lines {
		if a.Item(l.SKUID) == nil {
			return l.SKUID
		}
	}
	return ""
}

func activitiesOf(items []contract.Reservation) []string {
	ids := map[string]bool{}
	for _, it := range items {
		ids[it.ActivityID] = true
	}
	return sortedKeys(ids)
}

func sortedKeys[V any](set map[string]V) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// PublishDeductions publishes the deductions of reservations that hold units and have no known order, with the
// descriptions of their activities.
func (s *Service) PublishDeductions(ctx context.Context, rows []ledger.Row) error {
	activities := map[string]*Activity{}
	var due []contract.Deduction
	var about []contract.ActivityInfo
	for _, r := range rows {
		if r.State != ledger.StateReserved || r.OrderCreatedAt != nil {
			continue
		}
		a, ok := activities[r.ActivityID]
		if !ok {
			var asOf time.Time // before the activity was read, so that a later change has no earlier time
			var err error
			if a, asOf, err = s.described(ctx, r.ActivityID); err != nil {
				return err
			}
			activities[r.ActivityID] = a
			if a != nil {
				about = append(about, a.info(asOf))
			}
		}
		// A row without its activity or SKU has no price. It raises an incident and does not hold up the others.
		if a == nil || UnknownSKU(a, r.Lines) != "" {
			s.Incidents.Raise(ctx, "unpriced "+r.OrderSN, "activity or SKU of a ledger row does not exist", "order_sn",
				r.OrderSN, "activity_id", r.ActivityID)
			continue
		}
		due = append(due, deduction(a, r))
	}
	if len(due) == 0 {
		return nil
	}
	return s.retry(ctx, func() error { return s.Pub.Deductions(ctx, due, about) })
}

// PublishAgain publishes the deductions of rows of an activity, whether their orders are known or not. The activity was
// read at asOf or later.
func (s *Service) PublishAgain(ctx context.Context, a *Activity, asOf time.Time, rows []ledger.Row) error {
	due := make([]contract.Deduction, len(rows))
	for i, r := range rows {
		due[i] = deduction(a, r)
	}
	about := []contract.ActivityInfo{a.info(asOf)}
	return s.retry(ctx, func() error { return s.Pub.Deductions(ctx, due, about) })
}

// info describes the activity to the order service. The order service has an early end only if a deduction is
// published after it; otherwise the planned end counts.
func (a *Activity) info(asOf time.Time) contract.ActivityInfo {
	d := contract.ActivityInfo{ActivityID: a.ID, Title: a.Title, EndsAt: a.EndsAt, AsOf: asOf}
	if a.State == ActivityEnded && a.EndedAt != nil && a.EndedAt.Before(d.EndsAt) {
		d.EndsAt = *a.EndedAt
	}
	for _, it := range a.Items {
		d.SKUs = append(d.SKUs, contract.SKUName{SKUID: it.SKUID, Name: it.Name})
	}
	return d
}

// deduction returns the deduction of a reservation, with the prices of its activity.
func deduction(a *Activity, r ledger.Row) contract.Deduction {
	d := contract.Deduction{
		OrderSN: r.OrderSN, UserID: r.UserID, ActivityID: r.ActivityID,
		Currency: a.Currency, PayWithinS: a.PayWithinS, ReservedAt: r.ReservedAt, Traceparent: r.Traceparent,
	}
	for _, l := range r.Lines {
		d.Lines = append(d.Lines, contract.PricedLine{SKUID: l.SKUID, Qty: l.Qty, Price: a.Item(l.SKUID).Price})
	}
	return d
}

// describedFor is the time for which a process describes an activity as it has read it. What a deduction takes from it
// does not change while the activity sells, but for its end.
const describedFor = time.Second

// descriptions keeps the activities that deductions describe.
type descriptions struct {
	mu  sync.Mutex
	all map[string]description
}

type description struct {
	activity *Activity
	asOf     time.Time // time of the database before the activity was read
	until    time.Time // clock of the process
}

// get returns the description of an activity that is not too old.
func (d *descriptions) get(id string, now time.Time) (description, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, found := d.all[id]
	return e, found && now.Before(e.until) && now.After(e.until.Add(-2*describedFor))
}

// put keeps a description and drops those that are too old.
func (d *descriptions) put(id string, e description, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[string]description{}
	}
	for k, old := range d.all {
		if !now.Before(old.until) {
			delete(d.all, k)
		}
	}
	d.all[id] = e
}

// described returns an activity as it was at most a second ago, and the time of the database before it was read. The
// activity is nil if it does not exist; nothing may change it.
func (s *Service) described(ctx context.Context, id string) (*Activity, time.Time, error) {
	now := s.clock()
	if e, found := s.descriptions.get(id, now); found {
		return e.activity, e.asOf, nil
	}
	a, asOf, err := s.Store.DatedActivity(ctx, id)
	if err != nil || a == nil {
		return nil, asOf, err
	}
	s.descriptions.put(id, description{a, asOf, now.Add(describedFor)}, now)
	return a, asOf, nil
}
