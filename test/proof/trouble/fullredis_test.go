package trouble

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// The sale whose Redis becomes full.
const (
	fullMemory    = 64 << 20 // bytes
	fullMargin    = 8 << 20  // what Redis uses beyond that; a hash that shrinks frees 2 MiB at once
	fullChunk     = 64 << 10
	fullStock     = 1_000_000
	fullPayWithin = 2 * time.Minute
	fullPayers    = 16               // at a time
	fullPayEach   = 50               // one of so many accepted purchases is paid
	fullDrains    = 20 * time.Minute // bounds the time from the start of the broker until every purchase has ended
	fullCallers   = 1024             // purchases in flight
)

// TestFullRedis stops the broker while buyers purchase, until a Redis with maxmemory 64mb has no room for more. Then
// the broker returns, and Redis is kept at its limit by other data. Every accepted purchase lands and is paid or closed,
// and the units of closed ones are released.
//
// FULL_REDIS_OUTAGE (1m) is the time for which the broker is down, FULL_REDIS_RATE (2000) the number of purchases a
// second.
func TestFullRedis(t *testing.T) {
	outage := time.Minute
	if text := os.Getenv("FULL_REDIS_OUTAGE"); text != "" {
		var err error
		outage, err = time.ParseDuration(text)
		require.NoError(t, err, "FULL_REDIS_OUTAGE")
	}
	rate := number(t, "FULL_REDIS_RATE", 2000)
	dependencies := rig.OwnDependencies(t, 7500)
	r := rig.New(t, dependencies.Option(), rig.Env("PATH_RATE", "100000"), rig.Env("BROKERLESS_AFTER", "0"))
	dependencies.Prepare(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), outage+fullDrains+2*time.Minute)
	defer cancel()
	f := &full{rig: r, rdb: r.Redis(t), outcomes: map[string]int{}, accepted: map[string]*fullBid{}}
	require.NoError(t, f.rdb.ConfigSet(ctx, "maxmemory", strconv.Itoa(fullMemory)).Err())
	startAll(t, r)
	f.once = client.New(r.Client.Origins(),
		client.Options{Secret: rig.TokenSecret, Timeout: 10 * time.Second, Attempts: 1, Connections: fullCallers})
	f.patient = client.New(r.Client.Origins(),
		client.Options{Secret: rig.TokenSecret, Timeout: 10 * time.Second, Attempts: 100, Connections: fullCallers})
	t.Cleanup(f.once.Close)
	t.Cleanup(f.patient.Close)
	f.sale = shop.Open(t, r, shop.Sale{Stock: fullStock, PayWithinS: int64(fullPayWithin / time.Second)})
	measured := f.measure(ctx)

	dependencies.Do(t, "kill", "broker")
	began := time.Now()
	f.offer(ctx, rate, outage)
	offered := time.Since(began)
	peak := f.memory(t)
	f.report(t, offered, rate)
	t.Logf("Redis used %.1f of 64 MiB at the most when the broker started", float64(peak)/(1<<20))

	filled := f.fill(ctx, t)
	starting := time.Now()
	dependencies.Do(t, "up", "broker")
	f.back = time.Now()
	t.Logf("the broker was usable %s after its start", f.back.Sub(starting).Round(time.Millisecond))
	require.NoError(t, f.repeatUnknown(ctx), "read purchases without an answer")
	require.GreaterOrEqual(t, len(f.accepted), int(min(30_000, float64(rate)*outage.Seconds()/2)), "accepted purchases")
	var paying sync.WaitGroup
	paying.Go(func() { f.payErr = f.pay(ctx) })
	f.lands(ctx, t)
	paying.Wait()
	require.NoError(t, f.payErr)
	f.ends(ctx, t)
	least := filled()
	most := measured()
	t.Logf("from the start of the broker until every purchase had ended, Redis used at least %.1f MiB of 64, at most %.1f",
		float64(least)/(1<<20), float64(most)/(1<<20))
	assert.Greater(t, least, int64(fullMemory), "Redis was full when units were released")
	f.check(t)
	shop.NoDeadLetters(t, r)
}

// fullBid is an accepted purchase, or one without an answer.
type fullBid struct {
	userID, path string
	paid         bool
}

// full is the sale and its buyers.
type full struct {
	rig           *rig.Rig
	sale          shop.Sale
	rdb           redis.UniversalClient
	once, patient *client.Client
	back          time.Time // when the broker was usable again
	payErr        error

	mu       sync.Mutex
	outcomes map[string]int      // of purchases, by response
	accepted map[string]*fullBid // by order_sn
	order    []string            // of the keys of accepted
	unknown  map[string]*fullBid // without an answer that decides
}

// offer makes purchases of one unit at a steady rate. Each buyer makes one attempt.
func (f *full) offer(ctx context.Context, rate int, lasts time.Duration) {
	began := time.Now()
	slots := make(chan struct{}, fullCallers)
	var buyers sync.WaitGroup
	f.unknown = map[string]*fullBid{}
	for i := range int(lasts.Seconds() * float64(rate)) {
		if shop.Until(ctx, began.Add(time.Duration(i)*time.Second/time.Duration(rate))) != nil || time.Since(began) > lasts {
			break
		}
		slots <- struct{}{}
		buyers.Go(func() {
			defer func() { <-slots }()
			f.buy(ctx, "f"+strconv.Itoa(i))
		})
	}
	buyers.Wait()
}

func (f *full) buy(ctx context.Context, userID string) {
	count := func(outcome string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.outcomes[outcome]++
	}
	token, err := f.once.Token(ctx, userID)
	if err != nil {
		count(err.Error())
		return
	}
	buyer := f.once.As(token)
	// The limits share the full Redis: a path may be refused for a moment, and only purchases are counted here.
	path, err := f.patient.As(token).NewPath(ctx, f.sale.ActivityID)
	if err != nil {
		count("path: " + response{err: err}.String())
		return
	}
	_, err = buyer.Reserve(ctx, f.sale.ActivityID, path.Path, f.sale.Lines())
	b := &fullBid{userID: userID, path: path.Path}
	count(response{err: err}.String())
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.accepted[path.OrderSN] = b
		f.order = append(f.order, path.OrderSN)
	case client.CodeOf(err) != contract.CodeJournalFull:
		f.unknown[path.OrderSN] = b
	}
}

// repeatUnknown reads the results of purchases whose response did not decide.
func (f *full) repeatUnknown(ctx context.Context) error {
	sns := slices.Collect(maps.Keys(f.unknown))
	return purchase.Each(ctx, fullPayers, len(sns), func(ctx context.Context, i int) error {
		b := f.unknown[sns[i]]
		token, err := f.patient.Token(ctx, b.userID)
		if err != nil {
			return err
		}
		_, err = f.patient.As(token).Reservation(ctx, f.sale.ActivityID, sns[i])
		if client.CodeOf(err) == contract.CodeNotFound {
			return nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.accepted[sns[i]] = b
		return err
	})
}

func (f *full) report(t *testing.T, took time.Duration, rate int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := 0
	var lines []string
	for outcome, n := range f.outcomes {
		all += n
		lines = append(lines, fmt.Sprintf("%8d %s", n, outcome))
	}
	slices.Sort(lines)
	t.Logf("%d purchases in %s, %.0f/s (%d/s offered):\n%s", all, took.Round(time.Second), float64(all)/took.Seconds(), rate,
		strings.Join(lines, "\n"))
}

// memory returns the bytes that Redis uses.
func (f *full) memory(t *testing.T) int64 {
	t.Helper()
	used, err := usedMemory(t.Context(), f.rdb)
	require.NoError(t, err)
	return used
}

func usedMemory(ctx context.Context, rdb redis.UniversalClient) (int64, error) {
	text, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, errors.New("no used_memory")
}

// measure reads the memory five times a second. The returned func ends that and returns the most.
func (f *full) measure(ctx context.Context) (most func() int64) {
	ctx, end := context.WithCancel(ctx)
	found := make(chan int64, 1)
	go func() {
		var most int64
		for shop.Until(ctx, time.Now().Add(200*time.Millisecond)) == nil {
			if used, err := usedMemory(ctx, f.rdb); err == nil {
				most = max(most, used)
			}
		}
		found <- most
	}()
	return func() int64 {
		end()
		return <-found
	}
}

// fill writes other data, so that Redis uses fullMargin more than it may, and again whenever memory is freed. It returns
// after the first time. The returned func ends that and returns the least memory used meanwhile.
func (f *full) fill(ctx context.Context, t *testing.T) (least func() int64) {
	t.Helper()
	ctx, end := context.WithCancel(ctx)
	n := 0
	fill := func() (used int64, err error) {
		used, err = usedMemory(ctx, f.rdb)
		for missing := fullMemory + fullMargin - used; err == nil && missing > 0; missing -= fullChunk {
			n++
			err = beyondLimit.Run(ctx, f.rdb, []string{"other:" + strconv.Itoa(n)}, min(missing, fullChunk)).Err()
		}
		return used, err
	}
	_, err := fill()
	require.NoError(t, err)
	first, err := usedMemory(ctx, f.rdb)
	require.NoError(t, err)
	found := make(chan int64, 1)
	go func() {
		least := first
		for shop.Until(ctx, time.Now().Add(10*time.Millisecond)) == nil {
			if used, _ := fill(); used > 0 { // 0 if it could not be read
				least = min(least, used)
			}
		}
		found <- least
	}()
	return func() int64 {
		end()
		return <-found
	}
}

// beyondLimit writes a string of ARGV[1] bytes although Redis is full.
var beyondLimit = redis.NewScript("#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], string.rep('x', tonumber(ARGV[1])))")

// pay pays one of fullPayEach accepted purchases, in the order of their acceptance.
func (f *full) pay(ctx context.Context) error {
	n := (len(f.order) + fullPayEach - 1) / fullPayEach
	return purchase.Each(ctx, fullPayers, n, func(ctx context.Context, i int) error {
		sn := f.order[i*fullPayEach]
		b := f.accepted[sn]
		token, err := f.patient.Token(ctx, b.userID)
		if err != nil {
			return err
		}
		buyer := f.patient.As(token)
		if _, err = purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return buyer.Reservation(ctx, f.sale.ActivityID, sn)
		}, func(v client.Reservation) bool { return v.Status == client.Created }); err != nil {
			return fmt.Errorf("order %s: %w", sn, err)
		}
		err = purchase.Pay(ctx, buyer, sn)
		if client.CodeOf(err) == contract.CodeOrderNotPayable { // this machine was slower than the pay window
			return nil
		}
		if err != nil {
			return fmt.Errorf("paying for order %s: %w", sn, err)
		}
		b.paid = true
		return nil
	})
}

// lands waits until every accepted purchase is in the ledger and has its order, and the gate has that.
func (f *full) lands(ctx context.Context, t *testing.T) {
	t.Helper()
	gate := stockgate.New(f.rdb, stockgate.Options{})
	var inLedger time.Duration
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		rows := shop.Count(t, f.rig.Dependencies.InventoryDSN, "SELECT COUNT(*) FROM reservations WHERE activity_id = "+f.sale.ActivityID)
		if inLedger == 0 && rows >= int64(len(f.accepted)) {
			inLedger = time.Since(f.back)
		}
		unlanded, err := gate.Unlanded(ctx, f.sale.ActivityID, time.Time{}, time.Now().Add(time.Hour), 1)
		if err != nil || len(unlanded) > 0 {
			return false, errors.Join(err, fmt.Errorf("%d of %d in the ledger, some queued in the gate", rows, len(f.accepted)))
		}
		without := shop.Count(t, f.rig.Dependencies.InventoryDSN,
			"SELECT COUNT(*) FROM reservations WHERE activity_id = "+f.sale.ActivityID+" AND order_created_at IS NULL")
		return without == 0 && inLedger > 0, fmt.Errorf("%d have no order", without)
	}))
	t.Logf("drained: all %d accepted purchases were in the ledger %s after the broker was usable, and had their orders after %s",
		len(f.accepted), inLedger.Round(100*time.Millisecond), time.Since(f.back).Round(100*time.Millisecond))
}

// ends waits until every purchase is paid or closed, and all units of closed ones are on sale.
func (f *full) ends(ctx context.Context, t *testing.T) {
	t.Helper()
	var paid int64
	for _, b := range f.accepted {
		if b.paid {
			paid++
		}
	}
	left, _ := ctx.Deadline()
	f.sale.StockBecomes(t, fullStock-paid, 0, paid, time.Until(left))
	t.Logf("%d paid, %d closed and their units on sale again %s after the broker was usable", paid, int64(len(f.accepted))-paid,
		time.Since(f.back).Round(100*time.Millisecond))
}

// check compares ledger, orders and gate, one by one.
func (f *full) check(t *testing.T) {
	t.Helper()
	ledger, orders := rowsOf(t, f.rig, f.sale)
	held := f.sale.GateEntries(t.Context(), t, f.rdb)
	require.Len(t, ledger, len(f.accepted), "accepted is landed")
	require.Len(t, orders, len(f.accepted))
	require.Len(t, held, len(f.accepted))
	for sn, b := range f.accepted {
		row, order, status := "released", "closed", stockgate.StatusClosed
		if b.paid {
			row, order, status = "sold", "paid", stockgate.StatusPaid
		}
		require.Equal(t, ownedState{b.userID, row}, ledger[sn], "ledger row %s", sn)
		require.Equal(t, ownedState{b.userID, order}, orders[sn], "order %s", sn)
		require.Equal(t, b.userID, held[sn].UserID, "entry %s of the gate", sn)
		require.Equal(t, status, held[sn].Status, "entry %s of the gate", sn)
	}
	t.Logf("accepted %d, in the ledger %d, orders %d, entries of the gate %d", len(f.accepted), len(ledger), len(orders), len(held))
}
