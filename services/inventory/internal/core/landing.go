package core

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"time"

	"flashsale.internal/pkg/contract"
)

// Land enters reservations into the ledger: one transaction, first come first served in the order of the message, then
// the gate is told and the deductions are published. It may be called with the same items any number of times; a known
// order_sn takes nothing and repeats what follows from its row as it stands now. letters are items of the same message
// that could not be read.
func (s *Service) Land(ctx context.Context, items []contract.Reservation, letters []contract.DeadLetter) error {
	now := s.now()
	var l landing
	err := s.span(ctx, "ledger transaction", true, func(ctx context.Context) error {
		return s.Store.Ledger(ctx, activitiesOf(items), func(tx LedgerTx) error {
			l = landing{now: now, timing: s.Timing}
			if err := l.decide(tx, items); err != nil {
				return err
			}
			l.moves.DeadLetters = append(l.moves.DeadLetters, letters...)
			return tx.Apply(l.moves)
		})
	})
	if err != nil {
		return err
	}
	for _, d := range l.moves.DeadLetters {
		s.Recorder.Incident(ctx, "reservation became a dead letter", "order_sn", d.OrderSN)
	}
	lags := make([]time.Duration, 0, len(l.landed))
	for _, r := range l.landed {
		lags = append(lags, now.Sub(r.ReservedAt))
	}
	s.Recorder.Landed(ctx, len(l.landed), lags)
	for reason, n := range l.refused {
		s.Recorder.Refused(ctx, reason, n)
	}
	// Neither waits for the other: with Redis away the orders are made all the same.
	return errors.Join(s.syncGate(ctx, l.rows), s.publishDeductions(ctx, l.rows))
}

// landing is the outcome of one run of the ledger transaction.
type landing struct {
	now     time.Time
	timing  Timing
	moves   *Moves
	rows    []Reservation // all rows of the message as they stand, known ones included
	landed  []Reservation
	refused map[string]int
}

func (l *landing) decide(tx LedgerTx, items []contract.Reservation) error {
	l.moves, l.refused = newMoves(), map[string]int{}
	sns := make([]string, len(items))
	users := map[string][]string{}
	for i, it := range items {
		sns[i] = it.OrderSN
		users[it.ActivityID] = append(users[it.ActivityID], it.UserID)
	}
	rows, err := tx.Reservations(sns)
	if err != nil {
		return err
	}
	held := map[Buyer]int64{}
	for activityID, ids := range users {
		byUser, err := tx.Held(activityID, ids)
		if err != nil {
			return err
		}
		for user, n := range byUser {
			held[Buyer{activityID, user}] = n
		}
	}
	told := map[string]bool{}
	for _, it := range items {
		if row, ok := rows[it.OrderSN]; ok {
			if !row.same(it.UserID, it.ActivityID, it.Bucket, it.Lines) {
				l.letter(it, "order_sn is known with another user, activity or lines")
			} else if !told[it.OrderSN] {
				told[it.OrderSN] = true
				l.rows = append(l.rows, row)
			}
			continue
		}
		a := tx.Activity(it.ActivityID)
		if a == nil || a.State == ActivityDraft {
			l.letter(it, "activity is unknown")
			continue
		}
		if it.Bucket != 0 {
			l.letter(it, "bucket is unknown")
			continue
		}
		if sku := unknownSKU(a, it.Lines); sku != "" {
			l.letter(it, "SKU "+sku+" is not sold in this activity")
			continue
		}
		row := l.place(a, it, held)
		rows[row.OrderSN], told[row.OrderSN] = row, true
		l.rows = append(l.rows, row)
		l.moves.Insert = append(l.moves.Insert, row)
	}
	// Rows as they stand, not as they stood when an earlier item of this message came by.
	for i := range l.rows {
		l.rows[i] = rows[l.rows[i].OrderSN]
	}
	return nil
}

// place gives the pieces, or refuses them. It keeps a's items and held as they will be, for the next item.
func (l *landing) place(a *Activity, it contract.Reservation, held map[Buyer]int64) Reservation {
	row := Reservation{
		OrderSN: it.OrderSN, ActivityID: it.ActivityID, UserID: it.UserID, Bucket: it.Bucket, Lines: it.Lines,
		State: StateReserved, ReservedAt: sanitizeTime(it.ReservedAt, l.now), LandedAt: l.now, ChangedAt: l.now,
		Traceparent: sanitizeTraceparent(it.Traceparent),
	}
	who := Buyer{it.ActivityID, it.UserID}
	switch {
	case held[who]+row.pieces() > a.PerUserLimit:
		row.State, row.Reason = StateRejected, ReasonLimitReached
	case !inStock(a, it.Lines):
		row.State, row.Reason = StateRejected, ReasonSoldOut
	}
	if row.State == StateRejected {
		l.refused[row.Reason]++
		return row
	}
	again := l.now.Add(l.timing.RepublishAfter)
	row.RepublishAt = &again
	held[who] += row.pieces()
	for _, line := range it.Lines {
		st := a.Item(line.SKUID)
		st.Available -= line.Qty
		st.Reserved += line.Qty
	}
	l.moves.take(row)
	l.landed = append(l.landed, row)
	return row
}

func (l *landing) letter(it contract.Reservation, why string) {
	raw, err := json.Marshal(it)
	if err != nil {
		raw = []byte(it.OrderSN)
	}
	d := contract.NewDeadLetter(contract.GroupInventoryReservations, contract.TopicReservations, raw, why, l.now)
	d.OrderSN, d.ActivityID = it.OrderSN, it.ActivityID // also where the reservation could not be encoded
	l.moves.DeadLetters = append(l.moves.DeadLetters, d)
}

func unknownSKU(a *Activity, lines []contract.Line) string {
	for _, l := range lines {
		if a.Item(l.SKUID) == nil {
			return l.SKUID
		}
	}
	return ""
}

func inStock(a *Activity, lines []contract.Line) bool {
	for _, l := range lines {
		if a.Item(l.SKUID).Available < l.Qty {
			return false
		}
	}
	return true
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

// publishDeductions publishes what order has to know of: rows that hold pieces and have no order as far as is known.
func (s *Service) publishDeductions(ctx context.Context, rows []Reservation) error {
	activities := map[string]*Activity{}
	var due []contract.Deduction
	for _, r := range rows {
		if r.State != StateReserved || r.OrderCreatedAt != nil {
			continue
		}
		a, ok := activities[r.ActivityID]
		if !ok {
			var err error
			if a, err = s.Store.Activity(ctx, r.ActivityID); err != nil {
				return err
			}
			activities[r.ActivityID] = a
		}
		// Without its activity or SKU a row waits for a person; the others do not wait for it.
		if a == nil || unknownSKU(a, r.Lines) != "" {
			s.alarm(ctx, "unpriced "+r.OrderSN, "the activity or a SKU of a ledger row is gone", "order_sn", r.OrderSN, "activity_id", r.ActivityID)
			continue
		}
		d := contract.Deduction{
			OrderSN: r.OrderSN, UserID: r.UserID, ActivityID: r.ActivityID, Bucket: r.Bucket,
			Currency: a.Currency, PayWithinS: a.PayWithinS, Traceparent: r.Traceparent,
		}
		for _, l := range r.Lines {
			d.Lines = append(d.Lines, contract.PricedLine{SKUID: l.SKUID, Qty: l.Qty, Price: a.Item(l.SKUID).Price})
		}
		due = append(due, d)
	}
	if len(due) == 0 {
		return nil
	}
	return s.retry(ctx, func() error { return s.Pub.Deductions(ctx, due) })
}

func (s *Service) span(ctx context.Context, name string, database bool, work func(ctx context.Context) error) error {
	ctx, end := s.Recorder.Span(ctx, name, database)
	err := work(ctx)
	end(err)
	return err
}
