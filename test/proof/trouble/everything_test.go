package trouble

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// The sale of TestEverythingAtOnce.
const (
	everythingRate = 250 // places that the room admits a second, and purchases a second without Redis
	everythingEnds = 8 * time.Minute
	everythingLag  = 10 * time.Millisecond // of the replica: the room is slower once purchases wait for 50 ms
	beforeFaults   = 10 * time.Second
	brokerlessFor  = 12 * time.Second // from the kill of the broker to that of the master: messages are calls by then
	masterless     = 15 * time.Second // from there to the promotion: long after the sale has become redisless
	pausesAfter    = 2 * time.Second  // from there to the pause: before the sale uses its gate again
	brokerUp       = 30 * time.Second // from there until the broker is started
	pausedFor      = 90 * time.Second
	turnAhead      = 200 // places that are not admitted yet, whose buyers press already
	leastRedisless = 500 // buyers who must have got their paths without Redis, else the test proves little
)

// guest is a buyer in the waiting room.
type guest struct {
	purchase.Buyer
	ticket string
	place  int64
	sn     string // of the accepted purchase
	paid   bool
}

// everything is a sale with all that a sale may have.
type everything struct {
	rig      *rig.Rig
	sale     shop.Sale
	entrance *entrance
	guests   []*guest // by place, from 1 on
	work     sync.WaitGroup

	mu  sync.Mutex
	err error // of the first buyer that met a defect
}

// TestEverythingAtOnce sells a unit to each of EVERYTHING_BUYERS (20,000) buyers, with a waiting room, a proof of work,
// GATE_WAIT_REPLICAS=1 and degraded_sale. The broker is killed. Before it is back, the Redis master fails over so
// slowly that the sale becomes redisless, and the merchant pauses the sale for 90 s before the gate has what was sold
// meanwhile. Every buyer is admitted in the order of the draw and gets a unit. Every 202 becomes an order, or has a
// reason; and gate, ledger and orders hold the same.
func TestEverythingAtOnce(t *testing.T) {
	buyers := number(t, "EVERYTHING_BUYERS", 20_000)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), everythingEnds)
	defer cancel()
	redis := startReplicated(t, 1, everythingLag)
	dependencies := rig.OwnDependencies(t, 2900)
	r := rig.New(t, dependencies.Option(), rig.RedisAt(redis.at.Addr), rig.Env("GATE_WAIT_REPLICAS", "1"),
		rig.Env("PATH_RATE", "100000"))
	dependencies.Prepare(t, r)
	r.Up(t)
	e := &everything{rig: r, entrance: newEntrance()}
	r.Client.Close()
	r.Client = client.New(r.Client.Origins(), client.Options{
		Secret: rig.TokenSecret, Timeout: 10 * time.Second, Attempts: 1000, Transport: e.entrance,
	})
	t.Cleanup(r.Client.Close)
	e.sale = shop.Open(t, r, shop.Sale{
		Stock: int64(buyers), PayWithinS: 3600, PerSecond: everythingRate, RoomRate: everythingRate,
		Challenge: contract.Challenge{Kind: contract.ChallengePow, Difficulty: 1},
		// Early joining closes a minute before the start; a machine that takes fewer than 500 a second is too slow.
		StartsIn: time.Duration(buyers)*time.Second/500 + 65*time.Second,
	})
	e.join(ctx, t, buyers)
	require.NoError(t, shop.Until(ctx, e.sale.StartsAt))
	start := time.Now()
	e.takePlaces(ctx, t)
	pressing := make(chan struct{})
	go func() {
		defer close(pressing)
		e.press(ctx)
	}()

	at := func(since time.Time, after time.Duration, what string) time.Time {
		t.Helper()
		require.NoError(t, shop.Until(ctx, since.Add(after)))
		t.Logf("%6s after the start: %s; %d paths were issued", time.Since(start).Round(100*time.Millisecond), what,
			e.entrance.count())
		return time.Now()
	}
	brokerless := at(start, beforeFaults, "the broker is killed")
	dependencies.Do(t, "kill", "broker")
	killed := at(brokerless, brokerlessFor, "the Redis master is killed")
	rig.KillMaster(t, redis.master, redis.replica, redis.way)
	promoted := at(killed, masterless, "the replica is promoted")
	redis.replica.Promote(t)
	redis.at.PointTo(t, redis.replica.Addr)
	fresh := &freshReplica{server: redis.next, way: redis.between(t, redis.replica)}
	attaching := make(chan error, 1)
	go func() { attaching <- fresh.attach(ctx, promoted.Add(time.Second)) }()
	at(promoted, pausesAfter, "the sale is paused")
	require.NoError(t, e.sale.Merchant.Change(ctx, e.sale.ActivityID, "pause"))
	paused := at(start, 0, "it is")
	at(paused, brokerUp, "the broker is started")
	dependencies.Do(t, "up", "broker")
	require.NoError(t, <-attaching, "attach a fresh replica")
	resumed := at(paused, pausedFor, "the sale is resumed")
	require.NoError(t, e.sale.Merchant.Change(ctx, e.sale.ActivityID, "resume"))
	<-pressing
	e.work.Wait()
	require.NoError(t, e.err)
	at(start, 0, "all have bought")
	e.entrance.check(t, paused.Add(pauseReaches), resumed)
	e.soldRedisless(t)
	e.atRest(ctx, t)
	shop.NoDeadLetters(t, r)
	for _, p := range r.Processes() {
		shop.NoIncidents(t, p)
	}
	t.Logf("the test took %s", time.Since(began).Round(time.Second))
}

// pauseReaches bounds the time from the response to a pause until no process of seckill issues a path.
const pauseReaches = 5 * time.Second

// join lets everyone join early, and reads which number of the draw each ticket has.
func (e *everything) join(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	buyers, err := purchase.NewBuyers(ctx, e.rig.Client, n)
	require.NoError(t, err)
	e.guests = make([]*guest, len(buyers))
	began := time.Now()
	require.NoError(t, purchase.Each(ctx, 64, len(buyers), func(ctx context.Context, i int) error {
		ticket, err := buyers[i].JoinRoom(ctx, e.sale.ActivityID)
		e.guests[i] = &guest{Buyer: buyers[i], ticket: ticket}
		return err
	}))
	t.Logf("%d joined in %s", len(buyers), time.Since(began).Round(time.Second))
	require.Less(t, time.Now(), e.sale.StartsAt.Add(-time.Minute), "early joining took too long for this machine")
	require.NoError(t, shop.Until(ctx, e.sale.StartsAt.Add(-59*time.Second)))
	require.NoError(t, purchase.Each(ctx, 64, len(buyers), func(ctx context.Context, i int) error {
		g := e.guests[i]
		return shop.Poll(ctx, func() (bool, error) {
			state, err := g.RoomTicket(ctx, e.sale.ActivityID, g.ticket)
			if err != nil || state.Proof == nil {
				return false, err
			}
			g.place = state.Proof.Sequence // until takePlaces
			return true, nil
		})
	}))
}

// takePlaces gives each guest the place of the published draw, and sorts them by it.
func (e *everything) takePlaces(ctx context.Context, t *testing.T) {
	t.Helper()
	published, commitments := publishedDraw(ctx, t, e.rig.Client.Origins().Seckill, e.sale.ActivityID)
	places, err := draw.Verify(published, commitments)
	require.NoError(t, err)
	require.Len(t, places, len(e.guests))
	sorted := make([]*guest, len(e.guests))
	for _, g := range e.guests {
		g.place = places[g.place-1]
		require.Nil(t, sorted[g.place-1], "place %d was drawn twice", g.place)
		sorted[g.place-1] = g
		e.entrance.places[g.ticket] = g.place
	}
	e.guests = sorted
}

// press lets the guests press, each shortly before its turn, and returns when all have bought. As the page does, it
// reads how far the room is.
func (e *everything) press(ctx context.Context) {
	last := e.guests[len(e.guests)-1]
	admitted := int64(0)
	for _, g := range e.guests {
		for g.place > admitted+turnAhead {
			if shop.Until(ctx, time.Now().Add(200*time.Millisecond)) != nil {
				return
			}
			switch state, err := last.RoomTicket(ctx, e.sale.ActivityID, last.ticket); {
			case err != nil:
			case state.State == "waiting":
				if n := last.place - 1 - state.Ahead; n < admitted {
					e.fail(fmt.Errorf("%d places were admitted, and then %d", admitted, n))
				} else {
					admitted = n
				}
			case state.State != "early":
				admitted = last.place
			}
		}
		e.work.Go(func() { e.buy(ctx, g) })
	}
}

// buy repeats a purchase that is refused for now: the sale is paused, its units are held back while it is redisless,
// the path has expired meanwhile, or the answer to a challenge, which the client sends once, got no response.
func (e *everything) buy(ctx context.Context, g *guest) {
	for {
		a := purchase.BuyWith(ctx, g.Caller, g.UserID, e.sale.ActivityID, g.ticket, e.sale.Lines())
		switch a.Outcome {
		case purchase.Accepted:
			g.sn = a.OrderSN
			if g.place%payingPart == 0 {
				e.pay(ctx, g)
			}
			return
		case purchase.SoldOut, purchase.NoResponse, purchase.Outcome(contract.CodeActivityPaused),
			purchase.Outcome(contract.CodePathExpired), purchase.Outcome(contract.CodeGateUnavailable),
			purchase.Outcome(contract.CodeUnavailable):
		default:
			e.fail(fmt.Errorf("buyer %s of place %d: %s: %w", g.UserID, g.place, a.Outcome, a.Err))
			return
		}
		if shop.Until(ctx, time.Now().Add(time.Second+rand.N(time.Second))) != nil {
			e.fail(fmt.Errorf("buyer %s of place %d bought nothing: %w", g.UserID, g.place, a.Err))
			return
		}
	}
}

// pay pays once the order exists.
func (e *everything) pay(ctx context.Context, g *guest) {
	_, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
		return g.Reservation(ctx, e.sale.ActivityID, g.sn)
	}, func(v client.Reservation) bool { return v.Status != client.Queued })
	if err == nil {
		err = purchase.Pay(ctx, g.Caller, g.sn)
	}
	if g.paid = err == nil; !g.paid {
		e.fail(fmt.Errorf("paying for order %s: %w", g.sn, err))
	}
}

func (e *everything) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

// soldRedisless requires that enough buyers got their paths without Redis: their numbers have a worker id of inventory.
func (e *everything) soldRedisless(t *testing.T) {
	t.Helper()
	n := 0
	for _, g := range e.guests {
		sn, err := ordersn.Parse(g.sn)
		require.NoError(t, err)
		if sn.Worker >= ordersn.RedisWorkers {
			n++
		}
	}
	t.Logf("%d buyers got their paths without Redis", n)
	require.GreaterOrEqual(t, n, leastRedisless)
}

// states returns a text by order_sn of the rows of the sale.
func states(t *testing.T, dsn, query, activityID string) map[string]string {
	t.Helper()
	all := map[string]string{}
	shop.Query(t, dsn, query, func(rows *sql.Rows) {
		var sn, state string
		require.NoError(t, rows.Scan(&sn, &state))
		all[sn] = state
	}, activityID)
	return all
}

// atRest waits until gate, ledger and orders agree, and requires that they hold each accepted purchase and no other.
func (e *everything) atRest(ctx context.Context, t *testing.T) {
	t.Helper()
	in, of := e.rig.Dependencies.InventoryDSN, e.rig.Dependencies.OrderDSN
	accepted, paid := int64(len(e.guests)), int64(0)
	for _, g := range e.guests {
		if g.paid {
			paid++
		}
	}
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		orders := e.sale.CountOrders(t, e.rig)
		failed := shop.Count(t, in, "SELECT COUNT(*) FROM reservations WHERE state = 'rejected'")
		return orders+failed >= accepted, fmt.Errorf("%d orders and %d rejected purchases", orders, failed)
	}))
	id := e.sale.ActivityID
	rows := states(t, in, "SELECT order_sn, state FROM reservations WHERE activity_id = ?", id)
	const rejections = "SELECT order_sn, reason FROM reservations WHERE state = 'rejected' AND activity_id = ?"
	reasons := states(t, in, rejections, id)
	rejected := int64(len(reasons))
	e.sale.StockBecomes(t, e.sale.Stock-accepted+rejected, accepted-rejected-paid, paid, time.Minute)
	orders := states(t, of, "SELECT order_sn, state FROM orders WHERE tombstone = 0 AND activity_id = ?", id)
	entries := e.sale.GateEntries(ctx, t, e.rig.Redis(t))
	for _, g := range e.guests {
		want := [3]string{"reserved", "pending", string(stockgate.StatusCreated)}
		if g.paid {
			want = [3]string{"sold", "paid", string(stockgate.StatusPaid)}
		}
		if reason, is := reasons[g.sn]; is {
			require.NotEmpty(t, reason, "purchase %s has neither an order nor a reason", g.sn)
			want = [3]string{"rejected", "", string(stockgate.StatusFailed)}
		}
		require.Equal(t, want, [3]string{rows[g.sn], orders[g.sn], string(entries[g.sn].Status)},
			"purchase %s in ledger, orders and gate", g.sn)
	}
	require.Len(t, rows, len(e.guests), "the ledger has no further purchase")
	require.Len(t, orders, len(e.guests)-len(reasons), "there is no further order")
	require.Len(t, entries, len(e.guests), "the gate has no further purchase")
	t.Logf("%d purchases: %d orders, %d paid, %d rejected", len(e.guests), len(orders), paid, rejected)
}
