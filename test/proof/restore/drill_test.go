package restore

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// margin is how much earlier than the backup the import and the list of charges begin, as in the runbook.
const margin = 5 * time.Minute

// payWithin is longer than a drill, so that no order of it expires.
const payWithin = time.Hour

// width is the number of buyers that act at the same time.
const width = 32

// TestRestoreDrill interrupts a sale, sets one database or both back to a backup from the middle of the sale, and runs
// the runbook. The book of the payment provider is never set back. That of the sandbox is in the order database, so it is
// copied before the restore and copied back before payments are reconciled.
func TestRestoreDrill(t *testing.T) {
	units := 5000
	if text := os.Getenv("DRILL_UNITS"); text != "" {
		var err error
		units, err = strconv.Atoi(text)
		require.NoError(t, err, "DRILL_UNITS")
		require.GreaterOrEqual(t, units, 100, "DRILL_UNITS")
	}
	var table []string
	for _, c := range []struct {
		name             string
		order, inventory bool
	}{
		{"order alone", true, false},
		{"inventory alone", false, true},
		{"both", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDrill(t, units)
			d.disaster(c.order, c.inventory)
			d.recover()
			d.check(c.order)
			table = append(table, fmt.Sprintf("| %-15s | %s", c.name, d.counts()))
		})
	}
	t.Logf("\n| restored        | %s\n%s", heading, strings.Join(table, "\n"))
}

// drill is one sale with its interruption.
type drill struct {
	t     *testing.T
	rig   *rig.Rig
	sale  shop.Sale
	units int

	since  time.Time // of the import and of the list of charges
	book   backup    // of the sandbox, at the restore
	bought []*order

	accepted, honoured, refunded, unpaid, closed, failed, twice int
	took                                                        time.Duration
	difference                                                  int64
}

// order is an accepted purchase.
type order struct {
	purchase.Buyer
	sn   string
	paid bool // its buyer paid for it
}

func newDrill(t *testing.T, units int) *drill {
	t.Helper()
	r := rig.Start(t, rig.Env("PATH_RATE", "100000"))
	r.Client.Close()
	r.Client = client.New(r.Client.Origins(), client.Options{
		Secret: rig.TokenSecret, Timeout: 20 * time.Second, Attempts: 200, Connections: 64,
	})
	t.Cleanup(r.Client.Close)
	sale := shop.Open(t, r, shop.Sale{Stock: int64(units), PayWithinS: int64(payWithin / time.Second)})
	return &drill{t: t, rig: r, sale: sale, units: units}
}

// buy lets n buyers buy a unit each.
func (d *drill) buy(n int) []*order {
	d.t.Helper()
	orders, err := d.tryBuy(n)
	require.NoError(d.t, err)
	return orders
}

// tryBuy is buy with an error instead of a failed test, for goroutines.
func (d *drill) tryBuy(n int) ([]*order, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	buyers, err := purchase.NewBuyers(ctx, d.rig.Client, n)
	if err != nil {
		return nil, err
	}
	orders := make([]*order, n)
	err = purchase.Each(ctx, width, n, func(ctx context.Context, i int) error {
		a := purchase.Buy(ctx, buyers[i].Caller, buyers[i].UserID, d.sale.ActivityID, d.sale.Lines())
		if a.Outcome != purchase.Accepted {
			return fmt.Errorf("buyer %s: %s: %w", a.UserID, a.Outcome, a.Err)
		}
		orders[i] = &order{Buyer: buyers[i], sn: a.OrderSN}
		return nil
	})
	d.bought = append(d.bought, orders...)
	return orders, err
}

// each does something with all of these orders once they exist.
func (d *drill) each(orders []*order, do func(ctx context.Context, o *order) error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	require.NoError(d.t, purchase.Each(ctx, width, len(orders), func(ctx context.Context, i int) error {
		o := orders[i]
		_, err := purchase.Await(ctx, func(ctx context.Context) (client.Order, error) { return o.Order(ctx, o.sn) },
			func(client.Order) bool { return true })
		if err != nil {
			return fmt.Errorf("order %s: %w", o.sn, err)
		}
		return do(ctx, o)
	}))
}

func (d *drill) pay(orders []*order) {
	d.t.Helper()
	d.each(orders, func(ctx context.Context, o *order) error {
		o.paid = true
		return purchase.Pay(ctx, o.Caller, o.sn)
	})
}

func (d *drill) cancel(orders []*order) {
	d.t.Helper()
	d.each(orders, func(ctx context.Context, o *order) error {
		_, err := o.Cancel(ctx, o.sn)
		return err
	})
}

// disaster sells two fifths of the stock, makes a backup while more buyers come, sells two fifths more, and sets the
// databases back while the last purchases are still queued.
func (d *drill) disaster(orders, inventory bool) {
	t := d.t
	t.Helper()
	part := d.units / 50 // 100 of 5,000
	first := d.buy(18 * part)
	d.pay(first[:5*part])
	d.cancel(first[5*part : 6*part])

	began := time.Now()
	d.since = began.Add(-margin)
	buying := make(chan error, 1)
	go func() {
		_, err := d.tryBuy(2 * part)
		buying <- err
	}()
	deps := d.rig.Dependencies
	backups := map[string]backup{"order": dump(t, deps.OrderDSN), "inventory": dump(t, deps.InventoryDSN)}
	require.NoError(t, <-buying)
	second := d.buy(16 * part)
	d.pay(first[6*part : 8*part])
	d.pay(second[:3*part])
	d.cancel(first[8*part : 9*part])
	d.cancel(second[3*part : 4*part])
	d.buy(2 * part)

	// Pause. What was accepted is still on its way through the journal and the broker.
	d.rig.Order.Kill(t)
	d.rig.Inventory.Kill(t)
	d.book = dump(t, deps.OrderDSN, "sandbox_charges", "sandbox_refunds")
	if orders {
		backups["order"].restore(t)
	}
	if inventory {
		backups["inventory"].restore(t)
	}
}

// recover runs the runbook.
func (d *drill) recover() {
	t := d.t
	t.Helper()
	began := time.Now()
	since := d.since.UTC().Format(time.RFC3339)
	d.command(d.rig.Order, "migrate", "up")
	d.command(d.rig.Inventory, "migrate", "up")
	d.book.load(t)
	d.command(d.rig.Order, "payments", "reconcile", "--since", since, "--keep-missing")
	d.command(d.rig.Inventory, "epoch", "new", "--since", since)
	d.rig.Order.Start(t)
	d.rig.Inventory.Start(t)
	d.rig.Order.WaitReady(t)
	d.rig.Inventory.WaitReady(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var status string
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		var err error
		status, err = d.rig.Inventory.Output(ctx, "epoch", "status")
		return strings.Contains(status, "The import is complete."), err
	}), "%s", status)
	t.Logf("inventory epoch status\n%s", shorten(status))
	d.quiet("rows without an order", d.withoutOrder)
	d.command(d.rig.Order, "payments", "reconcile", "--since", since)
	d.quiet("rows whose order is in another state", d.unequal)
	d.took = time.Since(began)
}

// command runs a command of the runbook and logs what it prints.
func (d *drill) command(p *rig.Process, words ...string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	out, err := p.Output(ctx, words...)
	require.NoError(d.t, err, "%s %s:\n%s", p.Name, strings.Join(words, " "), out)
	d.t.Logf("%s %s\n%s", p.Name, strings.Join(words, " "), shorten(out))
}

// shorten removes lines of the log, and all but the first and the last lines of a long text.
func shorten(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	const some = 12
	if more := len(lines) - 2*some; more > 0 {
		lines = slices.Concat(lines[:some], []string{fmt.Sprintf("(%d lines)", more)}, lines[len(lines)-some:])
	}
	return strings.Join(lines, "\n")
}

// quiet waits until nothing is on its way, database and gate agree, and there are no such rows.
func (d *drill) quiet(what string, rows func() int) {
	t := d.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var seen client.SKUStock
	orderDSN := d.rig.Dependencies.OrderDSN
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		view, err := d.sale.Merchant.Stock(ctx, d.sale.ActivityID)
		if err != nil || len(view.SKUs) != 1 {
			return false, err
		}
		seen = view.SKUs[0]
		return seen.Journal == 0 && seen.InFlight == 0 && seen.Difference == 0 &&
			seen.MySQL.Available == seen.Gate.Left &&
			shop.Count(t, orderDSN, "SELECT COUNT(*) FROM outbox") == 0 &&
			shop.Count(t, orderDSN, "SELECT COUNT(*) FROM refunds WHERE state = 'refund_pending'") == 0 &&
			rows() == 0, nil
	}), "%s; %d %s", seen, rows(), what)
	d.difference = seen.Difference
}

// orders returns the state of each order of the sale by order_sn.
func (d *drill) orders() map[string]string {
	d.t.Helper()
	states := map[string]string{}
	shop.Query(d.t, d.rig.Dependencies.OrderDSN, "SELECT order_sn, state FROM orders WHERE activity_id = ?", func(rows *sql.Rows) {
		var sn, state string
		require.NoError(d.t, rows.Scan(&sn, &state))
		states[sn] = state
	}, d.sale.ActivityID)
	return states
}

// ledger returns the state of each row of the sale by order_sn.
func (d *drill) ledger() map[string]string {
	d.t.Helper()
	states := map[string]string{}
	shop.Query(d.t, d.rig.Dependencies.InventoryDSN, "SELECT order_sn, state FROM reservations WHERE activity_id = ?",
		func(rows *sql.Rows) {
			var sn, state string
			require.NoError(d.t, rows.Scan(&sn, &state))
			require.NotContains(d.t, states, sn, "two rows of one purchase")
			states[sn] = state
		}, d.sale.ActivityID)
	return states
}

// withoutOrder returns the number of rows that hold a unit and have no order.
func (d *drill) withoutOrder() (n int) {
	d.t.Helper()
	orders := d.orders()
	for sn, state := range d.ledger() {
		if (state == "reserved" || state == "sold") && orders[sn] == "" {
			n++
		}
	}
	return n
}

// unequal returns the number of rows that hold a unit and whose order is in another state, and of paid orders without
// a row. An order that its buyer cancelled after the backup may be pending without a unit until its deadline.
func (d *drill) unequal() (n int) {
	d.t.Helper()
	orders, ledger := d.orders(), d.ledger()
	for sn, state := range ledger {
		want := map[string]string{"reserved": "pending", "sold": "paid"}[state]
		if want != "" && orders[sn] != want {
			n++
		}
	}
	for sn, state := range orders {
		if state == "paid" && ledger[sn] != "sold" {
			n++
		}
	}
	return n
}

const heading = "accepted | charged | honoured | refunded | unpaid | closed | failed | sold twice | difference | recovery |"

func (d *drill) counts() string {
	return fmt.Sprintf("%8d | %7d | %8d | %8d | %6d | %6d | %6d | %10d | %10d | %7.0fs |", d.accepted,
		d.honoured+d.refunded, d.honoured, d.refunded, d.unpaid, d.closed, d.failed, d.twice, d.difference, d.took.Seconds())
}

// check requires that the system kept its promises.
func (d *drill) check(ordersRestored bool) {
	t := d.t
	t.Helper()
	deps := d.rig.Dependencies
	orders, ledger := d.orders(), d.ledger()

	// Every charge is honoured, or refunded in full, and its buyer can read so.
	type charge struct {
		sn     string
		amount int64
	}
	charges, returned := map[string]charge{}, map[string]int64{}
	shop.Query(t, deps.OrderDSN, "SELECT payment_id, order_sn, amount FROM sandbox_charges", func(rows *sql.Rows) {
		var id string
		var c charge
		require.NoError(t, rows.Scan(&id, &c.sn, &c.amount))
		charges[id] = c
	})
	shop.Query(t, deps.OrderDSN, "SELECT refund_id, amount FROM sandbox_refunds", func(rows *sql.Rows) {
		var id string
		var amount int64
		require.NoError(t, rows.Scan(&id, &amount))
		returned[id] = amount
	})
	byOrder := map[string][]string{}
	for id, c := range charges {
		byOrder[c.sn] = append(byOrder[c.sn], id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	d.accepted = len(d.bought)
	live := map[string]int{} // by user
	for _, o := range d.bought {
		require.Equal(t, o.paid, len(byOrder[o.sn]) > 0, "order %s: what its buyer did and the provider's book", o.sn)
		result, err := o.Reservation(ctx, d.sale.ActivityID, o.sn)
		require.NoError(t, err, "order %s: its buyer can read the result", o.sn)
		state := orders[o.sn]
		switch {
		case o.paid && state == "paid":
			d.honoured++
			require.Len(t, byOrder[o.sn], 1)
			require.Zero(t, returned[byOrder[o.sn][0]], "order %s is honoured and its money was returned", o.sn)
			require.Equal(t, client.Paid, result.Status, "order %s", o.sn)
		case o.paid:
			d.refunded++
			seen, err := o.Order(ctx, o.sn)
			require.NoError(t, err, "order %s: its buyer can read that it is refunded", o.sn)
			for _, id := range byOrder[o.sn] {
				require.Equal(t, charges[id].amount, returned[id], "order %s is %s and its money was not returned", o.sn, state)
				require.Contains(t, seen.Refunds, client.Refunded{
					PaymentID: id, Amount: charges[id].amount, Currency: seen.Currency, State: "refunded",
					Reason: reasonOf(seen.Refunds, id),
				})
			}
		case state == "pending" && ledger[o.sn] == "reserved":
			d.unpaid++
			require.Equal(t, client.Created, result.Status, "order %s", o.sn)
		case result.Status == client.Failed:
			d.failed++
			require.NotEqual(t, "pending", state, "order %s", o.sn)
		default:
			d.closed++
			require.True(t, state == "closed" || ordersRestored && (state == "" || state == "pending"), "order %s is %s", o.sn, state)
			require.Contains(t, []string{"released", ""}, ledger[o.sn], "order %s holds no unit", o.sn)
			require.Equal(t, client.Closed, result.Status, "order %s", o.sn)
		}
		if s := ledger[o.sn]; s == "reserved" || s == "sold" {
			live[o.UserID]++
		}
	}

	// Nothing is sold twice.
	require.LessOrEqual(t, len(live), d.units)
	for user, n := range live {
		if n > 1 {
			d.twice++
			t.Logf("user %s holds %d units", user, n)
		}
	}
	require.Zero(t, d.twice)
	var total, available, reserved, sold int64
	shop.Query(t, deps.InventoryDSN, "SELECT total, available, reserved, sold FROM stocks WHERE activity_id = ?",
		func(rows *sql.Rows) { require.NoError(t, rows.Scan(&total, &available, &reserved, &sold)) }, d.sale.ActivityID)
	require.Equal(t, []int64{int64(d.units), int64(d.honoured), int64(len(live) - d.honoured)}, []int64{total, sold, reserved})
	require.Equal(t, total, available+reserved+sold)
	require.Zero(t, d.difference)
	require.Zero(t, d.failed, "there were units for all of them")

	// The sale goes on.
	more := d.buy(20)
	d.pay(more)
	d.sale.StockBecomes(t, available-20, reserved, sold+20, 2*time.Minute)
}

func reasonOf(refunds []client.Refunded, paymentID string) string {
	for _, r := range refunds {
		if r.PaymentID == paymentID {
			return r.Reason
		}
	}
	return ""
}

// cutAddress splits host:port.
func cutAddress(addr string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	return host, port, err == nil
}
