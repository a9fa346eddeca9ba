package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sort"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
)

// tablesOfBackup are the tables of inventory's database. A backup has all of them as of one moment.
var tablesOfBackup = []string{
	"products", "skus", "profiles", "activities", "stocks", "allowances", "reservations", "adjustments", "dead_letters", "changes",
	"idempotency_keys", "gate_confirmations", "epochs", "imports", "import_findings",
}

type backup map[string][]map[string]any

func (w *world) backup(tables ...string) backup {
	w.t.Helper()
	if len(tables) == 0 {
		tables = tablesOfBackup
	}
	b := backup{}
	for _, table := range tables {
		var rows []map[string]any
		require.NoError(w.t, w.db.Table(table).Find(&rows).Error)
		b[table] = rows
	}
	return b
}

// restore replaces the database by a backup, and the process by a new one.
func (w *world) restore(b backup) {
	w.t.Helper()
	for table, rows := range b {
		require.NoError(w.t, w.db.Exec("DELETE FROM "+table).Error)
		for _, row := range rows {
			require.NoError(w.t, w.db.Table(table).Create(maps.Clone(row)).Error)
		}
	}
	w.restart()
}

// newEpoch is `inventory epoch new --since`.
func (w *world) newEpoch() {
	w.t.Helper()
	_, err := w.parts.Store.DrawEpoch(w.ctx, time.Now().Add(-time.Hour), core.CauseOperator, "", time.Now().UTC().Truncate(time.Millisecond))
	require.NoError(w.t, err)
}

// order makes the fake order service have an order.
func (w *world) order(r contract.Reservation, state string) {
	w.orders.mu.Lock()
	defer w.orders.mu.Unlock()
	w.orders.items[r.OrderSN] = r
	w.orders.state[r.OrderSN] = state
}

// relayAndLand publishes what is in the journal, as seckill does, and lands it.
func (w *world) relayAndLand(gate string) error {
	entries, _, err := w.gate.ReadJournal(w.ctx, gate, "test", 256)
	if err != nil || len(entries) == 0 {
		return err
	}
	var items []contract.Reservation
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
		if e.Err == nil {
			items = append(items, e.Reservation)
		}
	}
	if err := w.gate.Ack(w.ctx, gate, ids); err != nil {
		return err
	}
	return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, items...))
}

// ordersFollow plays the order service: it creates an order for each deduction, and publishes the events of its state.
func (w *world) ordersFollow() error {
	var events []contract.OrderEvent
	for sn, d := range w.deductions() {
		r := contract.Reservation{OrderSN: sn, UserID: d.UserID, ActivityID: d.ActivityID, Lines: contract.PlainLines(d.Lines)}
		if w.orders.of(sn) == "" {
			w.order(r, "pending")
		}
		switch state := w.orders.of(sn); state {
		case "tombstone":
		case "pending":
			events = append(events, event(r, contract.OrderCreated))
		case "paid":
			events = append(events, event(r, contract.OrderCreated), event(r, contract.OrderPaid))
		default:
			events = append(events, event(r, contract.OrderCreated))
			if state == "closed" {
				events = append(events, event(r, contract.OrderClosed))
			}
		}
	}
	if len(events) == 0 {
		return nil
	}
	sort.Slice(events, func(i, j int) bool { return events[i].OrderSN < events[j].OrderSN })
	return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, events...))
}

// importing reports whether an import is not complete.
func (w *world) importing() bool {
	w.t.Helper()
	pending, err := w.parts.Store.PendingImports(w.ctx)
	require.NoError(w.t, err)
	return len(pending) > 0
}

// importRound is one round of the loops that take part in an import, and of the other services.
func (w *world) importRound() (err error) {
	w.shift += 5 * time.Second
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	keep(w.gates.EnsureGates(w.ctx))
	keep(w.importer.Run(w.ctx))
	activityIDs, e := w.gate.Registered(w.ctx)
	keep(e)
	for _, gate := range activityIDs {
		keep(w.relayAndLand(gate))
	}
	keep(w.ordersFollow())
	return err
}

// imports runs rounds until the import is complete.
func (w *world) imports() {
	w.t.Helper()
	for n := 0; ; n++ {
		require.NoError(w.t, w.importRound())
		if !w.importing() {
			break
		}
		require.Less(w.t, n, 50, "the import does not end: %+v", w.progress())
	}
	require.NoError(w.t, w.gates.EnsureGates(w.ctx))
}

func (w *world) progress() []core.Import {
	e, err := w.parts.Store.PresentEpoch(w.ctx)
	require.NoError(w.t, err)
	list, err := w.parts.Store.Imports(w.ctx, e.Number)
	require.NoError(w.t, err)
	return list
}

func (w *world) counts() core.ImportCounts { return core.SumOfImports(w.progress()) }

func (w *world) findings() map[string]string {
	e, err := w.parts.Store.PresentEpoch(w.ctx)
	require.NoError(w.t, err)
	list, err := w.parts.Store.Findings(w.ctx, e.Number, 1000)
	require.NoError(w.t, err)
	found := map[string]string{}
	for _, f := range list {
		found[f.Subject] = f.Kind
	}
	return found
}

// sells reports whether the gate accepts a purchase.
func (w *world) sells(a *core.Activity) stockgate.Outcome {
	w.t.Helper()
	_, outcome := w.reserve(a, fmt.Sprint("probe", newSN()))
	return outcome
}

func (o *orderService) lookup(w http.ResponseWriter, r *http.Request) {
	var body struct {
		OrderSNs []string `json:"order_sns"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	results := []map[string]any{}
	for _, sn := range body.OrderSNs {
		res := map[string]any{"order_sn": sn, "state": o.state[sn]}
		switch o.state[sn] {
		case "":
			res["state"] = "unknown"
		case "tombstone":
			res["state"], res["tombstone"] = "unknown", true
		case "cancelled":
			res["state"] = "closed"
		}
		results = append(results, res)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// since lists three orders a page.
func (o *orderService) since(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Since  time.Time `json:"since"`
		Cursor string    `json:"cursor"`
		Limit  int       `json:"limit"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var sns []string
	for sn := range o.items {
		if state := o.state[sn]; state != "" && state != "tombstone" {
			sns = append(sns, sn)
		}
	}
	sort.Slice(sns, func(i, j int) bool { return core.CompareIDs(sns[i], sns[j]) < 0 })
	from, _ := strconv.Atoi(body.Cursor)
	items := []map[string]any{}
	for _, sn := range sns[min(from, len(sns)):min(from+3, len(sns))] {
		it := o.items[sn]
		lines := []map[string]any{}
		for _, l := range it.Lines {
			lines = append(lines, map[string]any{"sku_id": l.SKUID, "qty": l.Qty, "price": 100})
		}
		state, reason := o.state[sn], ""
		switch state {
		case "cancelled":
			state, reason = "closed", "cancelled"
		case "closed":
			reason = "expired"
		}
		items = append(items, map[string]any{
			"order_sn": sn, "user_id": it.UserID, "activity_id": it.ActivityID, "state": state, "reason": reason,
			"lines": lines, "created_at": time.Now(), "expires_at": time.Now().Add(15 * time.Minute),
		})
	}
	next := ""
	if from+3 < len(sns) {
		next = strconv.Itoa(from + 3)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items, "next_cursor": next, "next_since": time.Now()})
}
