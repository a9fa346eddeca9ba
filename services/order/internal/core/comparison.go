package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	compareOverlap = 24 * time.Hour
	compareMost    = 30 * time.Minute   // bounds a comparison with one provider; one that takes longer fails and begins again
	compareClaim   = 20 * time.Minute   // of a comparison: longer than the retries of one call to a provider
	compareWeek    = 7 * 24 * time.Hour // for which a difference stays that no comparison reaches any more
	compareBatch   = 500                // rows read in one step
)

// DifferenceKind is what a comparison found, between a provider and the tables here, and could not repair.
type DifferenceKind string

// The kinds of differences.
const (
	ChargeDiffers      DifferenceKind = "charge_differs"       // recorded here with other figures
	ChargeForeign      DifferenceKind = "charge_foreign"       // its id is none of this service
	ChargeWithoutOrder DifferenceKind = "charge_without_order" // its order does not exist
	ChargeMissing      DifferenceKind = "charge_missing"       // recorded here, and not made by the provider
	ChargeTwice        DifferenceKind = "charge_twice"         // made twice by the provider

	RefundDiffers       DifferenceKind = "refund_differs"        // recorded here with other figures
	RefundForeign       DifferenceKind = "refund_foreign"        // its id is none of this service
	RefundWithoutCharge DifferenceKind = "refund_without_charge" // the provider has no charge of it
	RefundMissing       DifferenceKind = "refund_missing"        // recorded here, and not made by the provider
	RefundTwice         DifferenceKind = "refund_twice"          // made twice, or by the provider and by hand
)

// Difference is one disagreement about a payment. It exists until a comparison no longer finds it.
type Difference struct {
	ID        string // ascending from the oldest
	Provider  string
	Kind      DifferenceKind
	PaymentID string // as the provider has it, at most 64 bytes
	OrderSN   string // empty if it is not known

	// At the provider, and recorded here: zero where there is none or it is not known.
	Amount, RecordedAmount     int64
	Currency, RecordedCurrency string

	At        time.Time // of the charge or refund, by the provider's clock or, of a missing one, by that of the database
	FirstSeen time.Time
	LastSeen  time.Time // start of the last comparison that found it
}

// Comparison is the progress of the comparisons with one provider.
type Comparison struct {
	Provider   string
	ComparedTo time.Time // start of the last one that was completed; of the first attempt before there is one
	NextAt     time.Time // start of the next one, or the end of the claim of one that runs
}

// ComparisonStore keeps the comparisons and what they found.
type ComparisonStore interface {
	// Comparison returns the comparison of a provider. A new one has both times at now.
	Comparison(ctx context.Context, provider string, now time.Time) (Comparison, error)
	// MoveComparison updates a comparison to the times of to. It returns false if another process has changed it.
	MoveComparison(ctx context.Context, from, to Comparison) (bool, error)

	// RecordedCharges reads limit payments, ascending by order_sn and payment_id after those of a payment, and returns those
	// that have succeeded within the window. next is the last one read, zero after the last page. A payment finished more
	// than two days after its order was created may be missing.
	RecordedCharges(ctx context.Context, w Window, after Payment, limit int) (page []Payment, next Payment, err error)
	// RecordedRefunds reads limit refunds, ascending by NextAttemptAt and payment_id after those of a refund, and returns
	// those that were made within the window. next is as of RecordedCharges. A refund that was not made by an attempt may be
	// missing.
	RecordedRefunds(ctx context.Context, w Window, after Refund, limit int) (page []Refund, next Refund, err error)

	// RecordDifference inserts a difference, or updates all but FirstSeen of one of the same provider, kind and payment.
	RecordDifference(ctx context.Context, d Difference) error
	// ForgetDifferences deletes the differences of a provider, except those of MissingKinds, that were last seen before
	// a time and are of since or later, or that were last seen before old.
	ForgetDifferences(ctx context.Context, provider string, seenBefore, since, old time.Time) error
	// MissingDifferences returns differences of MissingKinds that were last seen before a time, oldest first.
	MissingDifferences(ctx context.Context, provider string, seenBefore time.Time, limit int) ([]Difference, error)
	// ForgetMissing deletes a difference if it was last seen before a time.
	ForgetMissing(ctx context.Context, id string, seenBefore time.Time) error
	// Differences returns those of all providers after the one with an id, oldest first.
	Differences(ctx context.Context, after string, limit int) ([]Difference, error)
}

// Window selects what a provider has taken and returned from a time until before another.
type Window struct {
	Provider    string
	From, Until time.Time
}

// Has reports whether a time is within the window.
func (w Window) Has(at time.Time) bool { return !at.Before(w.From) && at.Before(w.Until) }

// MissingKinds are the kinds that no list of a provider shows.
var MissingKinds = []DifferenceKind{ChargeMissing, RefundMissing}

// Differences returns the differences with the payment providers after the one with an id, oldest first, at most limit,
// and whether there are more.
func (s *Service) Differences(ctx context.Context, after string, limit int) ([]Difference, bool, error) {
	list, err := s.store.Differences(ctx, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	return list[:min(limit, len(list))], len(list) > limit, nil
}

// ComparePayments compares the charges and refunds of the last day with each provider for which that is due: those of
// the providers as ReconcilePayments does, which records what is missing here, then those recorded here. What is younger
// than CompareAfter may be in flight and is left for the next comparison. What cannot be repaired is stored as a difference.
//
// One process compares at a time, by a claim that it renews. If it ends meanwhile, another one begins again. Two of them
// at once would repeat each other's steps. After an outage a comparison begins a day before the last completed one.
func (s *Service) ComparePayments(ctx context.Context) error {
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(s.providers)) {
		if err := s.compare(ctx, s.providers[name]); err != nil && !errors.Is(err, errClaimLost) {
			failed = append(failed, fmt.Errorf("compare payments with %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// errClaimLost ends a comparison that another process has taken over.
var errClaimLost = errors.New("comparison belongs to another process")

// comparison is one comparison with a provider.
type comparison struct {
	*Service
	prov    Provider
	claim   Comparison
	renewAt time.Time // by the clock of this process
	began   time.Time
	w       Window
	seen    map[bool][]sighting // charges: false, refunds: true
}

// sighting is an entry in a list of a provider: 16 bytes for each charge and refund of a comparison.
type sighting struct{ id, at int64 }

func (s *Service) compare(ctx context.Context, prov Provider) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	claim, err := s.store.Comparison(ctx, prov.Name(), now)
	if err != nil || claim.NextAt.After(now) {
		return err
	}
	c := &comparison{
		Service: s, prov: prov, claim: claim, began: now, seen: map[bool][]sighting{},
		w: Window{prov.Name(), claim.ComparedTo.Add(-compareOverlap), now.Add(-s.opts.CompareAfter)},
	}
	end := Comparison{Provider: prov.Name(), ComparedTo: claim.ComparedTo, NextAt: now}
	if err = c.move(ctx, claim.ComparedTo, now.Add(compareClaim)); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, compareMost)
	defer cancel()
	if err = c.run(limited); err == nil {
		end.ComparedTo, end.NextAt = now, now.Add(s.opts.CompareEvery)
	}
	if errors.Is(err, errClaimLost) {
		return err
	}
	return errors.Join(err, c.move(ctx, end.ComparedTo, end.NextAt)) // after an error the next attempt may begin at once
}

// move updates the claim. It returns errClaimLost if another process has it.
func (c *comparison) move(ctx context.Context, comparedTo, nextAt time.Time) error {
	to := Comparison{Provider: c.claim.Provider, ComparedTo: comparedTo, NextAt: nextAt}
	moved, err := c.store.MoveComparison(ctx, c.claim, to)
	if err == nil && !moved {
		err = errClaimLost
	}
	c.claim, c.renewAt = to, c.opts.Now().Add(compareClaim/4)
	return err
}

// renew renews the claim when a quarter of it has passed.
func (c *comparison) renew(ctx context.Context) error {
	if c.opts.Now().Before(c.renewAt) {
		return nil
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return err
	}
	return c.move(ctx, c.claim.ComparedTo, now.Add(compareClaim))
}

func (c *comparison) run(ctx context.Context) error {
	// Charges without an order are kept: after a restore their orders may still come back.
	err := c.reconcile(ctx, c.prov, reconciling{since: c.w.From, until: c.w.Until, keep: true, each: c.listed})
	if err != nil {
		return err
	}
	for refund, kind := range map[bool]DifferenceKind{false: ChargeTwice, true: RefundTwice} {
		if err := c.twice(ctx, refund, kind); err != nil {
			return err
		}
	}
	// What was recorded just after the beginning of the window may have been made before it.
	recorded := Window{c.w.Provider, c.w.From.Add(c.opts.CompareAfter), c.w.Until}
	if err := c.recordedCharges(ctx, recorded); err != nil {
		return err
	}
	if err := c.recordedRefunds(ctx, recorded); err != nil {
		return err
	}
	return c.deleteGone(ctx)
}

// found are the results of an entry that was not recorded here.
var found = []ReconcileResult{ReconcilePaid, ReconcileRefunded, ReconcileReturned, ReconcileRecorded}

// differences are the kinds of what was not repaired, of charges (false) and refunds (true).
var differences = map[bool]map[ReconcileResult]DifferenceKind{
	false: {ReconcileDiffers: ChargeDiffers, ReconcileForeign: ChargeForeign, ReconcileKept: ChargeWithoutOrder},
	true: {
		ReconcileDiffers: RefundDiffers, ReconcileForeign: RefundForeign, ReconcileNoCharge: RefundWithoutCharge,
		ReconcileByHand: RefundTwice,
	},
}

// listed handles an entry of a list of the provider.
func (c *comparison) listed(ctx context.Context, r Reconciled) error {
	if r.Result == ReconcileOther {
		return c.renew(ctx)
	}
	if n, err := strconv.ParseInt(r.PaymentID, 10, 64); err == nil {
		c.seen[r.Refund] = append(c.seen[r.Refund], sighting{n, r.At.UnixMilli()})
	}
	if err := c.renew(ctx); err != nil {
		return err
	}
	if slices.Contains(found, r.Result) {
		c.rec.Incident(ctx, "payment_found", "comparison with a provider found a charge or refund that was not recorded",
			"provider", r.Provider, "payment_id", r.PaymentID, "order_sn", r.OrderSN, "refund", r.Refund,
			"result", string(r.Result))
	}
	kind, differs := differences[r.Refund][r.Result]
	if !differs {
		return nil
	}
	return c.differ(ctx, kind, Difference{
		PaymentID: r.PaymentID, OrderSN: r.OrderSN, Amount: r.Amount, Currency: r.Currency, At: r.At,
	})
}

// twice records what the list has twice, with two times: providers change their lists between pages.
func (c *comparison) twice(ctx context.Context, refund bool, kind DifferenceKind) error {
	all := c.seen[refund]
	slices.SortFunc(all, func(a, b sighting) int { return cmp.Compare(a.id, b.id) })
	for i := 1; i < len(all); i++ {
		if all[i].id != all[i-1].id || all[i].at == all[i-1].at {
			continue
		}
		d := Difference{PaymentID: strconv.FormatInt(all[i].id, 10), At: time.UnixMilli(max(all[i].at, all[i-1].at)).UTC()}
		if err := c.differ(ctx, kind, d); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the provider has listed a charge or refund.
func (c *comparison) has(refund bool, paymentID string) bool {
	n, err := strconv.ParseInt(paymentID, 10, 64)
	_, found := slices.BinarySearchFunc(c.seen[refund], n, func(s sighting, id int64) int {
		return cmp.Compare(s.id, id)
	})
	return err == nil && found
}

// differ records a difference, with what is recorded here.
func (c *comparison) differ(ctx context.Context, kind DifferenceKind, d Difference) error {
	d.Provider, d.Kind, d.FirstSeen, d.LastSeen = c.prov.Name(), kind, c.began, c.began
	if !contract.ValidID(d.OrderSN) {
		d.OrderSN = ""
	}
	if contract.ValidID(d.PaymentID) {
		p, found, err := c.store.Payment(ctx, d.PaymentID)
		if err != nil {
			return err
		}
		if found {
			d.OrderSN, d.RecordedAmount, d.RecordedCurrency = p.OrderSN, p.PaidAmount, p.PaidCurrency
		}
	}
	return c.store.RecordDifference(ctx, d)
}

func (c *comparison) recordedCharges(ctx context.Context, w Window) error {
	for after := (Payment{}); ; {
		page, next, err := c.store.RecordedCharges(ctx, w, after, compareBatch)
		if err != nil {
			return err
		}
		for _, p := range page {
			if !c.has(false, p.PaymentID) {
				if err := c.missingCharge(ctx, p); err != nil {
					return err
				}
			}
		}
		if after = next; after.PaymentID == "" {
			return nil
		}
	}
}

// missingCharge queries the provider for a charge that it has not listed, and records the difference.
func (c *comparison) missingCharge(ctx context.Context, p Payment) error {
	var made Charge
	var found bool
	err := c.patiently(ctx, func(ctx context.Context) (err error) {
		made, found, err = c.prov.FindCharge(ctx, p)
		return err
	})
	d := Difference{PaymentID: p.PaymentID, Amount: made.Amount, Currency: made.Currency, At: p.FinishedAt}
	switch {
	case err != nil:
		return err
	case !found:
		return c.differ(ctx, ChargeMissing, d)
	case made.Amount != p.PaidAmount || made.Currency != p.PaidCurrency:
		return c.differ(ctx, ChargeDiffers, d)
	}
	return nil
}

func (c *comparison) recordedRefunds(ctx context.Context, w Window) error {
	for after := (Refund{}); ; {
		page, next, err := c.store.RecordedRefunds(ctx, w, after, compareBatch)
		if err != nil {
			return err
		}
		for _, r := range page {
			if !c.has(true, r.PaymentID) {
				if err := c.missingRefund(ctx, r.PaymentID); err != nil {
					return err
				}
			}
		}
		if after = next; after.PaymentID == "" {
			return nil
		}
	}
}

// missingRefund queries the provider for a refund that it has not listed, and records the difference. If it was not made,
// an operator may attempt it again. A refund that an operator has settled by hand was not made by the provider.
func (c *comparison) missingRefund(ctx context.Context, refundID string) error {
	r, found, err := c.store.Refund(ctx, refundID)
	if err != nil || !found || !r.byProvider() && r.State != RefundFailed {
		return err
	}
	p, err := c.paymentOf(ctx, r)
	if err != nil {
		return err
	}
	var made ProviderRefund
	err = c.patiently(ctx, func(ctx context.Context) (err error) {
		made, found, err = c.prov.FindRefund(ctx, p)
		return err
	})
	d := Difference{PaymentID: refundID, OrderSN: r.OrderSN, Amount: made.Amount, Currency: made.Currency, At: r.FinishedAt}
	switch {
	case err != nil:
		return err
	case !found:
		if err := c.reopenRefund(ctx, r); err != nil {
			return err
		}
		return c.differ(ctx, RefundMissing, d)
	case made.Amount != r.Amount || made.Currency != r.Currency:
		return c.differ(ctx, RefundDiffers, d)
	}
	return nil
}

// patiently is the function of this name, and renews the claim first.
func (c *comparison) patiently(ctx context.Context, call func(ctx context.Context) error) error {
	if err := c.renew(ctx); err != nil {
		return err
	}
	return patiently(ctx, call)
}

// deleteGone deletes the differences that this comparison has not found. Those that it did not reach stay for a week. A
// missing one stays until the provider has it.
func (c *comparison) deleteGone(ctx context.Context) error {
	name := c.prov.Name()
	if err := c.store.ForgetDifferences(ctx, name, c.began, c.w.From, c.began.Add(-compareWeek)); err != nil {
		return err
	}
	for {
		open, err := c.store.MissingDifferences(ctx, name, c.began, compareBatch)
		if err != nil || len(open) == 0 {
			return err
		}
		for _, d := range open {
			if err := c.recheck(ctx, d); err != nil {
				return err
			}
		}
	}
}

// recheck records a missing charge or refund again, or deletes it.
func (c *comparison) recheck(ctx context.Context, d Difference) error {
	var err error
	if d.Kind == RefundMissing {
		err = c.missingRefund(ctx, d.PaymentID)
	} else {
		var p Payment
		if p, _, err = c.store.Payment(ctx, d.PaymentID); err == nil && p.State == PaymentSucceeded {
			err = c.missingCharge(ctx, p)
		}
	}
	if err != nil {
		return err
	}
	return c.store.ForgetMissing(ctx, d.ID, c.began)
}
