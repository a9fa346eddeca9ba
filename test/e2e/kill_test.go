package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/e2e/rig"
	"flashsale.internal/tools/client"
	"flashsale.internal/tools/crowd"
	"flashsale.internal/tools/purchase"
)

// How a sale under kills is set up. Buyers come all the time, so that at any moment some buy, some pay, some run out and
// some buy what came back.
const (
	killPieces    = 700
	killPayWithin = 20 * time.Second
	killArrivals  = 25 // buyers a second
	killBuyersMin = 1000
	killBuyersMax = 6000
)

// repairSoon shortens the pauses after which the services repeat what got lost on the way.
func repairSoon() []rig.Option {
	return []rig.Option{
		rig.Env("INVENTORY_REPUBLISH_AFTER", "5s"), rig.Env("INVENTORY_REJOURNAL_AFTER", "5s"),
		rig.Env("INVENTORY_SWEEP_EVERY", "1s"), rig.Env("JOURNAL_CLAIM_AFTER", "2s"),
		rig.Env("ORDER_SWEEP_AFTER", "5s"), rig.Env("ORDER_SWEEP_EVERY", "1s"),
	}
}

// victim is what is killed, and how it comes back.
type victim struct {
	name        string
	kill, start func(t testing.TB)
}

// Each service is killed twice while buyers buy, pay, and let their orders run out.
func TestKilledServices(t *testing.T) {
	r := rig.Start(t, repairSoon()...)
	var victims []victim
	for _, p := range r.Processes() {
		victims = append(victims, victim{name: p.Name, kill: p.Kill, start: func(t testing.TB) {
			p.Start(t)
			p.WaitStatus(t, p.Admin+"/livez", http.StatusOK, 30*time.Second)
		}})
	}
	sellUnderKills(t, r, append(victims, victims...))
}

// Each of the real parts is killed once.
func TestKilledParts(t *testing.T) {
	parts := rig.OwnParts(t, 3500)
	r := rig.New(t, append(repairSoon(), parts.Option())...)
	parts.Do(t, "up")
	parts.MakeDatabases(t)
	r.PrepareBroker(t)
	r.Migrate(t)
	for _, p := range r.Processes() {
		p.Start(t)
	}
	for _, p := range r.Processes() {
		p.WaitReady(t)
	}
	r.Seckill.WaitStatus(t, r.Seckill.URL+"/v1/activities", http.StatusOK, 30*time.Second)
	var victims []victim
	for _, name := range []string{"redis", "mariadb", "namesrv", "broker"} {
		victims = append(victims, victim{
			name:  name,
			kill:  func(t testing.TB) { parts.Do(t, "kill", name) },
			start: func(t testing.TB) { parts.Do(t, "up", name) },
		})
	}
	sellUnderKills(t, r, victims)
}

// sellUnderKills runs a sale, kills one victim after the other at random moments, and then takes stock: nothing that was
// accepted is lost or doubled, nothing is sold twice, everything unpaid came back and can be bought.
func sellUnderKills(t *testing.T, r *rig.Rig, victims []victim) {
	t.Helper()
	seed := killSeed(t)
	t.Logf("seed %d (KILL_SEED repeats it)", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	rnd.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })

	// Buyers do not give up, so whatever they are refused for good is a defect.
	r.Client = client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: 5 * time.Second, Attempts: 100})
	t.Cleanup(r.Client.Close)
	sale := openSale(t, r, Sale{Stock: killPieces, PayWithinS: int64(killPayWithin / time.Second)})
	canaries := openSale(t, r, Sale{Stock: 100, PayWithinS: 600})

	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	s := &shop{sale: sale, client: r.Client, pays: rand.New(rand.NewPCG(seed, 1))}
	closeDoors := s.open(ctx)
	watched := s.watch(ctx)

	for i, v := range victims {
		require.NoError(t, until(ctx, time.Now().Add(between(rnd, 2*time.Second, 5*time.Second))))
		killed := time.Now()
		v.kill(t)
		require.NoError(t, until(ctx, time.Now().Add(between(rnd, time.Second, 3*time.Second))))
		started := time.Now()
		v.start(t)
		back := time.Now()
		buyOneToTheEnd(t, r, canaries, fmt.Sprintf("canary-%d-%d", seed, i))
		served := time.Now()
		waiting := -1
		require.Eventually(t, func() bool {
			waiting = s.notLanded(back)
			return waiting == 0
		}, 90*time.Second, 50*time.Millisecond, "%s: purchases accepted before it was back are still queued", v.name)
		t.Logf("%-9s killed, away %s, usable %s later; %d purchases accepted meanwhile; a new one was bought and paid %s after that, and all accepted before were orders after %s",
			v.name, started.Sub(killed).Round(time.Millisecond), back.Sub(started).Round(time.Millisecond), s.acceptedIn(killed, back),
			served.Sub(back).Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	}
	require.NoError(t, closeDoors(), "what a buyer was told")
	require.NoError(t, watched(), "what the stock view showed")
	s.settle(t, r)
	canaries.stockBecomes(t, 100-int64(len(victims)), 0, int64(len(victims)), 30*time.Second)
	letters, err := operator(t, r).DeadLetters(ctx)
	require.NoError(t, err)
	require.Empty(t, letters, "no outage makes a dead letter")
	for _, p := range r.Processes() {
		noAlarms(t, p)
	}
}

// noAlarms demands that an outage calls nobody: incidents, alarms, panics and answers 500 are errors in the log, and all
// else is at most a warning.
func noAlarms(t *testing.T, p *rig.Process) {
	t.Helper()
	for line := range strings.Lines(p.Log(t)) {
		var entry struct {
			Level string `json:"level"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), "%s logged: %s", p.Name, line)
		require.NotEqual(t, "ERROR", entry.Level, "%s logged: %s", p.Name, line)
	}
}

func killSeed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("KILL_SEED")
	if text == "" {
		return rand.Uint64N(1_000_000)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "KILL_SEED")
	return seed
}

func between(rnd *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rnd.Int64N(int64(most-least)))
}

// bought is one accepted purchase.
type bought struct {
	userID, orderSN string
	pays            bool
	accepted        time.Time
	landed          time.Time // when it was first told as more than queued
	told            client.Status
	paidFor         bool // the provider reported the payment and was heard
	order           client.Order
}

// shop is a sale that buyers keep coming to.
type shop struct {
	sale   Sale
	client *client.Client
	pays   *rand.Rand // used by the doorman only

	mu      sync.Mutex
	came    int
	soldOut int
	bought  []*bought
}

// open lets buyers in at a steady rate. The returned func lets no more in, once enough have come, and waits until the last of them knows how his
// purchase ended.
func (s *shop) open(ctx context.Context) (closeDoors func() error) {
	doors, shut := context.WithCancel(ctx)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		tick := time.NewTicker(time.Second / killArrivals)
		defer tick.Stop()
		prefix := "k" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-"
		for n := range killBuyersMax {
			closing := doors.Done()
			if n < killBuyersMin {
				closing = nil
			}
			select {
			case <-closing:
				return nil
			case <-inner.Done():
				return inner.Err()
			case <-tick.C:
			}
			pays := s.pays.IntN(2) == 0
			group.Go(func() error {
				userID := prefix + strconv.Itoa(n)
				if err := s.buy(inner, userID, pays); err != nil {
					return fmt.Errorf("buyer %s: %w", userID, err)
				}
				return nil
			})
		}
		return errors.New("more buyers than expected: the kills take too long")
	})
	return func() error {
		shut()
		return group.Wait()
	}
}

// buy is one buyer from the button to the end.
func (s *shop) buy(ctx context.Context, userID string, pays bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	token, err := s.client.Token(ctx, userID)
	if err != nil {
		return err
	}
	caller := s.client.As(token)
	a := purchase.Buy(ctx, caller, userID, s.sale.ActivityID, s.sale.lines())
	b := s.answered(a, pays)
	switch {
	case a.Outcome == purchase.SoldOut:
		return nil
	case b == nil:
		return fmt.Errorf("%s: %w", a.Outcome, a.Err)
	}
	var turned error
	told := func(done func(client.Reservation) bool) (client.Reservation, error) {
		v, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			v, err := caller.Reservation(ctx, s.sale.ActivityID, b.orderSN)
			if err == nil {
				turned = errors.Join(turned, s.hears(b, v.Status))
			}
			return v, err
		}, func(v client.Reservation) bool { return turned != nil || done(v) })
		return v, errors.Join(turned, err)
	}
	v, err := told(func(v client.Reservation) bool { return v.Status != client.Queued })
	if err != nil {
		return fmt.Errorf("order %s never came: %w", b.orderSN, err)
	}
	if pays {
		err := purchase.Pay(ctx, caller, b.orderSN)
		b.paidFor = err == nil
		// An outage may have eaten the pay window.
		if err != nil && client.CodeOf(err) != contract.CodeOrderNotPayable {
			return fmt.Errorf("paying for order %s: %w", b.orderSN, err)
		}
	} else if err := until(ctx, v.ExpiresAt); err != nil {
		return err
	}
	if _, err := told(func(v client.Reservation) bool { return v.Status == client.Paid || v.Status == client.Closed }); err != nil {
		return fmt.Errorf("order %s was never paid or closed: %w", b.orderSN, err)
	}
	b.order, err = caller.Order(ctx, b.orderSN)
	return err
}

func (s *shop) answered(a purchase.Attempt, pays bool) *bought {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came++
	switch a.Outcome {
	case purchase.SoldOut:
		s.soldOut++
	case purchase.Accepted:
		b := &bought{userID: a.UserID, orderSN: a.OrderSN, pays: pays, accepted: time.Now(), told: client.Queued}
		s.bought = append(s.bought, b)
		return b
	}
	return nil
}

// hears notes what a buyer is told. States only rise, and an end is an end.
func (s *shop) hears(b *bought, status client.Status) error {
	rank := map[client.Status]int{client.Queued: 1, client.Created: 2, client.Paid: 3, client.Closed: 3}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := b.told
	b.told = status
	if status != client.Queued && b.landed.IsZero() {
		b.landed = time.Now()
	}
	if status != was && rank[status] <= rank[was] {
		return fmt.Errorf("order %s was told as %s and then as %s", b.orderSN, was, status)
	}
	return nil
}

// notLanded counts the purchases that were accepted before that moment and whose buyer has not heard of an order yet.
func (s *shop) notLanded(before time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.bought {
		if b.accepted.Before(before) && b.landed.IsZero() {
			n++
		}
	}
	return n
}

func (s *shop) acceptedIn(from, to time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.bought {
		if !b.accepted.Before(from) && b.accepted.Before(to) {
			n++
		}
	}
	return n
}

// watch looks at the stock all the time. The returned func ends that and tells what was wrong.
func (s *shop) watch(ctx context.Context) (end func() error) {
	ctx, stop := context.WithCancel(ctx)
	wrong := make(chan error, 1)
	go func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			view, err := s.sale.Merchant.Stock(ctx, s.sale.ActivityID)
			if err == nil {
				err = plausible(view)
				if err != nil {
					wrong <- err
					return
				}
			}
			select {
			case <-ctx.Done():
				wrong <- nil
				return
			case <-tick.C:
			}
		}
	}()
	return func() error {
		stop()
		return <-wrong
	}
}

func plausible(view client.Stock) error {
	for _, sku := range view.SKUs {
		m := sku.MySQL
		if sku.Total != killPieces || m.Available < 0 || m.Reserved+m.Sold > sku.Total || m.Available+m.Reserved+m.Sold != sku.Total {
			return fmt.Errorf("the ledger does not add up: %s", sku)
		}
		// Nothing that Redis answered is lost by a kill, so no adoption takes what is not there.
		if sku.Gate.Left < 0 || sku.Gate.Left > sku.Total {
			return fmt.Errorf("the gate gives out what is not there: %s", sku)
		}
	}
	return nil
}

// settle takes stock when the last purchase has ended.
func (s *shop) settle(t *testing.T, r *rig.Rig) {
	t.Helper()
	var paid, closed, lapsed, refunded int64
	var latest time.Duration
	accepted, users := map[string]*bought{}, map[string]bool{}
	for _, b := range s.bought {
		require.Nil(t, accepted[b.orderSN], "order_sn %s was given twice", b.orderSN)
		require.False(t, users[b.userID], "buyer %s has two orders", b.userID)
		accepted[b.orderSN], users[b.userID] = b, true
		require.Equal(t, b.userID, b.order.UserID)
		switch b.order.State {
		case "paid":
			paid++
			require.True(t, b.pays, "order %s is paid and nobody paid it", b.orderSN)
		case "closed":
			closed++
			require.Equal(t, "expired", b.order.CloseReason)
			late := b.order.ClosedAt.Sub(b.order.ExpiresAt)
			require.GreaterOrEqual(t, late, time.Duration(0), "order %s was closed early", b.orderSN)
			latest = max(latest, late)
			if b.pays {
				lapsed++
			}
			if b.paidFor {
				refunded++
			}
		default:
			t.Errorf("order %s is %s", b.orderSN, b.order.State)
		}
	}
	t.Logf("%d buyers: %d accepted, %d sold out; %d paid, %d closed (the latest %s after its deadline; %d wanted to pay and came too late, %d of them with money to get back)",
		s.came, len(s.bought), s.soldOut, paid, closed, latest.Round(time.Millisecond), lapsed, refunded)
	require.Greater(t, len(s.bought), killPieces/2, "too little was bought to prove anything")
	require.Equal(t, s.came, len(s.bought)+s.soldOut)

	s.sale.stockBecomes(t, killPieces-paid, 0, paid, 60*time.Second)
	s.ledgerIs(t, map[string]int64{"sold": paid, "released": closed}, accepted)
	orderRows(t, r.Parts.OrderDSN, s.sale.ActivityID, accepted)
	require.Equal(t, refunded, refundRows(t, r.Parts.OrderDSN), "money that paid for nothing goes back")

	// What came back is bought by others, to the last piece.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left := killPieces - paid
	buyers, err := crowd.Gather(ctx, r.Client, int(left)+20)
	require.NoError(t, err)
	won, _, lost := s.sale.rush(t, buyers, 32)
	require.Len(t, won, int(left))
	require.Len(t, lost, 20)
	s.sale.stockBecomes(t, 0, left, paid, 60*time.Second)
}

// ledgerIs demands exactly one row for each accepted purchase, and no other.
func (s *shop) ledgerIs(t *testing.T, want map[string]int64, accepted map[string]*bought) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := s.sale.Merchant.Holdings(ctx, s.sale.ActivityID)
	require.NoError(t, err)
	states, seen := map[string]int64{"sold": 0, "released": 0}, map[string]bool{}
	for _, row := range rows {
		states[row.State]++
		require.False(t, seen[row.OrderSN], "order_sn %s is in the ledger twice", row.OrderSN)
		seen[row.OrderSN] = true
		require.NotNil(t, accepted[row.OrderSN], "order_sn %s is in the ledger and no buyer was told so", row.OrderSN)
		require.Equal(t, accepted[row.OrderSN].userID, row.UserID)
	}
	require.Equal(t, want, states)
}

// orderRows demands the same of the order service's tables.
func orderRows(t *testing.T, dsn, activityID string, accepted map[string]*bought) {
	t.Helper()
	found := 0
	for shard := range 16 {
		query(t, dsn, fmt.Sprintf("SELECT order_sn, user_id, state FROM orders_%02d WHERE activity_id = ? AND tombstone = 0", shard),
			func(rows *sql.Rows) {
				var sn, user, state string
				require.NoError(t, rows.Scan(&sn, &user, &state))
				found++
				b := accepted[sn]
				require.NotNil(t, b, "order %s belongs to no accepted purchase", sn)
				require.Equal(t, b.userID, user)
				require.Equal(t, b.order.State, state)
			}, activityID)
	}
	require.Equal(t, len(accepted), found)
}

func refundRows(t *testing.T, dsn string) int64 {
	t.Helper()
	var n int64
	query(t, dsn, "SELECT COUNT(*) FROM refunds", func(rows *sql.Rows) { require.NoError(t, rows.Scan(&n)) })
	return n
}

func query(t *testing.T, dsn, text string, each func(*sql.Rows), args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, text, args...)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		each(rows)
	}
	require.NoError(t, rows.Err())
}
