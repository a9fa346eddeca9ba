package redisless

import (
	"context"
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Purchase is a purchase that is decided by the ledger alone. MayBeKnown is set for an order_sn that the gate may
// have accepted: then the ledger may not refuse it for good, as it may still land.
type Purchase struct {
	contract.RedislessPurchase
	MayBeKnown bool
}

// ReserveRedisless decides purchases of one activity by the ledger, in one transaction each for those that the gate has
// accepted before and for the others, which come second. It may be repeated: a known order_sn takes nothing. After an
// error the outcome is unknown.
func (s *Service) ReserveRedisless(
	ctx context.Context, activityID string, outage int64, purchases []Purchase,
) ([]contract.RedislessResult, error) {
	results := make([]contract.RedislessResult, len(purchases))
	var accepted, fresh []int
	for i, p := range purchases {
		if p.Accepted {
			accepted = append(accepted, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	if len(accepted) > 0 {
		if err := s.landAccepted(ctx, activityID, purchases, accepted, results); err != nil {
			return nil, err
		}
	}
	if len(fresh) == 0 {
		return results, nil
	}
	sale := selling{activityID: activityID, outage: outage, republishAfter: s.RepublishAfter}
	for _, i := range fresh {
		sale.purchases = append(sale.purchases, purchases[i])
	}
	err := core.InSpan(ctx, s.Recorder, "ledger transaction", true, func(ctx context.Context) error {
		return s.Rows.Ledger(ctx, []string{activityID}, sale.run)
	})
	if err != nil {
		return nil, err
	}
	for n, i := range fresh {
		results[i] = sale.results[n]
	}
	s.Recorder.SoldRedisless(ctx, sale.results)
	s.Recorder.Landed(ctx, len(sale.landed), nil)
	s.deductions.add(sale.landed) // whatever fails from here on: a repeated call finds no new row
	if err := s.nameHoldings(ctx, activityID, purchases, results); err != nil {
		return nil, err
	}
	return results, nil
}

// nameHoldings adds the purchases that hold the units of the buyers who have reached their limit.
func (s *Service) nameHoldings(
	ctx context.Context, activityID string, purchases []Purchase, results []contract.RedislessResult,
) error {
	for i, result := range results {
		if result.Outcome != contract.RedislessLimitReached {
			continue
		}
		rows, err := s.Rows.ReservationsOfActivity(ctx, core.AllMerchants(), activityID,
			core.ReservationFilter{UserID: purchases[i].UserID}, core.Page{Limit: contract.MaxLines})
		if err != nil {
			return err
		}
		for _, r := range slices.Backward(rows) {
			if r.Holds() {
				results[i].OrderSNs = append(results[i].OrderSNs, r.OrderSN)
			}
		}
	}
	return nil
}

// landAccepted writes purchases into the ledger that the gate has accepted, as their messages would.
func (s *Service) landAccepted(
	ctx context.Context, activityID string, purchases []Purchase, which []int, results []contract.RedislessResult,
) error {
	items := make([]contract.Reservation, len(which))
	for n, i := range which {
		p := purchases[i]
		items[n] = contract.Reservation{
			OrderSN: p.OrderSN, UserID: p.UserID, ActivityID: activityID, Lines: p.Lines, ReservedAt: p.ReservedAt,
			Traceparent: p.Traceparent,
		}
	}
	list, landed, err := s.Inventory.LandHandedOver(ctx, items)
	if err != nil {
		return err
	}
	rows := make(map[string]ledger.Row, len(list))
	for _, r := range list {
		rows[r.OrderSN] = r
	}
	for n, i := range which {
		row, has := rows[items[n].OrderSN]
		if !has || !row.Same(items[n].UserID, activityID, items[n].Lines) {
			results[i] = contract.RedislessResult{Outcome: contract.RedislessConflict}
			continue
		}
		results[i] = known(row)
	}
	s.deductions.add(landed)
	return s.Gates.Sync(ctx, list)
}

func known(r ledger.Row) contract.RedislessResult {
	state := ledgerState(r)
	return contract.RedislessResult{Outcome: contract.RedislessReserved, Purchase: &state}
}

// ledgerState returns a row as its buyer sees it.
func ledgerState(r ledger.Row) contract.LedgerState {
	e := r.Entry()
	st := contract.LedgerState{
		OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Status: string(e.Stage), ReservedAt: r.ReservedAt,
		ExpiresAt: e.ExpiresAt, Reason: e.Reason,
	}
	if e.Stage == ledger.StageLanded {
		st.Status = string(ledger.StageQueued)
	}
	return st
}

// selling is one run of the transaction that decides redisless purchases.
type selling struct {
	activityID     string
	outage         int64
	republishAfter time.Duration
	purchases      []Purchase

	results []contract.RedislessResult
	landed  []ledger.Row
}

// run decides the purchases and writes their rows. The locks on the stock order it with every other sale of the
// activity and with each change of its mode.
func (s *selling) run(tx core.LedgerTx) error {
	s.results, s.landed = make([]contract.RedislessResult, len(s.purchases)), nil
	sns, users := make([]string, len(s.purchases)), make([]string, len(s.purchases))
	for i, p := range s.purchases {
		sns[i], users[i] = p.OrderSN, p.UserID
	}
	now, err := tx.Now()
	if err != nil {
		return err
	}
	rows, broken, err := tx.ReadableReservations(sns)
	if err != nil {
		return err
	}
	for _, r := range broken {
		rows[r.OrderSN] = r // it contradicts the purchase, for it has no lines
	}
	held, err := core.HeldBy(tx, map[string][]string{s.activityID: users})
	if err != nil {
		return err
	}
	a := tx.Activity(s.activityID)
	l := core.NewLanding(now, s.republishAfter, held)
	var sale core.RedislessSale
	var lost map[string]core.LostOrders
	if a != nil && a.Redisless() {
		if a.ReorderLimit == 0 {
			users = nil // no order counts
		}
		if sale, lost, err = tx.RedislessSale(s.activityID, users, now.Add(-lostOrderAge)); err != nil {
			return err
		}
	}
	later := a == nil || !sells(a, s.outage, now)
	if !later {
		if later, err = tx.ImportsOrders(s.activityID); err != nil {
			return err
		}
	}
	if second := now.Unix(); sale.SoldSecond != second {
		sale.SoldSecond, sale.SoldCount = second, 0
	}
	for i, p := range s.purchases {
		if row, is := rows[p.OrderSN]; is {
			if s.results[i] = known(row); !row.Same(p.UserID, s.activityID, p.Lines) {
				s.results[i] = contract.RedislessResult{Outcome: contract.RedislessConflict}
			}
			continue
		}
		if later {
			s.results[i] = contract.RedislessResult{Outcome: contract.RedislessLater}
			continue
		}
		result, ok := decideRedisless(a, p, figures(sale), buyer{
			held: held[ledger.Buyer{ActivityID: a.ID, UserID: p.UserID}], barredUntil: barredUntil(a, lost[p.UserID], now),
		}, now)
		if !ok {
			s.results[i] = result
			continue
		}
		row := l.Place(a, contract.Reservation{
			OrderSN: p.OrderSN, UserID: p.UserID, ActivityID: a.ID, Lines: p.Lines, ReservedAt: now, Traceparent: p.Traceparent,
		})
		rows[row.OrderSN] = row
		sale.SoldCount++
		s.results[i] = known(row)
		s.results[i].Fresh = true
	}
	s.landed = l.Landed
	if len(s.landed) == 0 {
		return nil
	}
	if err := tx.Apply(l.Moves); err != nil {
		return err
	}
	return tx.PutRedislessSale(s.activityID, sale)
}

// How long the allowance of a buyer is used up after one order too many was cancelled or expired, and for how long such an
// order counts: those of gates, in pkg/stockgate/lua/prelude.lua.
const (
	barredFor    = 10 * time.Minute
	lostOrderAge = 24 * time.Hour
)

// barredUntil returns until when the allowance of a buyer is used up; zero if it is not.
func barredUntil(a *core.Activity, lost core.LostOrders, now time.Time) time.Time {
	end := lost.Last.Add(barredFor)
	if a.ReorderLimit == 0 || lost.Count <= a.ReorderLimit || !end.After(now) {
		return time.Time{}
	}
	return end
}

// buyer is what the ledger has of the buyer of a purchase.
type buyer struct {
	held        int64 // units
	barredUntil time.Time
}

// sells reports whether redisless purchases of this outage may be sold.
func sells(a *core.Activity, outage int64, now time.Time) bool {
	return a.Redisless() && a.Outage == outage && a.Degraded != nil && a.ModeChangedAt != nil &&
		!now.Before(a.ModeChangedAt.Add(sellAfter))
}

// decideRedisless reports whether a new purchase is sold.
func decideRedisless(
	a *core.Activity, p Purchase, sale figures, of buyer, now time.Time,
) (result contract.RedislessResult, sold bool) {
	refuse := func(o contract.RedislessOutcome) (contract.RedislessResult, bool) {
		if p.MayBeKnown {
			o = contract.RedislessLater
		}
		return contract.RedislessResult{Outcome: o}, false
	}
	if _, ended := a.EndedSince(now); ended || a.State == core.ActivityEnded {
		return refuse(contract.RedislessEnded)
	}
	switch {
	case a.State != core.ActivityPublished:
		return refuse(contract.RedislessPaused)
	case now.Before(a.StartsAt):
		return contract.RedislessResult{Outcome: contract.RedislessNotStarted, StartsAt: a.StartsAt}, false
	case core.UnknownSKU(a, p.Lines) != "":
		return contract.RedislessResult{Outcome: contract.RedislessUnknownSKU}, false
	case of.held+ledger.Units(p.Lines) > a.PerUserLimit:
		return refuse(contract.RedislessLimitReached)
	case !of.barredUntil.IsZero():
		result, _ = refuse(contract.RedislessLimitReached)
		result.BarredUntil = of.barredUntil
		return result, false
	}
	for _, line := range p.Lines {
		if sale.left(*a.Item(line.SKUID)) < line.Qty {
			return refuse(contract.RedislessSoldOut)
		}
	}
	if sale.SoldCount >= a.Degraded.PerSecond {
		return contract.RedislessResult{Outcome: contract.RedislessLater}, false
	}
	return contract.RedislessResult{}, true
}

// LookupRedisless returns the purchases that the ledger has: those of these order_sns in the activity, or the latest
// ones of a user.
func (s *Service) LookupRedisless(ctx context.Context, l contract.RedislessLookup) (contract.RedislessStates, error) {
	out := contract.RedislessStates{Purchases: []contract.LedgerState{}}
	if l.UserID != "" {
		rows, err := s.Rows.ReservationsOfActivity(ctx, core.AllMerchants(), l.ActivityID,
			core.ReservationFilter{UserID: l.UserID}, core.Page{Limit: contract.MaxItems})
		for _, r := range rows {
			out.Purchases = append(out.Purchases, ledgerState(r))
		}
		return out, err
	}
	rows, err := s.Rows.Reservations(ctx, l.OrderSNs)
	if err != nil {
		return out, err
	}
	for _, sn := range l.OrderSNs {
		if r, is := rows[sn]; is && r.ActivityID == l.ActivityID {
			out.Purchases = append(out.Purchases, ledgerState(r))
		}
	}
	return out, nil
}

// Bounds of the publication of deductions that no call waits for.
const (
	deductionQueue   = 1024 // calls whose deductions wait
	deductionWorkers = 4
	deductionTimeout = 15 * time.Second
)

// laterDeductions publishes deductions after the call that reserved has returned. What does not fit or fails is left to
// the order sweep.
type laterDeductions struct{ queue chan []ledger.Row }

func newLaterDeductions() laterDeductions {
	return laterDeductions{make(chan []ledger.Row, deductionQueue)}
}

func (d laterDeductions) add(rows []ledger.Row) {
	if len(rows) == 0 {
		return
	}
	select {
	case d.queue <- rows:
	default:
	}
}

// PublishLater publishes the deductions of redisless purchases until ctx ends, and then those that are still queued,
// until drain ends. A publication that fails then ends it: the order sweep of another process publishes the rest.
func (s *Service) PublishLater(ctx, drain context.Context) error {
	var workers sync.WaitGroup
	for range deductionWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					s.publishQueued(drain)
					return
				case rows := <-s.deductions.queue:
					_ = s.publishLater(drain, rows) // a shutdown does not cut the call
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// publishQueued publishes what is queued at the end of PublishLater.
func (s *Service) publishQueued(ctx context.Context) {
	for {
		select {
		case rows := <-s.deductions.queue:
			if s.publishLater(ctx, rows) != nil {
				return
			}
		default:
			return
		}
	}
}

func (s *Service) publishLater(ctx context.Context, rows []ledger.Row) error {
	call, cancel := context.WithTimeout(ctx, deductionTimeout)
	defer cancel()
	err := s.Inventory.PublishDeductions(call, rows)
	if err != nil {
		s.Recorder.Warn(ctx, "deductions of redisless purchases not published yet", err)
	}
	return err
}
