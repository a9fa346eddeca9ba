package trouble

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// manner is the kind of response to a call while something is down.
type manner string

const (
	served     manner = "served"      // as without a fault; a short halt of the machine may cause a few 503, which are retried
	refused    manner = "refused"     // 503 with Retry-After
	either     manner = "either"      // one of these two
	noResponse manner = "no response" // the service itself is down
)

// The kinds of calls that run all the time.
const (
	callPath     = "path"     // a buyer takes a path
	callPurchase = "purchase" // a buyer uses a path taken before the trouble
	callResult   = "result"   // a buyer reads a result
	callOrder    = "order"    // a buyer reads an order
	callPay      = "pay"      // a buyer pays an order
	callStock    = "stock"    // the merchant reads the stock
)

var calls = []string{callPath, callPurchase, callResult, callOrder, callPay, callStock}

// anyCode holds the codes of refusals that are allowed while a dependency stops or starts.
var anyCode = []contract.Code{contract.CodeGateUnavailable, contract.CodeUnavailable, contract.CodeOverloaded}

// trouble is an outage and the responses that it must cause.
type trouble struct {
	name  string
	lasts time.Duration
	// opens is the time after the begin from which every response must be as want requires.
	opens time.Duration
	want  map[string]manner // responses by call; calls that are not listed are served
	code  contract.Code     // of the refusals
	// queues requires that purchases accepted during the outage stay queued until its end.
	queues bool
	// redelivers requires that inventory returns messages to the broker during the outage.
	redelivers bool
	// atOnce bounds the median time of refusals, patience the time of every response.
	atOnce, patience time.Duration
	outage
	meanwhile func(t *testing.T, s *scene)
	resumes   time.Duration // bound of the recovery after the end; generous, for slow machines
}

// outage stops a dependency or service and restarts it; end returns when it is usable.
type outage struct{ begin, end func(t *testing.T) }

const (
	callEvery     = 250 * time.Millisecond // interval of each kind of call except
	payEvery      = 2 * time.Second
	callPatience  = 40 * time.Second // ends a call; the bound of a response is trouble.patience
	sceneOrders   = 160              // orders created before the trouble: one is paid every 2 s, in up to three troubles
	sceneBurst    = 200              // purchases made at once, when a trouble has a burst
	sceneLapsing  = 24               // orders created before the trouble whose closings come due during it
	lapseWithin   = 10 * time.Second // pay window of these
	anyWithin     = 90 * time.Second // bound of waits that are not measured
	resultsSample = 12               // purchases whose results are read
)

// response is the outcome of one call.
type response struct {
	began, ended time.Time
	err          error
}

func (a response) String() string {
	p := client.AsProblem(a.err)
	switch {
	case a.err == nil:
		return "served"
	case p == nil:
		return "no response"
	}
	return fmt.Sprintf("%d %s", p.Status, p.Code)
}

// is reports whether the response is of that manner; codes are the allowed codes of a refusal.
func (a response) is(m manner, codes []contract.Code) bool {
	p := client.AsProblem(a.err)
	switch m {
	case served:
		return a.err == nil
	case refused:
		return p != nil && p.Status == http.StatusServiceUnavailable && p.RetryAfter > 0 &&
			slices.Contains(codes, p.Code)
	case either:
		return a.is(served, codes) || a.is(refused, codes)
	case noResponse:
		return a.err != nil && p == nil
	}
	return false
}

// permit is an unused path and its buyer.
type permit struct {
	purchase.Buyer
	path client.Path
}

// scene is a sale with callers that run all the time, during a trouble.
type scene struct {
	r       *rig.Rig
	patient *client.Client // retries refused calls
	once    *client.Client // makes one attempt, so that each response is recorded
	sale    shop.Sale
	lapsing shop.Sale

	work sync.WaitGroup

	mu        sync.Mutex
	responses map[string][]response
	permits   []permit
	accepted  map[string]string // order_sn -> user
	at        map[string]time.Time
	open      []permit // paths of purchases whose outcome is unknown
	payers    []payer  // orders that are not paid yet
	holders   []payer  // orders created before the trouble, paid or not
	unpaid    []payer  // orders with a payment whose outcome is unknown
	paid      int64
	watchable []payer // orders whose results are read
	lapse     map[string]string

	back  time.Time          // end of the trouble
	after func(t *testing.T) // further checks at the end; may be nil
}

type payer struct {
	purchase.Buyer
	orderSN string
}

func newClients(t *testing.T, r *rig.Rig) (patient, once *client.Client) {
	t.Helper()
	patient = client.New(r.Client.Origins(),
		client.Options{Secret: rig.TokenSecret, Timeout: 5 * time.Second, Attempts: 100})
	once = client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: callPatience, Attempts: 1})
	t.Cleanup(patient.Close)
	t.Cleanup(once.Close)
	return patient, once
}

// newScene opens a sale, creates its first orders and takes the paths for purchases during the trouble.
func newScene(t *testing.T, r *rig.Rig, lasts time.Duration) *scene {
	t.Helper()
	s := &scene{r: r, responses: map[string][]response{}, accepted: map[string]string{}, at: map[string]time.Time{}, lapse: map[string]string{}}
	s.patient, s.once = newClients(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	room := int(2*lasts/callEvery) + 200 + sceneBurst
	s.sale = shop.Open(t, r, shop.Sale{Stock: int64(room + sceneOrders), PayWithinS: 1800})

	buyers, err := purchase.NewBuyers(ctx, s.patient, sceneOrders+room)
	require.NoError(t, err)
	s.payers = s.buy(ctx, t, s.sale, buyers[:sceneOrders])
	s.holders, s.watchable = s.payers, s.payers
	for _, p := range s.payers {
		s.accepted[p.orderSN] = p.UserID
	}
	s.permits = make([]permit, room)
	require.NoError(t, purchase.Each(ctx, 16, room, func(ctx context.Context, i int) error {
		b := buyers[sceneOrders+i]
		path, err := b.NewPath(ctx, s.sale.ActivityID)
		s.permits[i] = permit{b, path}
		return err
	}))
	return s
}

// lapses creates orders whose closings come due during the trouble.
func (s *scene) lapses(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	s.lapsing = shop.Open(t, s.r, shop.Sale{Stock: sceneLapsing, PayWithinS: int64(lapseWithin / time.Second)})
	buyers, err := purchase.NewBuyers(ctx, s.patient, sceneLapsing)
	require.NoError(t, err)
	for _, p := range s.buy(ctx, t, s.lapsing, buyers) {
		s.lapse[p.orderSN] = p.UserID
	}
}

// buy buys one unit for each buyer and waits for the orders.
func (s *scene) buy(ctx context.Context, t *testing.T, sale shop.Sale, buyers []purchase.Buyer) []payer {
	t.Helper()
	got := make([]payer, len(buyers))
	require.NoError(t, purchase.Each(ctx, 16, len(buyers), func(ctx context.Context, i int) error {
		b := buyers[i]
		a := purchase.Buy(ctx, b.Caller, b.UserID, sale.ActivityID, sale.Lines())
		if a.Outcome != purchase.Accepted {
			return fmt.Errorf("%s: %w", a.Outcome, a.Err)
		}
		got[i] = payer{b, a.OrderSN}
		_, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return b.Reservation(ctx, sale.ActivityID, a.OrderSN)
		}, func(v client.Reservation) bool { return v.Status == client.Created })
		return err
	}))
	return got
}

// keepCalling starts calls of all kinds. The returned func stops that and waits for the last responses.
func (s *scene) keepCalling() (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	for i, name := range calls {
		call := s.caller(name)
		s.work.Go(func() {
			tick := time.NewTicker(callEvery)
			defer tick.Stop()
			for n := i; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				s.work.Go(func() { // slow responses do not reduce the rate of calls
					one, cancel := context.WithTimeout(context.Background(), callPatience)
					defer cancel()
					a := response{began: time.Now()}
					a.err = call(one, n)
					a.ended = time.Now()
					if errors.Is(a.err, errNone) {
						return
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					s.responses[name] = append(s.responses[name], a)
				})
			}
		})
	}
	return func() {
		end()
		s.work.Wait()
	}
}

// errNone reports that there is no buyer for the call.
var errNone = errors.New("no buyer left for the call")

func take[T any](s *scene, from *[]T) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var one T
	if len(*from) == 0 {
		return one, errNone
	}
	one = (*from)[0]
	*from = (*from)[1:]
	return one, nil
}

// as returns a caller of that user without retries.
func (s *scene) as(ctx context.Context, userID string, roles ...auth.Role) *client.Caller {
	token, err := s.once.Token(ctx, userID, roles...)
	if err != nil { // impossible: the token is signed locally
		panic(err)
	}
	return s.once.As(token)
}

func (s *scene) caller(name string) func(ctx context.Context, n int) error {
	switch name {
	case callPath:
		const user = "takes-paths-only" // a buyer with a purchase is refused: the limit of the sale is one unit
		return func(ctx context.Context, _ int) error {
			_, err := s.as(ctx, user).NewPath(ctx, s.sale.ActivityID)
			return err
		}
	case callPurchase:
		return func(ctx context.Context, _ int) error {
			p, err := take(s, &s.permits)
			if err != nil {
				return err
			}
			r, err := s.as(ctx, p.UserID).Reserve(ctx, s.sale.ActivityID, p.path.Path, s.sale.Lines())
			s.bought(p, r, err)
			return err
		}
	case callResult:
		return func(ctx context.Context, n int) error {
			s.mu.Lock()
			p := s.watchable[n%len(s.watchable)]
			s.mu.Unlock()
			_, err := s.as(ctx, p.UserID).Reservation(ctx, s.sale.ActivityID, p.orderSN)
			return err
		}
	case callOrder:
		some := s.holders
		return func(ctx context.Context, n int) error {
			p := some[n%len(some)]
			_, err := s.as(ctx, p.UserID).Order(ctx, p.orderSN)
			return err
		}
	case callPay:
		return func(ctx context.Context, n int) error {
			if n%int(payEvery/callEvery) != 0 { // there are fewer of them
				return errNone
			}
			p, err := take(s, &s.payers)
			if err != nil {
				return err
			}
			if err = purchase.Pay(ctx, s.as(ctx, p.UserID), p.orderSN); err != nil {
				s.mu.Lock()
				s.unpaid = append(s.unpaid, p)
				s.mu.Unlock()
				return err
			}
			s.mu.Lock()
			s.paid++
			s.mu.Unlock()
			return nil
		}
	default:
		return func(ctx context.Context, _ int) error {
			_, err := s.as(ctx, "merchant-1", auth.Merchant).Stock(ctx, s.sale.ActivityID)
			return err
		}
	}
}

// bought records the outcome of a purchase. Without a response it may have been accepted, so settle repeats it.
func (s *scene) bought(p permit, r client.Reservation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.open = append(s.open, p)
		return
	}
	s.accepted[r.OrderSN], s.at[r.OrderSN] = p.UserID, time.Now()
	s.watchable = append(s.watchable, payer{p.Buyer, r.OrderSN})
}

// burst makes sceneBurst purchases at once.
func (s *scene) burst(ctx context.Context, t *testing.T) {
	t.Helper()
	require.NoError(t, purchase.Each(ctx, sceneBurst, sceneBurst, func(ctx context.Context, _ int) error {
		p, err := take(s, &s.permits)
		if err != nil {
			return err
		}
		r, err := p.Reserve(ctx, s.sale.ActivityID, p.path.Path, s.sale.Lines())
		s.bought(p, r, err)
		return err
	}))
}

// through runs the trouble, checks the responses during it and the recovery after it, and prints both.
func (tr trouble) through(t *testing.T, s *scene) {
	t.Helper()
	s.responses = map[string][]response{}
	before := s.redelivered(t)
	stop := s.keepCalling()
	stopped := sync.OnceFunc(stop)
	defer stopped()
	ctx := context.Background()

	began := time.Now()
	tr.begin(t)
	down := time.Now()
	if tr.meanwhile != nil {
		tr.meanwhile(t, s)
	}
	require.NoError(t, shop.Until(ctx, down.Add(tr.lasts)))
	if tr.queues {
		s.stillQueued(t, down.Add(tr.opens))
	}
	ending := time.Now()
	tr.end(t)
	back := time.Now()

	s.back = back
	soon, cancel := context.WithDeadline(ctx, back.Add(tr.resumes))
	defer cancel()
	recovered, err := s.recovers(soon, back)
	require.NoError(t, err)
	if tr.redelivers {
		n := s.redelivered(t) - before
		require.Positive(t, n, "messages returned to the broker")
		t.Logf("%-24s %d messages returned to the broker", tr.name, n)
	}
	// Every kind of call is served before the callers stop.
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !slices.ContainsFunc(calls, func(name string) bool {
			return tr.want[name] != "" && firstServed(s.responses[name], ending).IsZero()
		})
	}, tr.resumes, 20*time.Millisecond, "some calls are not served after the trouble")
	stopped()

	s.mu.Lock()
	opened := down.Add(tr.opens)
	for _, name := range calls {
		want := tr.want[name]
		if want == "" {
			want = served
		}
		seen := map[string]int{}
		var took []time.Duration
		for _, a := range s.responses[name] {
			// At the begin and the end, a call may be served or get 503. A killed service does not finish its
			// responses.
			fits := a.is(either, anyCode) || want == noResponse && a.is(noResponse, nil)
			if a.began.After(opened) && a.began.Before(ending) {
				if a.ended.Before(ending) && want != served {
					fits = a.is(want, []contract.Code{tr.code})
				}
				seen[a.String()]++
				took = append(took, a.ended.Sub(a.began))
			}
			assert.True(t, fits, "%s, %s: call %s after the begin: want %s, got after %s: %s: %v", tr.name, name,
				a.began.Sub(began).Round(time.Millisecond), want, a.ended.Sub(a.began).Round(time.Millisecond), a, a.err)
			assert.LessOrEqual(t, a.ended.Sub(a.began), tr.patience, "%s, %s: a response took too long", tr.name, name)
		}
		if tr.lasts-tr.opens > 4*payEvery || name != callPay {
			assert.NotEmpty(t, took, "%s, %s: no call during the trouble", tr.name, name)
		}
		slices.Sort(took)
		again := "no interruption"
		if want != served {
			again = "served again " + firstServed(s.responses[name],
				ending).Sub(back).Round(time.Millisecond).String() + " after"
		}
		if len(took) > 0 {
			p50, worst := took[len(took)/2], took[len(took)-1]
			t.Logf("%-24s %-8s %s p50 %s, worst %s; %s", tr.name, name, counted(seen),
				p50.Round(100*time.Microsecond), worst.Round(time.Millisecond), again)
			assert.True(t, want != served ||
				4*seen[response{}.String()] >= 3*len(took), "%s, %s: at least three quarters are served, got %s", tr.name, name, counted(seen))
			if want == refused && tr.atOnce > 0 {
				assert.Less(t, p50, tr.atOnce, "%s, %s: median time of refusals", tr.name, name)
			}
		}
	}
	s.mu.Unlock()
	t.Logf("%-24s down for %s, usable %s after its start; %s", tr.name, ending.Sub(began).Round(time.Millisecond),
		back.Sub(ending).Round(time.Millisecond), recovered)
}

// redelivered returns how many messages inventory has returned to the broker.
func (s *scene) redelivered(t *testing.T) int {
	t.Helper()
	return strings.Count(s.r.Inventory.Log(t), `"message not handled, will be redelivered"`)
}

// stillQueued requires that purchases accepted since then are queued.
func (s *scene) stillQueued(t *testing.T, since time.Time) {
	t.Helper()
	s.mu.Lock()
	var some []payer
	for _, p := range s.watchable {
		if s.at[p.orderSN].After(since) && len(some) < resultsSample {
			some = append(some, p)
		}
	}
	s.mu.Unlock()
	require.NotEmpty(t, some, "purchases accepted during the trouble")
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	for _, p := range some {
		r, err := p.Reservation(ctx, s.sale.ActivityID, p.orderSN)
		require.NoError(t, err)
		require.Equal(t, client.Queued, r.Status, "order_sn %s, accepted during the trouble", p.orderSN)
	}
}

func counted(seen map[string]int) string {
	var parts []string
	for what, n := range seen {
		parts = append(parts, strconv.Itoa(n)+" "+what)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ") + ";"
}

// firstServed returns the time of the first served call after that time, or zero if there is none.
func firstServed(responses []response, after time.Time) (first time.Time) {
	for _, a := range responses {
		if a.err == nil && a.ended.After(after) && (first.IsZero() || a.ended.Before(first)) {
			first = a.ended
		}
	}
	return first
}

// recovery holds times from the end of the trouble.
type recovery struct {
	first, last time.Duration // until the first and the last order of a sample of purchases accepted before the end
	lapsed      time.Duration // until all units of expired orders are on sale again
}

func (r recovery) String() string {
	return fmt.Sprintf("earlier purchases became orders after %s to %s; units of expired orders were on sale again after %s", r.first, r.last, r.lapsed)
}

// recovers waits until purchases from before the end have orders and expired units are on sale again.
func (s *scene) recovers(ctx context.Context, back time.Time) (r recovery, err error) {
	since := func() time.Duration { return time.Since(back).Round(time.Millisecond) }
	s.mu.Lock()
	var all, sample []payer
	for _, p := range s.watchable {
		if at := s.at[p.orderSN]; !at.IsZero() && at.Before(back) {
			all = append(all, p)
		}
	}
	s.mu.Unlock()
	for i := range min(resultsSample, len(all)) {
		sample = append(sample, all[i*(len(all)-1)/(resultsSample-1)])
	}
	landed := make([]time.Duration, len(sample))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range sample {
		group.Go(func() error {
			err := shop.Poll(ctx, func() (bool, error) {
				v, err := p.Reservation(ctx, s.sale.ActivityID, p.orderSN)
				return v.Status == client.Created || v.Status == client.Paid, err
			})
			landed[i] = since()
			if err != nil {
				return fmt.Errorf("no order %s, accepted before the end: %w", p.orderSN, err)
			}
			return nil
		})
	}
	if len(s.lapse) > 0 {
		group.Go(func() error {
			err := shop.Poll(ctx, func() (bool, error) {
				view, err := s.lapsing.Merchant.Stock(ctx, s.lapsing.ActivityID)
				if err != nil || len(view.SKUs) != 1 {
					return false, err
				}
				sku := view.SKUs[0]
				return sku.MySQL.Available == sceneLapsing && sku.Gate.Left == sceneLapsing && sku.Difference == 0, nil
			})
			r.lapsed = since()
			if err != nil {
				return fmt.Errorf("units of expired orders are not on sale again: %w", err)
			}
			return nil
		})
	}
	err = group.Wait()
	if len(landed) > 0 {
		r.first, r.last = slices.Min(landed), slices.Max(landed)
	}
	return r, err
}

// settle repeats the calls without a response and checks the sale: one order for each accepted purchase and no other,
// all payments counted, gate and database equal, no dead letter, no incident.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	require.NoError(t, purchase.Each(ctx, 8, len(s.open), func(ctx context.Context, i int) error {
		p := s.open[i]
		r, err := p.Reserve(ctx, s.sale.ActivityID, p.path.Path, s.sale.Lines())
		if err == nil {
			s.mu.Lock()
			s.accepted[r.OrderSN] = p.UserID
			s.mu.Unlock()
		}
		return err
	}), "repeat purchases without a response")
	require.NoError(t, purchase.Each(ctx, 8, len(s.unpaid), func(ctx context.Context, i int) error {
		return purchase.Pay(ctx, s.unpaid[i].Caller, s.unpaid[i].orderSN)
	}), "repeat payments without a response")
	s.paid += int64(len(s.unpaid))
	s.open, s.unpaid = nil, nil

	total := int64(len(s.accepted))
	s.sale.StockBecomes(t, s.sale.Stock-total, total-s.paid, s.paid, anyWithin)
	booked(t, s.r, s.sale, s.accepted)
	if len(s.lapse) > 0 {
		s.lapsing.StockBecomes(t, sceneLapsing, 0, 0, anyWithin)
		booked(t, s.r, s.lapsing, s.lapse)
	}
	quiet(t, s.r)
}

// quiet requires that there is no dead letter and no incident.
func quiet(t *testing.T, r *rig.Rig) {
	t.Helper()
	shop.NoDeadLetters(t, r)
	for _, p := range r.Processes() {
		shop.NoIncidents(t, p)
	}
}

// booked requires one ledger row and one order for each accepted purchase of the sale, and no other. The pay window
// starts when the order is created and has the length that the sale promises. Orders follow the ledger rows a little
// later.
func booked(t *testing.T, r *rig.Rig, sale shop.Sale, accepted map[string]string) {
	t.Helper()
	ledger := map[string]bool{}
	shop.Query(t, r.Dependencies.InventoryDSN, "SELECT order_sn, user_id FROM reservations WHERE activity_id = ?", func(rows *sql.Rows) {
		var sn, user string
		require.NoError(t, rows.Scan(&sn, &user))
		require.Equal(t, accepted[sn], user, "order_sn %s is in the ledger and was accepted for no buyer", sn)
		ledger[sn] = true
	}, sale.ActivityID)
	require.Len(t, ledger, len(accepted), "purchases in the ledger")
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		made := sale.CountOrders(t, r)
		return made >= int64(len(accepted)), fmt.Errorf("%d of %d orders exist", made, len(accepted))
	}))
	orders := map[string]bool{}
	shop.Query(t, r.Dependencies.OrderDSN, "SELECT order_sn, user_id, CAST(TIMESTAMPDIFF(MICROSECOND, created_at, "+
		"expires_at) / 1000 AS SIGNED) FROM orders WHERE activity_id = ?", func(rows *sql.Rows) {
		var sn, user string
		var window int64
		require.NoError(t, rows.Scan(&sn, &user, &window))
		require.Equal(t, accepted[sn], user, "order %s belongs to no accepted purchase", sn)
		require.Equal(t, sale.PayWithinS*1000, window, "the pay window of order %s, in ms", sn)
		require.False(t, orders[sn], "order %s exists twice", sn)
		orders[sn] = true
	}, sale.ActivityID)
	require.Len(t, orders, len(accepted), "orders")
}
