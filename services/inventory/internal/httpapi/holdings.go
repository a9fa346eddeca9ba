package httpapi

import (
	"encoding/csv"
	"mime"
	"net/http"
	"net/url"
	"regexp"
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

func (h orderDetails) view(r ledger.Row) api.Holding {
	v := holdingView(r)
	d, ok := h[r.OrderSN]
	if !ok {
		return v
	}
	state := api.HoldingOrderState(d.State)
	digits := contract.CurrencyDigits(d.Currency)
	v.OrderState, v.Amount, v.Currency, v.CurrencyDigits = &state, &d.Amount, &d.Currency, &digits
	if c := d.Contact; c != nil {
		v.Contact = &api.Contact{Name: c.Name, Phone: c.Phone}
		if len(c.AddressLines) > 0 {
			v.Contact.AddressLines = &c.AddressLines
		}
	}
	return v
}

func holdingView(r ledger.Row) api.Holding {
	return api.Holding{
		OrderSn: r.OrderSN, UserId: r.UserID, State: api.HoldingState(r.State), Reason: optional(r.Reason),
		ReservedAt: r.ReservedAt, OrderCreatedAt: r.OrderCreatedAt, ExpiresAt: r.ExpiresAt, ChangedAt: r.ChangedAt,
		Lines: views(r.Lines, func(l contract.Line) api.Line { return api.Line{SkuId: l.SKUID, Qty: l.Qty} }),
	}
}

// ListActivityOrders implements api.ServerInterface.
func (m *Merchant) ListActivityOrders(
	w http.ResponseWriter, r *http.Request, id string, _ api.ListActivityOrdersParams,
) {
	if !m.validID(w, r, id) {
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
	if _, err := m.merchants.Activity(r.Context(), caller(r).Scope(), id); err != nil {
		m.refuse(w, r, err)
		return
	}
	w.Header().Set("Vary", "Accept")
	if acceptsCSV(r) {
		m.csv(w, r, id, filter)
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
		Items: views(list, h.view), NextCursor: next,
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

// validFormat checks the format of a list that may be an export.
func validFormat(query url.Values) error {
	if format := query.Get("format"); query.Has("format") && format != "csv" && format != "json" {
		return contract.InvalidField("format", "must be csv or json")
	}
	return nil
}

// acceptsCSV reports whether the query has the format csv, or has none and the Accept header names text/csv and does
// not prefer application/json.
func acceptsCSV(r *http.Request) bool {
	if query := r.URL.Query(); query.Has("format") {
		return query.Get("format") == "csv"
	}
	quality := map[string]float64{} // by media type, 0 to 1
	for element := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, params, err := mime.ParseMediaType(element)
		if err != nil {
			continue
		}
		quality[media] = 1
		if q, ok := params["q"]; ok {
			quality[media], _ = strconv.ParseFloat(q, 64) // 0 if q is not a number
		}
	}
	return quality["text/csv"] > 0 && quality["text/csv"] >= quality["application/json"]
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
func (m *Merchant) csv(w http.ResponseWriter, r *http.Request, id string, filter core.ReservationFilter) {
	out := csv.NewWriter(w)
	cursor, budget := "", newLookupBudget()
	for first := true; ; first = false {
		rows, err := m.merchants.Rows.ReservationsOfActivity(r.Context(), caller(r).Scope(), id, filter,
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
			w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
			w.Header().Set("Content-Disposition", `attachment; filename="orders-`+id+`.csv"`)
			_ = out.Write([]string{
				"order_sn", "user_id", "lines", "state", "reason", "reserved_at",
				"order_created_at", "expires_at", "changed_at",
				"order_state", "amount", "currency", "contact_name", "contact_phone", "contact_address",
			})
		}
		var h orderDetails
		if budget.left() {
			began := time.Now()
			h, err = m.withOrders(r, id, rows)
			budget.spend(time.Since(began), err)
		}
		for _, row := range rows {
			_ = out.Write(h.csvRecord(row)) // out.Error returns its error after Flush
		}
		out.Flush()
		if out.Error() != nil || len(rows) < csvPage {
			return
		}
		cursor = rows[len(rows)-1].OrderSN
	}
}

// csvRecord returns the fields of a reservation. Its lines are written as <sku_id>x<qty>, separated by spaces.
func (h orderDetails) csvRecord(r ledger.Row) []string {
	lines := make([]string, len(r.Lines))
	for i, l := range r.Lines {
		lines[i] = l.SKUID + "x" + strconv.FormatInt(l.Qty, 10)
	}
	var state, amount, currency, name, phone, address string
	if d, ok := h[r.OrderSN]; ok {
		state, amount, currency = d.State, strconv.FormatInt(d.Amount, 10), d.Currency
		if c := d.Contact; c != nil {
			name, phone, address = c.Name, c.Phone, strings.Join(c.AddressLines, ", ")
		}
	}
	fields := []string{
		r.OrderSN, r.UserID, strings.Join(lines, " "), string(r.State), r.Reason,
		timestamp(&r.ReservedAt), timestamp(r.OrderCreatedAt), timestamp(r.ExpiresAt), timestamp(&r.ChangedAt),
		state, amount, currency, name, phone, address,
	}
	for i := range fields {
		fields[i] = escapeFormula(fields[i])
	}
	return fields
}

// timestamp returns "" for nil.
func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// formula matches what a spreadsheet may evaluate, with the separator before it. A spreadsheet may split a cell at ;
// and at white space other than a blank.
var formula = regexp.MustCompile(`(^|[;；\t\r\n][\s"]*)([=+\-@＝＋－＠])`)

// escapeFormula quotes each part of a text that a spreadsheet would evaluate as a formula. Every phone number begins
// with + and is quoted, too.
func escapeFormula(s string) string {
	s = formula.ReplaceAllString(s, "$1'$2")
	if strings.HasPrefix(s, "\t") || strings.HasPrefix(s, "\r") || strings.HasPrefix(s, "\n") {
		return "'" + s
	}
	return s
}
