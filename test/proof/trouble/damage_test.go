package trouble

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// The sale whose gate is damaged.
const (
	damageUnits     = 200 // fewer than buyers would hold at a time, so that the sale is sold out at times
	damageArrivals  = 8   // buyers a second
	damagePayWithin = 20 * time.Second
	damageHeals     = 8 * time.Minute // bounds the wait for one repair; on a busy machine comparisons are slow and the pauses between them long
)

// TestDamagedGate damages a gate in every way while buyers purchase, pay and let their orders expire. The reconciler
// makes it agree with the ledger: no unit is sold twice, none stays unsold while a buyer is refused, and no purchase
// in flight is repaired.
func TestDamagedGate(t *testing.T) {
	seed := rand.Uint64N(1_000_000)
	if text := os.Getenv("DAMAGE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "DAMAGE_SEED")
	}
	t.Logf("seed %d (DAMAGE_SEED repeats it)", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))

	// The grace keeps its default, so that purchases in flight do not count as lost on a slow machine.
	r := rig.Start(t, rig.Env("TEST_TIMERS", "inventory.reconcile_every=2s,inventory.reconcile_pause=500ms,"+
		"inventory.reconcile_full_every=10s,inventory.rejournal_after=5s,inventory.sweep_every=1s,seckill.claim_after=2s"))
	r.Client.Close()
	r.Client = client.New(r.Client.Origins(),
		client.Options{Secret: rig.TokenSecret, Timeout: time.Minute, Attempts: 1000})
	t.Cleanup(r.Client.Close)
	sale := shop.Open(t, r, shop.Sale{Stock: damageUnits, PayWithinS: int64(damagePayWithin / time.Second)})
	d := &damaged{
		t: t, rig: r, sale: sale, rnd: rnd, rdb: r.Redis(t), activityID: sale.ActivityID, sns: map[string]bool{},
	}
	d.gate = stockgate.New(d.rdb, stockgate.Options{})

	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	buyers := &insistent{sale: sale, client: r.Client, pays: rand.New(rand.NewPCG(seed, 1)), won: map[string]string{}}
	failed, stop := buyers.start(ctx)

	// Traffic of every kind and no damage: orders are created, paid, and expire.
	require.Eventually(t, func() bool { return failed.Err() != nil || buyers.ended() >= 30 }, 3*time.Minute,
		100*time.Millisecond)
	// A comparison right after the commit of a publication may fill the gate before the publication does.
	repairs := slices.DeleteFunc(d.repairs(), func(r repaired) bool { return r.Kind == "rebuilt" })
	require.Empty(t, repairs, "repairs of an undamaged gate")
	require.LessOrEqual(t, len(d.repairs()), 1)

	damages := d.all()
	rnd.Shuffle(len(damages), func(i, j int) { damages[i], damages[j] = damages[j], damages[i] })
	for _, x := range damages {
		if failed.Err() != nil {
			break
		}
		require.NoError(t, shop.Until(ctx,
			time.Now().Add(500*time.Millisecond+time.Duration(rnd.Int64N(int64(2500*time.Millisecond))))))
		before := len(d.repairs())
		began := time.Now()
		what := x.do(ctx)
		d.heals(failed, x, before)
		t.Logf("%-28s %-40s healed after %6s, %d repairs", x.name, what, time.Since(began).Round(10*time.Millisecond),
			len(d.repairs())-before)
	}
	require.NoError(t, stop(), "error of a buyer")

	// At rest all entries and all counters agree.
	paid := shop.Count(t, r.Dependencies.InventoryDSN,
		"SELECT COUNT(*) FROM reservations WHERE state = 'sold' AND activity_id = "+sale.ActivityID)
	sale.StockBecomes(t, damageUnits-paid, 0, paid, damageHeals)
	done, err := shop.Operator(t, r).Reconcile(ctx, sale.ActivityID)
	require.NoError(t, err)
	require.Empty(t, done.Differences)
	d.whole()
	d.onlyDamagedRepaired()
	buyers.oneOrderEach(t, r)
	shop.NoDeadLetters(t, r)
	t.Logf("%d buyers: %d got an order, %d of these paid; %d purchases refused by the ledger after the gate accepted them, %d repeated after Redis lost them",
		buyers.came, len(buyers.won), paid, buyers.refused, buyers.repeated)

	// No unit is lost: the next buyers get all of them, and no more.
	d.sellsOut(ctx, damageUnits-paid, paid)
}

// sellsOut sells the units left to as many buyers, and requires that 20 more are refused.
func (d *damaged) sellsOut(ctx context.Context, left, paid int64) {
	d.t.Helper()
	buyers, err := purchase.NewBuyers(ctx, d.rig.Client, int(left)+20)
	require.NoError(d.t, err)
	won, _, lost := d.sale.BuyAll(d.t, buyers, 16)
	require.Len(d.t, won, int(left))
	require.Len(d.t, lost, 20)
	d.sale.StockBecomes(d.t, 0, left, paid, damageHeals)
}

// damaged is a gate under damage.
type damaged struct {
	t          *testing.T
	rig        *rig.Rig
	sale       shop.Sale
	rnd        *rand.Rand
	rdb        redis.UniversalClient
	gate       *stockgate.Gate
	activityID string
	sns        map[string]bool // entries that were damaged
}

// damage is one way to damage a gate, and the kind of repair that must follow.
type damage struct {
	name  string
	do    func(ctx context.Context) string
	kinds []string // one of them must follow; none if the gate recovers without the reconciler
}

func (d *damaged) key(name string) string { return "fs:{" + d.sale.ActivityID + "}:" + name }

func (d *damaged) all() []damage {
	add := func(field string, n int64) func(context.Context) string {
		return func(ctx context.Context) string {
			require.NoError(d.t, d.rdb.HIncrBy(ctx, d.key("gate"), field, n).Err())
			return fmt.Sprintf("%s by %+d", field, n)
		}
	}
	sku := d.sale.SKUID
	counters := []string{"counters"}
	del := func(name string) func(context.Context) string {
		return func(ctx context.Context) string {
			require.NoError(d.t, d.rdb.Del(ctx, d.key(name)).Err())
			return name
		}
	}
	return []damage{
		{"entries removed", func(ctx context.Context) string { return d.remove(ctx, 6, false) }, []string{"adopted", "forgotten"}},
		{"entries and buyers removed", func(ctx context.Context) string { return d.remove(ctx, 6, true) }, []string{"adopted", "forgotten"}},
		{"buyers removed", del("buyers"), []string{"buyers"}},
		{"fewer left", add("s:"+sku, -30-d.rnd.Int64N(30)), counters},
		{"more left", add("s:"+sku, 30+d.rnd.Int64N(30)), counters},
		{"held", add("h:"+sku, 1+d.rnd.Int64N(9)), counters},
		{"sold", add("p:"+sku, -1-d.rnd.Int64N(9)), counters},
		{"total", add("t:"+sku, 5), counters},
		{"unlanded", add("u:"+sku, 3), counters},
		{"held in all", add("held", -4), counters},
		{"journal deleted", del("journal"), nil},
		{"gate deleted", del("gate"), nil},
		{"Redis emptied", func(ctx context.Context) string {
			require.NoError(d.t, d.rdb.FlushDB(ctx).Err())
			return "all keys"
		}, nil},
	}
}

// remove deletes n entries that the ledger has. An entry that the ledger does not have yet is in flight, and no repair
// would restore it.
func (d *damaged) remove(ctx context.Context, n int, buyers bool) string {
	states := map[string]int{}
	for len(states) == 0 {
		entries, _, err := d.gate.Entries(ctx, d.activityID, 0, 1000)
		require.NoError(d.t, err)
		d.rnd.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		for _, e := range entries {
			if n == 0 || e.Status == stockgate.StatusQueued || e.Status == stockgate.StatusFailed {
				continue
			}
			n--
			states[string(e.Status)]++
			d.sns[e.OrderSN] = true
			require.NoError(d.t, d.rdb.HDel(ctx, d.key("held"), e.OrderSN).Err())
			if buyers {
				require.NoError(d.t, d.rdb.HDel(ctx, d.key("buyers"), e.UserID).Err())
			}
		}
	}
	return fmt.Sprint(states)
}

// repaired is a repair in the change log.
type repaired struct {
	OrderSN string `json:"order_sn"`
	Kind    string `json:"kind"`
}

// repairs returns all repairs in the order in which they were made.
func (d *damaged) repairs() []repaired {
	var all []repaired
	shop.Query(d.t, d.rig.Dependencies.InventoryDSN, "SELECT detail FROM changes WHERE action = 'activity.reconcile' AND object_id = ? ORDER BY id", func(rows *sql.Rows) {
		var text string
		require.NoError(d.t, rows.Scan(&text))
		var detail struct {
			Repairs []repaired `json:"repairs"`
		}
		require.NoError(d.t, json.Unmarshal([]byte(text), &detail))
		all = append(all, detail.Repairs...)
	}, d.sale.ActivityID)
	return all
}

// heals waits until the expected repair is made and gate and database agree.
func (d *damaged) heals(ctx context.Context, x damage, before int) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		if ctx.Err() != nil {
			return true // a buyer met a defect, which is reported later
		}
		made := len(x.kinds) == 0
		for _, r := range d.repairs()[before:] {
			for _, k := range x.kinds {
				made = made || r.Kind == k
			}
		}
		view, err := d.sale.Merchant.Stock(ctx, d.sale.ActivityID)
		return made && err == nil && view.SKUs[0].Difference == 0
	}, damageHeals, 100*time.Millisecond, "%s was not repaired", x.name)
}

// onlyDamagedRepaired requires that only damaged purchases were repaired.
func (d *damaged) onlyDamagedRepaired() {
	d.t.Helper()
	kinds := map[string]int{}
	for _, r := range d.repairs() {
		kinds[r.Kind]++
		if r.OrderSN != "" {
			require.True(d.t, d.sns[r.OrderSN], "%s was repaired (%s) and had not been damaged", r.OrderSN, r.Kind)
		}
	}
	d.t.Logf("repairs: %v", kinds)
}

// whole requires that all counters and indexes of the gate at rest follow from its entries.
func (d *damaged) whole() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	entries := map[string]stockgate.StoredEntry{}
	for cursor := uint64(0); ; {
		page, _, next, err := d.gate.Survey(ctx, d.activityID, cursor, 500)
		require.NoError(d.t, err)
		for _, e := range page {
			require.False(d.t, e.Broken || e.IndexMismatch, "%+v", e)
			entries[e.OrderSN] = e
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for cursor := uint64(0); ; {
		users, next, err := d.gate.MismatchedBuyers(ctx, d.activityID, cursor, 500)
		require.NoError(d.t, err)
		require.Empty(d.t, users)
		if cursor = next; cursor == 0 {
			break
		}
	}
	want := stockgate.Counts{Total: damageUnits, Left: damageUnits}
	for _, e := range entries {
		if e.Status == stockgate.StatusPaid {
			want.Sold++
			want.Left--
		}
	}
	audit, err := d.gate.Audit(ctx, d.activityID)
	require.NoError(d.t, err)
	require.Equal(d.t, map[string]stockgate.Counts{d.sale.SKUID: want}, audit.SKUs)
	require.Zero(d.t, audit.Held)
	rows, err := d.sale.Merchant.Ledger(ctx, d.sale.ActivityID)
	require.NoError(d.t, err)
	is := map[string]stockgate.Status{"sold": stockgate.StatusPaid, "released": stockgate.StatusClosed, "rejected": stockgate.StatusFailed}
	for _, row := range rows {
		require.Equal(d.t, is[row.State], entries[row.OrderSN].Status, "order_sn %s is %s in the ledger", row.OrderSN,
			row.State)
		require.Equal(d.t, row.UserID, entries[row.OrderSN].UserID)
	}
}

// insistent is a group of buyers who repeat a purchase with the same path if Redis has lost it.
type insistent struct {
	sale   shop.Sale
	client *client.Client
	pays   *rand.Rand // no other goroutine may use it

	mu       sync.Mutex
	came     int
	done     int
	refused  int               // accepted by the gate, refused by the ledger
	repeated int               // posted a second time
	won      map[string]string // order_sn -> user
}

func (c *insistent) ended() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// start starts buyers at a steady rate. failed ends as soon as a buyer meets an error; stop starts no more and waits
// for all.
func (c *insistent) start(ctx context.Context) (failed context.Context, stop func() error) {
	arrivals, end := context.WithCancel(ctx)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		tick := time.NewTicker(time.Second / damageArrivals)
		defer tick.Stop()
		prefix := "d" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-"
		for n := 0; ; n++ {
			select {
			case <-arrivals.Done():
				return nil
			case <-inner.Done():
				return inner.Err()
			case <-tick.C:
			}
			pays := c.pays.IntN(16) == 0 // few, so that units are released all the time
			group.Go(func() error {
				if err := c.buy(inner, prefix+strconv.Itoa(n), pays); err != nil {
					return fmt.Errorf("buyer %s%d: %w", prefix, n, err)
				}
				return nil
			})
		}
	})
	return inner, func() error {
		end()
		return group.Wait()
	}
}

// lostAfter is the time for which a purchase must be absent before its buyer repeats it.
const lostAfter = 20 * time.Second

// buy runs one buyer from the path to the end of the order.
func (c *insistent) buy(ctx context.Context, userID string, pays bool) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	c.mu.Lock()
	c.came++
	c.mu.Unlock()
	token, err := c.client.Token(ctx, userID)
	if err != nil {
		return err
	}
	caller := c.client.As(token)
	path, err := caller.NewPath(ctx, c.sale.ActivityID)
	if code := client.CodeOf(err); code == contract.CodeSoldOut {
		return nil
	}
	if err != nil {
		return err
	}
	post := func() (bool, error) {
		_, err := caller.Reserve(ctx, c.sale.ActivityID, path.Path, c.sale.Lines())
		if client.CodeOf(err) == contract.CodeSoldOut {
			return false, nil
		}
		return err == nil, err
	}
	if ok, err := post(); !ok {
		return err
	}
	rank := map[client.Status]int{client.Queued: 1, client.Created: 2, client.Paid: 3, client.Closed: 3, client.Failed: 3}
	last := client.Queued
	seen, soldOut := time.Now(), false
	var reversed error
	await := func(done func(client.Reservation) bool) (client.Reservation, error) {
		v, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			v, err := caller.Reservation(ctx, c.sale.ActivityID, path.OrderSN)
			switch {
			case err == nil:
				seen = time.Now()
				if v.Status != last && rank[v.Status] <= rank[last] {
					reversed = fmt.Errorf("order %s was returned as %s and then as %s", path.OrderSN, last, v.Status)
				}
				last = v.Status
			case last == client.Queued && client.CodeOf(err) == contract.CodeNotFound && time.Since(seen) > lostAfter:
				c.mu.Lock()
				c.repeated++
				c.mu.Unlock()
				var ok bool
				if ok, err = post(); err == nil {
					seen, soldOut = time.Now(), !ok
				}
			}
			return v, err
		}, func(v client.Reservation) bool { return reversed != nil || soldOut || done(v) })
		return v, errors.Join(reversed, err)
	}
	v, err := await(func(v client.Reservation) bool { return v.OrderSN != "" && v.Status != client.Queued })
	switch {
	case err != nil:
		return fmt.Errorf("no order %s: %w", path.OrderSN, err)
	case soldOut: // Redis lost the purchase, and another buyer bought the unit
		return nil
	case v.Status == client.Failed:
		c.mu.Lock()
		c.refused++
		c.mu.Unlock()
		if v.Reason != string(contract.CodeSoldOut) {
			return fmt.Errorf("order %s failed: %s", path.OrderSN, v.Reason)
		}
		return nil
	}
	c.mu.Lock()
	c.won[path.OrderSN] = userID
	c.mu.Unlock()
	if pays {
		if err := purchase.Pay(ctx, caller, path.OrderSN); err != nil &&
			client.CodeOf(err) != contract.CodeOrderNotPayable {
			return fmt.Errorf("paying for order %s: %w", path.OrderSN, err)
		}
	}
	if _, err := await(func(v client.Reservation) bool { return v.Status == client.Paid || v.Status == client.Closed }); err != nil {
		return fmt.Errorf("order %s was never paid or closed: %w", path.OrderSN, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	return nil
}

// oneOrderEach requires one ledger row and one order for each buyer with a created order, and no other.
func (c *insistent) oneOrderEach(t *testing.T, r *rig.Rig) {
	t.Helper()
	rows := map[string]string{}
	shop.Query(t, r.Dependencies.InventoryDSN, "SELECT order_sn, user_id, state FROM reservations WHERE activity_id = ?", func(row *sql.Rows) {
		var sn, user, state string
		require.NoError(t, row.Scan(&sn, &user, &state))
		if state != "rejected" {
			rows[sn] = user
		}
	}, c.sale.ActivityID)
	require.Equal(t, c.won, rows, "buyers with an order, and buyers in the ledger")
	require.Equal(t, int64(c.refused), shop.Count(t, r.Dependencies.InventoryDSN,
		"SELECT COUNT(*) FROM reservations WHERE state = 'rejected' AND reason = 'sold_out' AND activity_id = "+c.sale.ActivityID),
		"purchases refused as sold out after the gate had accepted them with units that did not exist")
	require.Equal(t, int64(0),
		shop.Count(t, r.Dependencies.InventoryDSN,
			"SELECT COUNT(*) FROM stocks WHERE available < 0 OR reserved <> 0 AND activity_id = "+c.sale.ActivityID))
	orders := map[string]string{}
	shop.Query(t, r.Dependencies.OrderDSN, "SELECT order_sn, user_id FROM orders WHERE activity_id = ?", func(row *sql.Rows) {
		var sn, user string
		require.NoError(t, row.Scan(&sn, &user))
		orders[sn] = user
	}, c.sale.ActivityID)
	require.Equal(t, c.won, orders, "buyers with an order, and buyers in the order tables")
}
