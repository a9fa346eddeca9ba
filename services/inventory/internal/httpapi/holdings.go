package httpapi

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// orderDetails is what the order service stores about the orders of a list, by order_sn.
type orderDetails map[string]merchants.OrderDetails

// withOrders returns the details of the orders of the rows, with contacts masked for operators. After an error, which
// it logs, the result lacks some orders: the list is served without them.
func (m *Merchant) withOrders(r *http.Request, activityID string, rows []ledger.Row) (orderDetails, error) {
	var sns []string
	for _, row := range rows {
		if row.State != ledger.StateRejected { // never had an order
			sns = append(sns, row.OrderSN)
		}
	}
	h, err := m.merchants.OrderDetails(r.Context(), sns)
	if err != nil {
		m.tel.Log.WarnContext(r.Context(), "look up orders failed",
			"activity_id", activityID, "count", len(sns), "error", err)
	}
	if auth.From(r.Context()).Has(auth.Operator) {
		for sn, d := range h {
			if d.Contact != nil {
				masked := d.Contact.Masked()
				d.Contact = &masked
				h[sn] = d
			}
		}
	}
	return h, err
}

func (h orderDetails) view(r ledger.Row, a *core.Activity) api.Holding {
	v := holdingView(r, a)
	d, ok := h[r.OrderSN]
	if !ok {
		return v
	}
	state := api.HoldingOrderState(d.State)
	digits := contract.CurrencyDigits(d.Currency)
	v.OrderState, v.Amount, v.Currency, v.CurrencyDigits = &state, &d.Amount, &d.Currency, &digits
	if c := d.Contact; c != nil {
		v.Contact = contactView(*c)
	}
	return v
}

func holdingView(r ledger.Row, a *core.Activity) api.Holding {
	return api.Holding{
		OrderSn: r.OrderSN, UserId: r.UserID, State: api.HoldingState(r.State), Reason: optional(r.Reason),
		ReservedAt: r.ReservedAt, OrderCreatedAt: r.OrderCreatedAt, ExpiresAt: r.ExpiresAt, ChangedAt: r.ChangedAt,
		Lines: views(r.Lines, func(l contract.Line) api.Line {
			return api.Line{SkuId: l.SKUID, SkuRef: optional(refOf(a, l.SKUID)), Qty: l.Qty}
		}),
	}
}

// ListActivityOrders implements api.ServerInterface.
func (m *Merchant) ListActivityOrders(
	w http.ResponseWriter, r *http.Request, id string, _ api.ListActivityOrdersParams,
) {
	if !m.validID(w, r, id) {
		return
	}
	if r.URL.Query().Has("changed_since") {
		in := caller(r).Scope()
		if _, err := m.merchants.Activity(r.Context(), in, id); err != nil {
			m.refuse(w, r, err)
			return
		}
		m.feed(w, r, merchants.FeedRequest{In: in, ActivityID: id})
		return
	}
	filter, err := reservationFilter(r.URL.Query())
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	a, err := m.merchants.Activity(r.Context(), caller(r).Scope(), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	w.Header().Set("Vary", "Accept")
	if acceptsCSV(r) {
		m.csv(w, r, a, filter)
		return
	}
	list, err := m.merchants.Rows.ReservationsOfActivity(r.Context(), caller(r).Scope(), id, filter, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	counts, err := m.merchants.ReservationCounts(r.Context(), caller(r).Scope(), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(r ledger.Row) string { return r.OrderSN })
	h, _ := m.withOrders(r, id, list)
	httpserver.WriteJSON(w, http.StatusOK, api.HoldingList{
		Items: views(list, func(r ledger.Row) api.Holding { return h.view(r, a) }), NextCursor: next,
		Counts: api.HoldingCounts{
			Reserved: counts.Reserved, Sold: counts.Sold, Released: counts.Released, Rejected: counts.Rejected,
		},
	})
}

// reservationFilter reads the filters of a list of reservations, and checks the format of the list.
func reservationFilter(query url.Values) (f core.ReservationFilter, err error) {
	f = core.ReservationFilter{
		UserID: query.Get("user_id"), OrderSN: query.Get("order_sn"), State: query.Get("state"),
	}
	switch {
	case query.Has("user_id") && !contract.ValidUserID(f.UserID):
		return f, contract.InvalidField("user_id", "must be 1 to 64 of A-Z a-z 0-9 _ . -")
	case query.Has("order_sn") && !contract.ValidID(f.OrderSN):
		return f, contract.InvalidField("order_sn", "is no order_sn")
	case query.Has("state") && !slices.Contains(core.FilterStates, f.State):
		return f, contract.InvalidField("state", "must be one of "+strings.Join(core.FilterStates, ", "))
	}
	return f, validFormat(query)
}

const csvPage = 1000

// lookupBudget bounds the lookups of one export. When it is used up, the rest is sent without the columns of orders, so
// that a slow order service does not use up the time of the export.
type lookupBudget struct {
	pages int           // for which the order service may still fail
	time  time.Duration // that lookups may still take
}

func newLookupBudget() lookupBudget { return lookupBudget{pages: 3, time: 20 * time.Second} }

func (b *lookupBudget) left() bool { return b.pages > 0 && b.time > 0 }

// spend counts the lookup of one page.
func (b *lookupBudget) spend(took time.Duration, err error) {
	b.time -= took
	if err != nil {
		b.pages--
	}
}

// csv sends the whole list, page by page. A failure after the first page aborts the connection, so that the client
// does not take the incomplete list for a complete one.
func (m *Merchant) csv(
	w http.ResponseWriter, r *http.Request, a *core.Activity, filter core.ReservationFilter,
) {
	var out *sheet
	cursor, budget := "", newLookupBudget()
	for first := true; ; first = false {
		rows, err := m.merchants.Rows.ReservationsOfActivity(r.Context(), caller(r).Scope(), a.ID, filter,
			core.Page{Limit: csvPage, Cursor: cursor})
		if err != nil && first {
			m.refuse(w, r, err)
			return
		}
		if err != nil {
			m.tel.Log.WarnContext(r.Context(), "CSV export aborted", "error", err)
			panic(http.ErrAbortHandler)
		}
		if first {
			out = newSheet(w, "orders-"+a.ID, "order_sn", "user_id", "lines", "skus", "state", "reason", "reserved_at",
				"order_created_at", "expires_at", "changed_at",
				"order_state", "amount", "currency", "contact_name", "contact_phone", "contact_address",
				"activity_ref", "sku_refs")
		}
		var h orderDetails
		if budget.left() {
			began := time.Now()
			h, err = m.withOrders(r, a.ID, rows)
			budget.spend(time.Since(began), err)
		}
		for _, row := range rows {
			out.row(h.csvRecord(row, a)...)
		}
		if out.flush() != nil || len(rows) < csvPage {
			return
		}
		cursor = rows[len(rows)-1].OrderSN
	}
}

// csvRecord returns the fields of a reservation. Its lines are written as <sku_id>x<qty>, separated by spaces, and again
// with the names of the SKUs at the purchase; without an order, their present ones. Last come the refs of the SKUs, each
// with its quantity; a SKU without one has the quantity alone.
func (h orderDetails) csvRecord(r ledger.Row, a *core.Activity) []string {
	lines, skus, refs := make([]string, len(r.Lines)), make([]string, len(r.Lines)), make([]string, len(r.Lines))
	for i, l := range r.Lines {
		qty := "x" + strconv.FormatInt(l.Qty, 10)
		refs[i] = refOf(a, l.SKUID) + qty
		lines[i], skus[i] = l.SKUID+qty, cmp.Or(h[r.OrderSN].SKUNames[l.SKUID], nameOf(a, l.SKUID))+" "+qty
	}
	var state, amount, currency, name, phone, address string
	if d, ok := h[r.OrderSN]; ok {
		state, amount, currency = d.State, contract.Decimal(d.Amount, d.Currency), d.Currency
		if c := d.Contact; c != nil {
			name, phone, address = c.Name, c.Phone, strings.Join(c.AddressLines, ", ")
		}
	}
	return []string{
		r.OrderSN, r.UserID, strings.Join(lines, " "), strings.Join(skus, ", "), string(r.State), r.Reason,
		timestamp(&r.ReservedAt), timestamp(r.OrderCreatedAt), timestamp(r.ExpiresAt), timestamp(&r.ChangedAt),
		state, amount, currency, name, phone, address, a.Ref, strings.Join(refs, " "),
	}
}

// refOf returns the ref of a SKU of the activity, "" without one, or if the activity was not read.
func refOf(a *core.Activity, sku string) string {
	if a != nil {
		if it := a.Item(sku); it != nil {
			return it.Ref
		}
	}
	return ""
}

// nameOf returns the name of a SKU of the activity, or its id.
func nameOf(a *core.Activity, sku string) string {
	for _, it := range a.Items {
		if it.SKUID == sku && it.Name != "" {
			return it.Name
		}
	}
	return sku
}
