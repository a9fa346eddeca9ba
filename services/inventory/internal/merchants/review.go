package merchants

import (
	"context"
	"errors"
	"maps"
	"slices"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ActionCancelOrders is the action of a review by which orders are cancelled or refunded.
const ActionCancelOrders = "orders.cancel"

// refundReview is the reason that the order service records with the refunds of a review.
const refundReview = "review"

// ReviewedOrder is a reservation that holds units, and why its buyer is suspicious.
type ReviewedOrder struct {
	ledger.Row
	Causes []SuspectCause
}

// Review returns the reservations that hold units and whose buyers are suspicious, newest first. While Redis is
// unavailable requestsKnown is false, and buyers are suspicious only for ended holds. It refuses with not_found if the
// scope has no such activity.
func (s *Service) Review(
	ctx context.Context, in core.Scope, activityID string, p core.Page,
) (orders []ReviewedOrder, requestsKnown bool, err error) {
	a, err := s.Suspects(ctx, in, activityID)
	if err != nil {
		return nil, false, err
	}
	causes := map[string][]SuspectCause{}
	for _, u := range a.Users {
		if list := u.Causes(); len(list) > 0 {
			causes[u.UserID] = list
		}
	}
	rows, err := s.Rows.HoldingReservations(ctx, activityID, slices.Sorted(maps.Keys(causes)), p)
	if err != nil {
		return nil, false, err
	}
	orders = make([]ReviewedOrder, len(rows))
	for i, row := range rows {
		orders[i] = ReviewedOrder{row, causes[row.UserID]}
	}
	return orders, a.Requests != nil, nil
}

// CancelOutcome is the state of an order after a review cancelled it.
type CancelOutcome string

// The outcomes.
const (
	CancelCancelled CancelOutcome = "cancelled"      // it was not paid, and is closed
	CancelRefunding CancelOutcome = "refunding"      // it was paid, and its refund has begun or is complete
	CancelClosed    CancelOutcome = "already_closed" // it had ended otherwise
	CancelNotFound  CancelOutcome = "not_found"      // the activity has no such order; nothing was changed
)

// CancelResult is the outcome for one order.
type CancelResult struct {
	OrderSN string
	Outcome CancelOutcome
}

// CancelOrders cancels orders of an activity: those that are not paid are closed, paid ones are refunded by the order
// service, and their units are released. Orders of another activity are not_found and stay as they are. It refuses with
// not_found if the caller's scope has no such activity.
//
// A repeated call completes what one that failed or was killed has begun, and returns the same outcomes: the order
// service refunds an order once, and its response decides what becomes of the ledger row. The change is recorded before
// the first order is closed, with the orders that held units then.
func (s *Service) CancelOrders(
	ctx context.Context, by core.Caller, activityID string, orderSNs []string, reason string,
) ([]CancelResult, error) {
	if err := validateCancel(orderSNs, reason); err != nil {
		return nil, err
	}
	activity, err := s.Activity(ctx, by.Scope(), activityID)
	if err != nil {
		return nil, err
	}
	if err := s.Guard.MayClose(ctx, activityID); err != nil {
		return nil, core.GateUnreachable(err)
	}
	rows, err := s.rowsOf(ctx, activityID, orderSNs)
	if err != nil {
		return nil, err
	}
	var holding []string
	var ended []ledger.Row
	for _, sn := range orderSNs {
		row, known := rows[sn]
		switch {
		case known && row.Holds():
			holding = append(holding, sn)
		case known:
			ended = append(ended, row)
		}
	}
	if len(holding) > 0 {
		now, err := s.Deps.Activities.Now(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.History.Record(ctx, core.Change{
			At: now, Who: by.UserID, Role: by.Role(), Action: ActionCancelOrders, Object: "activity", ObjectID: activityID,
			MerchantID: activity.MerchantID, Detail: map[string]any{"order_sns": holding, "reason": reason},
		}); err != nil {
			return nil, err
		}
	}
	// An earlier call may have failed between the ledger and the gate.
	err = errors.Join(s.cancelHolding(ctx, activityID, holding), s.Gates.Sync(ctx, ended))
	if err != nil {
		return nil, cancelRefusal(err)
	}
	if rows, err = s.rowsOf(ctx, activityID, orderSNs); err != nil {
		return nil, err
	}
	results := make([]CancelResult, len(orderSNs))
	for i, sn := range orderSNs {
		row, known := rows[sn]
		if known && row.Holds() {
			return nil, core.Unavailable("an order changed meanwhile; repeat the call", nil)
		}
		results[i] = CancelResult{sn, cancelOutcome(row, known)}
	}
	return results, nil
}

func validateCancel(orderSNs []string, reason string) error {
	if len(orderSNs) < 1 || len(orderSNs) > contract.MaxItems {
		return contract.InvalidField("order_sns", "must have 1 to 256 elements")
	}
	seen := map[string]bool{}
	for _, sn := range orderSNs {
		if !contract.ValidID(sn) || seen[sn] {
			return contract.InvalidField("order_sns", "must be different order_sns")
		}
		seen[sn] = true
	}
	return contract.CheckText("reason", reason, oneLine)
}

// rowsOf returns the rows of an activity, by order_sn.
func (s *Service) rowsOf(ctx context.Context, activityID string, orderSNs []string) (map[string]ledger.Row, error) {
	rows, err := s.Rows.Reservations(ctx, orderSNs)
	if err != nil {
		return nil, err
	}
	for sn, row := range rows {
		if row.ActivityID != activityID {
			delete(rows, sn)
		}
	}
	return rows, nil
}

// cancelHolding closes orders, refunds those that turn out to be paid, and makes ledger and gate follow. An order that
// does not exist yet is never created.
func (s *Service) cancelHolding(ctx context.Context, activityID string, orderSNs []string) error {
	if len(orderSNs) == 0 {
		return nil
	}
	outcomes, err := s.Ledger.CloseOrders(ctx, contract.OrderClose{OrderSNs: orderSNs, ActivityID: activityID},
		ledger.ReasonRejected, ledger.ReasonSystem)
	if err != nil {
		return err
	}
	var paid []string
	for _, o := range outcomes {
		if o.Outcome == core.OutcomePaid {
			paid = append(paid, o.OrderSN)
		}
	}
	if len(paid) == 0 {
		return nil
	}
	// If this process ends after the refund, the event of the refund makes the ledger follow.
	if err := core.Retry(ctx, s.Deps.Pause, func() error {
		_, err := s.Orders.Refund(ctx, paid, refundReview)
		return err
	}); err != nil {
		return err
	}
	_, err = s.Ledger.CloseOrders(ctx, contract.OrderClose{OrderSNs: paid, ActivityID: activityID},
		ledger.ReasonRejected, ledger.ReasonSystem)
	return err
}

// cancelOutcome returns the outcome that follows from a row that holds no units.
func cancelOutcome(row ledger.Row, known bool) CancelOutcome {
	switch {
	case !known:
		return CancelNotFound
	case row.State == ledger.StateReleased && row.Reason == ledger.ReasonRefunded:
		return CancelRefunding
	case row.State == ledger.StateReleased && (row.Reason == ledger.ReasonRejected || row.Reason == ledger.ReasonSystem):
		return CancelCancelled
	}
	return CancelClosed
}

// cancelRefusal turns the error of an unreachable dependency into a refusal: the call may be repeated.
func cancelRefusal(err error) error {
	if errors.Is(err, core.ErrGateUnavailable) || errors.Is(err, core.ErrNoGate) {
		return core.GateRefusal(err)
	}
	if errors.Is(err, core.ErrBrokenRow) {
		return err
	}
	return core.Unavailable("some orders may be cancelled; repeat the call to cancel the others", err)
}
