package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/stockgate"
)

// findings holds the violations at the end of a sale, and the order_sns that they concern.
type findings struct {
	list      []string
	concerned map[string]bool
}

func (f *findings) add(orderSN, format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
	if orderSN != "" {
		f.concerned[orderSN] = true
	}
}

type stockRow struct {
	ActivityID, SKU                  int64
	Total, Available, Reserved, Sold int64
}

type ledgerRow struct {
	OrderSN, ActivityID      int64
	UserID, LineItems, State string
	Reason                   string
	OrderCreatedAt           *time.Time
	LandedAt, ChangedAt      time.Time
}

func (r ledgerRow) activity() string { return strconv.FormatInt(r.ActivityID, 10) }

func (r ledgerRow) sn() string { return strconv.FormatInt(r.OrderSN, 10) }

// unread reports whether an operator rejected the reservation without a readable item or an entry in Redis.
func (r ledgerRow) unread() bool {
	return r.State == "rejected" && r.Reason == "system" && len(r.lines()) == 0
}

func (r ledgerRow) lines() (list []struct {
	SKU string `json:"sku_id"`
	Qty int64  `json:"qty"`
},
) {
	_ = json.Unmarshal([]byte(r.LineItems), &list)
	return list
}

type orderRow struct {
	OrderSN     int64
	UserID      string
	State       string
	Tombstone   bool
	LineItems   string
	Amount      int64
	CreatedAt   time.Time
	ExpiresAt   time.Time
	ClosedAt    *time.Time
	RefundedAt  *time.Time
	CloseReason string
	PaidBy      *int64
}

type paymentRow struct {
	PaymentID, OrderSN, Amount, PaidAmount int64
	State                                  string
}

type refundRow struct {
	PaymentID, OrderSN, Amount int64
	State, Reason              string
}

type itemRow struct{ OrderSN, SKU, Qty, Price int64 }

// items returns the lines of the order: "sku_id:qty:price" joined by commas.
func (o orderRow) items() (items []itemRow, err error) {
	if o.LineItems == "" {
		return nil, nil
	}
	for line := range strings.SplitSeq(o.LineItems, ",") {
		it := itemRow{OrderSN: o.OrderSN}
		if _, err := fmt.Sscanf(line, "%d:%d:%d", &it.SKU, &it.Qty, &it.Price); err != nil {
			return nil, fmt.Errorf("order %d: lines %q: %w", o.OrderSN, o.LineItems, err)
		}
		items = append(items, it)
	}
	return items, nil
}

// books holds the tables of both services at one time.
type books struct {
	stocks     []stockRow
	ledger     []ledgerRow
	allowances []struct {
		ActivityID int64
		UserID     string
		Held       int64
	}
	adjustments []struct {
		SKU, Delta              int64
		State, Decision, Reason string
	}
	deadLetters []struct {
		Origin, Topic, Why, State string
		Item                      []byte
		OrderSN                   *int64
	}
	orders   []orderRow
	items    []itemRow
	payments []paymentRow
	refunds  []refundRow
	given    []struct{ RefundID, Amount int64 }
	outbox   int64
	repairs  []repair

	differences []struct{ Kind, PaymentID, OrderSN string } // with the payment provider

	states []struct {
		ID, Version   int64
		State, Change string // the last change, but for repairs and reviews
	}
}

func (w *world) read() (b books, err error) {
	var ids []string
	for _, a := range w.activities {
		ids = append(ids, a.id)
	}
	scan := func(service, query string, dst any, args ...any) {
		if err == nil {
			err = w.books[service].Raw(query, args...).Scan(dst).Error
		}
	}
	scan("inventory", "SELECT activity_id, sku_id AS sku, total, available, reserved, sold FROM stocks WHERE activity_id IN ? ORDER BY sku_id", &b.stocks, ids)
	scan("inventory", "SELECT order_sn, activity_id, user_id, line_items, state, reason, order_created_at, landed_at, changed_at FROM reservations ORDER BY order_sn", &b.ledger)
	scan("inventory", "SELECT id, version, state, COALESCE((SELECT action FROM changes WHERE object = 'activity' AND "+
		"object_id = activities.id AND action NOT IN ('activity.reconcile', 'orders.cancel') ORDER BY changes.id DESC LIMIT 1), '') AS change "+
		"FROM activities WHERE id IN ?", &b.states, ids)
	scan("inventory", "SELECT activity_id, user_id, held FROM allowances", &b.allowances)
	scan("inventory", "SELECT sku_id AS sku, delta, state, decision, reason FROM adjustments", &b.adjustments)
	scan("inventory", "SELECT origin, topic, why, state, item, order_sn FROM dead_letters", &b.deadLetters)
	scan("order", "SELECT order_sn, user_id, state, tombstone, line_items, amount, created_at, expires_at, closed_at, refunded_at, close_reason, paid_by FROM orders", &b.orders)
	for _, o := range b.orders {
		items, e := o.items()
		if err = errors.Join(err, e); err != nil {
			return b, err
		}
		b.items = append(b.items, items...)
	}
	scan("order", "SELECT payment_id, order_sn, amount, paid_amount, state FROM payments", &b.payments)
	scan("order", "SELECT payment_id, order_sn, amount, state, reason FROM refunds", &b.refunds)
	scan("order", "SELECT refund_id, amount FROM sandbox_refunds", &b.given)
	scan("order", "SELECT kind, payment_id, order_sn FROM payment_differences", &b.differences)
	scan("order", "SELECT COUNT(*) FROM outbox", &b.outbox)
	var details []string
	scan("inventory", "SELECT detail FROM changes WHERE action = 'activity.reconcile'", &details)
	for _, d := range details {
		var detail struct{ Repairs []repair }
		if e := json.Unmarshal([]byte(d), &detail); e != nil {
			return b, e
		}
		b.repairs = append(b.repairs, detail.Repairs...)
	}
	return b, err
}

// rejected reports whether an operator decided about an unreadable message of the order.
func (b books) rejected(orderSN int64) bool {
	for _, l := range b.deadLetters {
		if l.OrderSN != nil && *l.OrderSN == orderSN && l.State != "open" && garbled(l.Item) {
			return true
		}
	}
	return false
}

// check returns all violations of the promises in a sale at rest.
func (w *world) check() *findings {
	f := &findings{concerned: map[string]bool{}}
	b, err := w.read()
	if err != nil {
		f.add("", "read: %v", err)
		return f
	}
	w.checkStock(f, b)
	ledger := w.checkLedger(f, b)
	orders := w.checkOrders(f, b, ledger)
	w.checkMoney(f, b, orders)
	w.checkReviews(f, b, ledger, orders)
	w.checkShop(f, ledger)
	w.checkEvents(f, orders)
	w.checkLimits(f, b)
	w.checkDecisions(f, b)
	w.checkRepairs(f, b)
	if w.over {
		return f // the gates have expired
	}
	w.checkRedisless(f, b)
	w.checkDraws(f)
	for _, a := range w.activities {
		w.checkGate(f, a.id, b)
	}
	w.checkFinal(f)
	w.checkBuyers(f, ledger, orders)
	return f
}

// count adds the outcomes of the sale to coverage.
func (w *world) count() {
	b, err := w.read()
	if err != nil {
		return
	}
	for _, r := range b.ledger {
		coverage.end(strings.TrimSpace("reservation " + r.State + " " + r.Reason))
	}
	for _, o := range b.orders {
		if o.Tombstone {
			coverage.end("tombstone")
		} else {
			coverage.end(strings.TrimSpace("order " + o.State + " " + o.CloseReason))
		}
	}
	for _, r := range b.refunds {
		coverage.end("refund " + r.State)
	}
	for _, a := range b.adjustments {
		coverage.end("adjustment " + a.Decision)
	}
	for _, r := range b.repairs {
		coverage.end("repair " + r.Kind)
	}
	for _, a := range b.states {
		if a.Change == "activity.restore" {
			coverage.end("decision taken over after a restore")
		}
	}
	if w.history.mostChecked() > 0 {
		coverage.end("overdue reservations checked")
	}
	for _, l := range b.deadLetters {
		coverage.end("dead letter of " + l.Topic + " " + l.State)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.purchases {
		if !p.accepted.IsZero() {
			coverage.end("purchase accepted")
			if p.activity != w.activities[0] {
				coverage.end("purchase in a second activity")
			}
		}
	}
}

// checkDecisions requires that no decision of a merchant is lost, also by a restore. A call that was carried out later may
// have followed.
func (w *world) checkDecisions(f *findings, b books) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range b.states {
		made, is := w.decided[strconv.FormatInt(a.ID, 10)]
		last := a.Version == made.version || a.Version == made.version+1 && a.Change == "activity.restore"
		if is && (a.Version < made.version || last && a.State != made.state) {
			f.add("", "activity %d is %s at version %d, and its merchant has made it %s at version %d", a.ID, a.State, a.Version,
				made.state, made.version)
		}
	}
}

func (w *world) checkStock(f *findings, b books) {
	initial := map[int64]int64{}
	for _, a := range w.activities {
		for i, sku := range a.skus {
			id, _ := strconv.ParseInt(sku, 10, 64)
			initial[id] = a.stock[i]
		}
	}
	reserved, sold, adjusted := map[int64]int64{}, map[int64]int64{}, map[int64]int64{}
	held := map[string]int64{}
	for _, r := range b.ledger {
		for _, l := range r.lines() {
			sku, _ := strconv.ParseInt(l.SKU, 10, 64)
			switch r.State {
			case "reserved":
				reserved[sku] += l.Qty
				held[fmt.Sprint(r.UserID, " in ", r.ActivityID)] += l.Qty
			case "sold":
				sold[sku] += l.Qty
				held[fmt.Sprint(r.UserID, " in ", r.ActivityID)] += l.Qty
			}
		}
	}
	taken := map[string]bool{}
	for _, a := range b.adjustments {
		if a.Decision == "taken" { // a refused call may be repeated with its key, as another adjustment
			if taken[a.Reason] {
				f.add("", "an adjustment was made twice: %q", a.Reason)
			}
			taken[a.Reason] = true
		}
		if a.State == "intent" {
			f.add("", "an adjustment of SKU %d by %d is not finished: %q", a.SKU, a.Delta, a.Decision)
		}
		if a.Decision == "taken" {
			adjusted[a.SKU] += a.Delta
		}
	}
	for _, s := range b.stocks {
		if s.Available+s.Reserved+s.Sold != s.Total || s.Available < 0 {
			f.add("", "stock of SKU %d does not add up: %+v", s.SKU, s)
		}
		if s.Reserved != reserved[s.SKU] || s.Sold != sold[s.SKU] {
			f.add("", "SKU %d: stock %+v, ledger reserved %d sold %d", s.SKU, s, reserved[s.SKU], sold[s.SKU])
		}
		if want := initial[s.SKU] + adjusted[s.SKU]; s.Total != want {
			f.add("", "SKU %d: total %d, with all adjustments %d", s.SKU, s.Total, want)
		}
	}
	for _, a := range b.allowances {
		buyer := fmt.Sprint(a.UserID, " in ", a.ActivityID)
		if a.Held != held[buyer] {
			f.add("", "user %s: allowance %d, ledger %d", buyer, a.Held, held[buyer])
		}
		delete(held, buyer)
	}
	for user, n := range held {
		f.add("", "user %s holds %d without an allowance", user, n)
	}
	unread := map[string]bool{}
	for _, r := range b.ledger {
		unread[r.sn()] = r.unread()
	}
	for _, l := range b.deadLetters {
		sn := ""
		if l.OrderSN != nil {
			sn = strconv.FormatInt(*l.OrderSN, 10)
		}
		w.mu.Lock()
		forged := w.forged[sn]
		w.mu.Unlock()
		if l.State == "open" || !forged && !unread[sn] && !garbled(l.Item) {
			f.add(sn, "dead letter of %s in %s, %s: %s (order_sn %s)", l.Origin, l.Topic, l.State, l.Why, sn)
		}
	}
	if b.outbox > 0 {
		f.add("", "%d rows in order's outbox", b.outbox)
	}
}

func (w *world) checkLedger(f *findings, b books) map[string]ledgerRow {
	ledger := map[string]ledgerRow{}
	for _, r := range b.ledger {
		ledger[r.sn()] = r
		if r.State == "reserved" {
			f.add(r.sn(), "order_sn %s is still reserved", r.sn())
		}
		w.mu.Lock()
		if r.State == "rejected" && r.Reason != "system" && len(w.happened) == 0 && !w.sale.redisless.happens() {
			f.add(r.sn(), "the ledger refused %s (%s), and Redis lost nothing", r.sn(), r.Reason)
		}
		p := w.purchases[r.sn()]
		w.mu.Unlock()
		if p == nil || (p.user != r.UserID || p.activity.id != r.activity()) && !r.unread() {
			f.add(r.sn(), "order_sn %s of user %s is in the ledger, and no buyer requested it", r.sn(), r.UserID)
		}
	}
	return ledger
}

func (w *world) checkOrders(f *findings, b books, ledger map[string]ledgerRow) map[string]orderRow {
	orders := map[string]orderRow{}
	for _, o := range b.orders {
		sn := strconv.FormatInt(o.OrderSN, 10)
		orders[sn] = o
		row, landed := ledger[sn]
		switch {
		case o.Tombstone:
			if landed && row.State != "released" && (row.State != "rejected" || !w.isSetBack(sn)) {
				f.add(sn, "order_sn %s: tombstone, ledger %s", sn, row.State)
			}
		case !landed:
			f.add(sn, "order %s has no reservation", sn)
		case o.State == "closed" && o.CloseReason == "expired" && o.ClosedAt.Before(o.ExpiresAt):
			f.add(sn, "order %s expired before its time: %+v", sn, o)
		case o.CloseReason == "rejected" && !b.rejected(o.OrderSN) && !w.isSetBack(sn) && !w.mayCancel(sn):
			f.add(sn, "order %s was rejected without a decision of an operator or merchant", sn)
		case o.State == "pending":
			f.add(sn, "order %s is still pending", sn)
		case w.isSetBack(sn) && row.State == "rejected" && (o.State == "closed" || o.State == "refunded"):
			// Its deduction was published before the restore and arrived after it: the order was never paid, or is refunded.
		case o.State == "paid" && row.State != "sold", o.State == "closed" && row.State != "released",
			o.State == "refunded" && row.State == "sold":
			f.add(sn, "order %s is %s, its reservation is %s", sn, o.State, row.State)
		}
	}
	for sn, row := range ledger {
		if o, ok := orders[sn]; row.State == "sold" && (!ok || o.State != "paid") {
			f.add(sn, "order_sn %s is sold in the ledger, its order is %q", sn, o.State)
		}
	}
	for _, it := range b.items {
		sn := strconv.FormatInt(it.OrderSN, 10)
		w.mu.Lock()
		p := w.purchases[sn]
		w.mu.Unlock()
		if p == nil {
			continue
		}
		found := false
		for _, l := range p.lines {
			found = found || l.SKUID == strconv.FormatInt(it.SKU, 10) && l.Qty == it.Qty
		}
		if !found || it.Price != w.sale.price {
			f.add(sn, "order %s has the line %+v, want %+v at %d", sn, it, p.lines, w.sale.price)
		}
	}
	return orders
}

// checkEvents requires an event of each final state from order to the broker. If the broker loses no confirmed
// message, inventory never needs to check an overdue reservation at order. Lost events alone may make it necessary: an
// order that its buyer ends before a redelivered landing needs no closing and gets none.
func (w *world) checkEvents(f *findings, orders map[string]orderRow) {
	if n := w.history.mostChecked(); n > 0 && !w.mayCheck(n) && !w.sale.losesOrders && !w.sale.losesEvents &&
		w.sale.setback.of == "" && !w.sale.brokerless.happens() && len(w.leftReviews) == 0 { // inventory checks soon what the broker may hold back, and what a review left for a time
		f.add("", "inventory had to check overdue reservations at order")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for sn, o := range orders {
		end := o.State
		if end == "refunded" {
			end = "paid"
		}
		// Of a closing that inventory requested it has the response.
		told := end == "closed" && o.CloseReason != "cancelled"
		if !o.Tombstone && end != "pending" && !told && !w.events[sn+" "+end] {
			f.add(sn, "order %s is %s, without an event at the broker", sn, o.State)
		}
	}
}

func (w *world) checkMoney(f *findings, b books, orders map[string]orderRow) {
	took, gave := map[int64]int64{}, map[int64]int64{}
	payments := map[string]paymentRow{}
	for _, p := range b.payments {
		payments[strconv.FormatInt(p.PaymentID, 10)] = p
		if p.State == "succeeded" {
			took[p.OrderSN] += p.PaidAmount
		}
	}
	w.checkCharges(f, payments)
	book := w.refunded(b)
	for _, r := range b.refunds {
		gave[r.OrderSN] += r.Amount
		if r.State != "refunded" || book[r.PaymentID] != r.Amount {
			f.add(strconv.FormatInt(r.OrderSN, 10), "refund %+v, the provider refunded %d", r, book[r.PaymentID])
		}
		delete(book, r.PaymentID)
	}
	for _, d := range b.differences {
		if w.sale.compares {
			f.add(d.OrderSN, "the comparison with the provider left %s of payment %s", d.Kind, d.PaymentID)
		}
	}
	for id, amount := range book {
		f.add("", "the provider refunded %d for payment %d without a refund row", amount, id)
	}
	for sn, o := range orders {
		kept := took[o.OrderSN] - gave[o.OrderSN]
		want := int64(0)
		if o.State == "paid" {
			want = o.Amount
		}
		if kept != want {
			f.add(sn, "order %s is %s over %d, and %d were kept (%d taken, %d refunded)", sn, o.State, o.Amount, kept,
				took[o.OrderSN], gave[o.OrderSN])
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.played {
		if p := payments[id]; p.State != "succeeded" {
			f.add(strconv.FormatInt(p.OrderSN, 10), "payment %s was confirmed and is %q", id, p.State)
		}
	}
}

// checkLimits requires that no buyer ever had more units of an activity in pending and paid orders than the limit.
func (w *world) checkLimits(f *findings, b books) {
	type change struct {
		at  time.Time
		sn  string
		qty int64
	}
	units := map[int64]int64{}
	for _, it := range b.items {
		units[it.OrderSN] += it.Qty
	}
	changes := map[string][]change{}
	for _, o := range b.orders {
		sn := strconv.FormatInt(o.OrderSN, 10)
		if o.Tombstone || w.lostClosing(sn) || w.isSetBack(sn) { // an order whose closing was lost may exceed the limit
			continue
		}
		w.mu.Lock()
		p := w.purchases[sn]
		w.mu.Unlock()
		if p == nil {
			continue // checkLedger reports it
		}
		user := o.UserID + " in " + p.activity.id
		changes[user] = append(changes[user], change{o.CreatedAt, sn, units[o.OrderSN]})
		for _, end := range []*time.Time{o.ClosedAt, o.RefundedAt} {
			if end != nil {
				changes[user] = append(changes[user], change{*end, sn, -units[o.OrderSN]})
			}
		}
	}
	for user, list := range changes {
		slices.SortStableFunc(list, func(a, b change) int {
			if c := a.at.Compare(b.at); c != 0 {
				return c
			}
			return int(a.qty - b.qty)
		})
		held := int64(0)
		for _, c := range list {
			if held += c.qty; held > w.sale.limit {
				f.add(c.sn, "user %s had %d units in orders, the limit is %d", user, held, w.sale.limit)
			}
		}
	}
}

// checkAccepted requires that the gate has counted each purchase of the ledger, and no other. Entries that were removed
// on purpose are adopted, and count again.
func (w *world) checkAccepted(f *findings, activity string, b books) {
	w.mu.Lock()
	adopted := w.happened[removed] || w.happened[spoiled]
	w.mu.Unlock()
	if adopted {
		return
	}
	var rows int64
	for _, r := range b.ledger {
		if r.activity() == activity && !r.unread() {
			rows++
		}
	}
	totals, err := w.gate.Totals(context.Background(), activity)
	// The gate has accepted the twin of another activity's order_sn too, and the ledger never has it.
	twins := int64(0)
	if w.sale.twin && err == nil && totals.Accepted == rows+1 {
		twins = 1
	}
	if err != nil || totals.Accepted != rows+twins {
		f.add("", "the gate has counted %d accepted purchases (error: %v), the ledger has %d", totals.Accepted, err, rows)
	}
}

func (w *world) checkGate(f *findings, activity string, b books) {
	ctx := context.Background()
	audit, err := w.gate.Audit(ctx, activity)
	if err != nil {
		f.add("", "audit: %v", err)
		return
	}
	if audit.JournalLen != 0 || audit.UnlandedLen != 0 {
		f.add("", "the gate has %d journal entries and %d unlanded purchases", audit.JournalLen, audit.UnlandedLen)
		if list, err := w.gate.Unlanded(ctx, activity, time.Time{}, time.Now().Add(time.Hour), 10); err == nil {
			for _, e := range list {
				f.add(e.OrderSN, "order_sn %s did not land", e.OrderSN)
			}
		}
	}
	w.checkAccepted(f, activity, b)
	for _, s := range b.stocks {
		if strconv.FormatInt(s.ActivityID, 10) != activity {
			continue
		}
		c := audit.SKUs[strconv.FormatInt(s.SKU, 10)]
		if c.Left+c.Held+c.Sold != c.Total {
			f.add("", "gate of SKU %d does not add up: %+v", s.SKU, c)
		}
		if c.Left != s.Available || c.Held != s.Reserved || c.Sold != s.Sold || c.Total != s.Total {
			f.add("", "SKU %d: gate %+v, database %+v", s.SKU, c, s)
		}
	}
	held := map[string][]string{}
	for _, r := range b.ledger {
		if r.activity() == activity && (r.State == "reserved" || r.State == "sold") {
			held[r.UserID] = append(held[r.UserID], r.sn())
		}
	}
	users := map[string]bool{}
	w.mu.Lock()
	for _, p := range w.purchases {
		users[p.user] = true
	}
	w.mu.Unlock()
	for user := range users {
		own, err := w.gate.Purchases(ctx, activity, user)
		if err != nil {
			f.add("", "buyer: %v", err)
			continue
		}
		entries, err := w.gate.Lookup(ctx, activity, own.OrderSNs)
		if err != nil {
			f.add("", "lookup: %v", err)
			continue
		}
		var has []string
		for _, sn := range own.OrderSNs {
			if s := entries[sn].Status; s != stockgate.StatusClosed && s != stockgate.StatusFailed {
				has = append(has, sn)
			}
		}
		slices.Sort(has)
		slices.Sort(held[user])
		if !slices.Equal(has, held[user]) {
			f.add("", "user %s holds %v in the gate, %v in the ledger", user, has, held[user])
			for _, sn := range append(has, held[user]...) {
				f.concerned[sn] = true
			}
		}
	}
}

// checkBuyers reads the result of every purchase once more, as its buyer.
func (w *world) checkBuyers(f *findings, ledger map[string]ledgerRow, orders map[string]orderRow) {
	w.mu.Lock()
	purchases := slices.Collect(maps.Values(w.purchases))
	w.mu.Unlock()
	for _, p := range purchases {
		buyer, err := w.newCaller(p.user, "checker")
		if err != nil {
			f.add(p.orderSN, "%v", err)
			continue
		}
		a := buyer.insist(http.MethodGet, "http://seckill/v1/activities/"+p.activity.id+"/reservations/"+p.orderSN, "",
			nil, 5)
		w.mu.Lock()
		accepted := !p.accepted.IsZero()
		w.mu.Unlock()
		if a.status == http.StatusNotFound {
			if accepted && !w.isLost(p.orderSN) && !ledger[p.orderSN].unread() {
				f.add(p.orderSN, "order_sn %s was accepted and is not found", p.orderSN)
			}
			if r, ok := ledger[p.orderSN]; ok && !r.unread() {
				f.add(p.orderSN, "order_sn %s is in the ledger, but its buyer gets 404", p.orderSN)
			}
			continue
		}
		var got struct{ Status, Reason string }
		if err := a.into(&got); a.status != http.StatusOK || err != nil {
			f.add(p.orderSN, "result of %s: %d %s", p.orderSN, a.status, short(a.raw))
			continue
		}
		if before := p.last(); before != "" && got.Status != before && !w.mayTurn(p.orderSN, stageOf[before], stageOf[got.Status]) &&
			(rank[got.Status] <= rank[before] || before == "created" && got.Status == "failed") {
			f.add(p.orderSN, "order_sn %s: status %s, then %s", p.orderSN, before, got.Status)
		}
		o, made := orders[p.orderSN]
		made = made && !o.Tombstone
		right := false
		switch got.Status {
		case "paid":
			right = made && o.State == "paid"
		case "closed":
			right = made && (o.State == "closed" || o.State == "refunded") || !made && w.lostOrders[p.orderSN]
		case "failed":
			// The order was created after all: its tombstone was lost, or its deduction arrived after a restore that lost the row.
			right = !made || o.State != "paid" && (w.lostOrders[p.orderSN] || w.setBack[p.orderSN] && ledger[p.orderSN].State == "rejected")
		}
		if !right {
			f.add(p.orderSN, "order_sn %s: status %s (%s), order %q, reservation %q", p.orderSN, got.Status,
				got.Reason, o.State, ledger[p.orderSN].State)
		}
	}
}
