package merchants

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// mostOrderChanges bounds the decisions about an order, which may be repeated without end.
const mostOrderChanges = 100

// StoredOrder is all that the order service stores about an order. Nil times have not come.
type StoredOrder struct {
	OrderDetails
	UserID      string
	ActivityID  string
	Title       string // of the activity at the purchase; "" if it is not known
	Lines       []contract.PricedLine
	CreatedAt   time.Time
	ExpiresAt   time.Time
	PaidAt      *time.Time
	ClosedAt    *time.Time
	RefundedAt  *time.Time
	CloseReason string
	PaidBy      string     // id of the payment that made it paid
	PayingUntil *time.Time // of a pending order that a payment in flight keeps open

	Payments  []Payment        // oldest first
	Refunds   []Refund         // oldest first
	Decisions []RefundDecision // oldest first
}

// Payment is an attempt to pay an order. Its id is its reference at the provider too.
type Payment struct {
	ID           string
	Provider     string
	State        string // started, succeeded or failed
	Amount       int64  // requested, in minor units
	Currency     string
	PaidAmount   int64  // taken, as the provider reported it
	PaidCurrency string // "" if nothing was taken
	CreatedAt    time.Time
	FinishedAt   *time.Time
}

// RefundDecision is what an operator decided about a refund that its provider had refused.
type RefundDecision struct {
	RefundID  string
	Action    string // retry, settle or found
	By        string // user id of the operator
	At        time.Time
	Reference string
	Reason    string
}

// OrderPage is a reservation with its order and what was done to both.
type OrderPage struct {
	ledger.Row
	Activity *core.Activity
	Order    *StoredOrder // nil if there is none: not created yet, or never
	Changes  []OrderChange
}

// OrderChange is a change of a purchase.
type OrderChange struct {
	At      time.Time
	What    string
	Who     string // user id; "" if the system made the change, or if it was not recorded
	Role    string // RoleBuyer, core.RoleMerchant or core.RoleOperator; "" without Who
	Details map[string]string
}

// RoleBuyer is the role of a change that the buyer of an order made.
const RoleBuyer = "buyer"

// Order returns a reservation of an activity with its order. It refuses with not_found if the caller's scope has no
// such activity, or the activity no such reservation, and with unavailable while the order service does not respond.
func (s *Service) Order(ctx context.Context, in core.Scope, activityID, orderSN string) (OrderPage, error) {
	activity, err := s.Activity(ctx, in, activityID)
	if err != nil {
		return OrderPage{}, err
	}
	rows, err := s.rowsOf(ctx, activityID, []string{orderSN})
	if err != nil {
		return OrderPage{}, err
	}
	row, known := rows[orderSN]
	if !known {
		// After a restore the import may bring it back.
		if err := s.Guard.MayClose(ctx, activityID); err != nil {
			return OrderPage{}, core.GateUnreachable(err)
		}
		return OrderPage{}, core.NotFound()
	}
	decided, err := s.History.ChangesOfOrder(ctx, in, activityID, orderSN, mostOrderChanges)
	if err != nil {
		return OrderPage{}, err
	}
	// The order is read last: a page never shows an order that is older than its reservation.
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	order, err := s.Orders.Show(ctx, orderSN)
	if err != nil {
		return OrderPage{}, core.Unavailable("The order service cannot be reached, or it failed; repeat the call.", err)
	}
	// An order of another purchase with this order_sn is a fault that has a dead letter. It may be of another merchant. A
	// row that was rejected with a dead letter may lack its buyer.
	if order != nil && (order.ActivityID != activityID || row.UserID != "" && order.UserID != row.UserID) {
		order = nil
	}
	page := OrderPage{Row: row, Activity: activity, Order: order}
	page.Changes = slices.Concat(page.transitions(), page.refundDecisions(), decisionsAbout(orderSN, decided))
	slices.SortStableFunc(page.Changes, func(a, b OrderChange) int { return a.At.Compare(b.At) })
	return page, nil
}

// transitions returns the changes of state, in the order in which they came.
func (p OrderPage) transitions() []OrderChange {
	reserved := OrderChange{At: p.ReservedAt, What: "order.reserve"}
	if p.UserID != "" { // a dead letter may lack its buyer
		reserved.Who, reserved.Role = p.UserID, RoleBuyer
	}
	list := []OrderChange{reserved}
	add := func(at *time.Time, c OrderChange) {
		if at != nil {
			c.At = *at
			list = append(list, c)
		}
	}
	if p.Order == nil {
		add(p.OrderCreatedAt, OrderChange{What: "order.create"})
	}
	switch {
	case p.State == ledger.StateRejected:
		add(&p.ChangedAt, OrderChange{What: "order.reject", Details: reasonOf(p.Reason)})
	case p.State == ledger.StateReleased && p.Order == nil:
		add(&p.ChangedAt, OrderChange{What: "order.release", Details: reasonOf(p.Reason)})
	}
	if p.Order == nil {
		return list
	}
	o := p.Order
	add(&o.CreatedAt, OrderChange{What: "order.create"})
	add(o.PaidAt, OrderChange{What: "order.pay", Details: filled(map[string]string{"payment_id": o.PaidBy})})
	closed := OrderChange{What: "order.close", Details: reasonOf(o.CloseReason)}
	if o.CloseReason == ledger.ReasonCancelled { // no one else cancels by this reason
		closed.Who, closed.Role = o.UserID, RoleBuyer
	}
	add(o.ClosedAt, closed)
	refunded := OrderChange{What: "order.refund", Details: filled(map[string]string{"refund_id": o.PaidBy})}
	for _, r := range o.Refunds {
		if r.ID == o.PaidBy {
			refunded.Details["reason"] = r.Reason
		}
	}
	add(o.RefundedAt, refunded)
	return list
}

func (p OrderPage) refundDecisions() []OrderChange {
	if p.Order == nil {
		return nil
	}
	list := make([]OrderChange, len(p.Order.Decisions))
	for i, d := range p.Order.Decisions {
		list[i] = OrderChange{
			At: d.At, What: "refund." + d.Action, Who: d.By, Role: core.RoleOperator,
			Details: filled(map[string]string{"refund_id": d.RefundID, "reference": d.Reference, "reason": d.Reason}),
		}
	}
	return list
}

// decisionsAbout returns the entries of the change log as changes of an order.
func decisionsAbout(orderSN string, decided []core.PastChange) []OrderChange {
	var list []OrderChange
	for _, c := range decided {
		var detail struct {
			OrderSNs []string `json:"order_sns"`
			Reason   string   `json:"reason"`
		}
		err := json.Unmarshal([]byte(c.Detail), &detail)
		if c.Action == ActionCancelOrders && (err != nil || !slices.Contains(detail.OrderSNs, orderSN)) {
			continue
		}
		list = append(list, OrderChange{
			At: c.At, What: c.Action, Who: c.Who, Role: c.Role, Details: reasonOf(detail.Reason),
		})
	}
	return list
}

// Name returns the name of a SKU of the order: that at the purchase, or the present one if that is not known. It is ""
// if the activity has no such SKU.
func (p OrderPage) Name(sku string) string {
	var bought string
	if p.Order != nil {
		bought = p.Order.SKUNames[sku]
	}
	for _, it := range p.Activity.Items {
		if it.SKUID == sku {
			return cmp.Or(bought, it.Name)
		}
	}
	return bought
}

func reasonOf(reason string) map[string]string { return filled(map[string]string{"reason": reason}) }

// filled removes the empty values of details.
func filled(details map[string]string) map[string]string {
	maps.DeleteFunc(details, func(_, value string) bool { return value == "" })
	return details
}
