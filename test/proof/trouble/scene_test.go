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
	served     manner = "served"     // as always; a machine that halts for a moment may cause a few 503, which are retried
	refused    manner = "refused"    // 503 with Retry-After
	either     manner = "either"     // one of these two
	unanswered manner = "unanswered" // by a service that is itself down
)

// The calls that never stop.
const (
	callPath     = "path"     // a buyer takes a path
	callPurchase = "purchase" // a buyer uses a path taken before the trouble
	callResult   = "result"   // a buyer reads a result
	callOrder    = "order"    // a buyer reads an order
	callPay      = "pay"      // a buyer pays an order
	callStock    = "stock"    // the merchant reads the stock
)

var calls = []string{callPath, callPurchase, callResult, callOrder, callPay, callStock}

// anyCode are the codes of refusals while something goes down or comes up.
var anyCode = []contract.Code{contract.CodeGateUnavailable, contract.CodeUnavailable, contract.CodeOverloaded}

// trouble is an outage and the responses that it must cause.
type trouble struct {
	name  string
	lasts time.Duration
	// opens is the part of lasts after which every response must be as told requires.
	opens time.Duration
	told  map[string]manner // calls that are not served meanwhile
	code  contract.Code     // of the refusals
	// queues: purchases accepted meanwhile stay queued until the end.
	queues bool
	// redelivers: messages that could not be handled go back to the broker meanwhile.
	redelivers bool
	// atOnce bounds the median time of the refusals, patience the time of every response.
	atOnce, patience time.Duration
	outage
	meanwhile func(t *testing.T, s *scene)
	resumes   time.Duration // at most, from the end on; generous, as machines differ
}

// outage stops something and starts it again; end returns when it is usable.
type outage struct{ begin, end func(t *testing.T) }

const (
	callEvery     = 250 * time.Millisecond // each of the calls, but
	payEvery      = 2 * time.Second
	callPatience  = 40 * time.Second // no answer may take longer than what a trouble says; this only ends a call
	sceneOrders   = 160              // orders made before the trouble: one is paid every 2 s, in up to three troubles
	sceneLapsing  = 24               // orders made before the trouble: their closings come due meanwhile
	lapseWithin   = 10 * time.Second // the pay window of those
	anyWithin     = 90 * time.Second // for what must come and is not what is measured
	resultsSample = 12               // purchases whose results are read
)

// answer is the response to one call.
type answer struct {
	began, ended time.Time
	err          error
}

func (a answer) String() string {
	p := client.AsProblem(a.err)
	switch {
	case a.err == nil:
		return "served"
	case p == nil:
		return "no answer"
	}
	return fmt.Sprintf("%d %s", p.Status, p.Code)
}

// is tells whether the answer is of that manner.
func (a answer) is(m manner, codes []contract.Code) bool {
	p := client.AsProblem(a.err)
	switch m {
	case served:
		return a.err == nil
	case refused:
		return p != nil && p.Status == http.StatusServiceUnavailable && p.RetryAfter > 0 && slices.Contains(codes, p.Code)
	case either:
		return a.is(served, codes) || a.is(refused, codes)
	case unanswered:
		return a.err != nil && p == nil
	}
	return false
}

// permit is a path that was not used yet.
type permit struct {
	purchase.Buyer
	path client.Path
}

// scene is a sale with callers who never stop, during a trouble.
type scene struct {
	r       *rig.Rig
	patient *client.Client // repeats what is refused
	once    *client.Client // does not, so that each answer is seen
	sale    shop.Sale
	lapsing shop.Sale

	work sync.WaitGroup

	mu        sync.Mutex
	answers   map[string][]answer
	permits   []permit
	accepted  map[string]string // order_sn -> user
	at        map[string]time.Time
	open      []permit // purchases whose outcome is unknown to their buyers
	payers    []payer  // of orders that are not paid yet
	holders   []payer  // of those made at first, paid or not
	unpaid    []payer  // payments whose outcome is unknown to their buyers
	paid      int64
	watchable []payer // those whose results are asked for
	lapse     map[string]string

	back time.Time          // when the trouble was over
	left func(t *testing.T) // what else is to be looked at in the end; may be nil
}

type payer struct {
	purchase.Buyer
	orderSN string
}

func newClients(t *testing.T, r *rig.Rig) (patient, once *client.Client) {
	t.Helper()
	patient = client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: 5 * time.Second, Attempts: 100})
	once = client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: callPatience, Attempts: 1})
	t.Cleanup(patient.Close)
	t.Cleanup(once.Close)
	return patient, once
}

// newScene opens the sales and brings buyers to where the trouble is to find them.
func newScene(t *testing.T, r *rig.Rig, lasts time.Duration) *scene {
	t.Helper()
	s := &scene{r: r, answers: map[string][]answer{}, accepted: map[string]string{}, at: map[string]time.Time{}, lapse: map[string]string{}}
	s.patient, s.once = newClients(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	room := int(2*lasts/callEvery) + 200
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

// lapses makes orders whose closings come due soon.
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

// buy has these buyers get an order each.
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

// keepCalling begins the calls of all kinds. The returned func ends that and waits for the answers.
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
				s.work.Go(func() { // slow answers do not make callers fewer
					one, cancel := context.WithTimeout(context.Background(), callPatience)
					defer cancel()
					a := answer{began: time.Now()}
					a.err = call(one, n)
					a.ended = time.Now()
					if errors.Is(a.err, errNobody) {
						return
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					s.answers[name] = append(s.answers[name], a)
				})
			}
		})
	}
	return func() {
		end()
		s.work.Wait()
	}
}

// errNobody says that no such call can be made: all have been.
var errNobody = errors.New("nobody is left to call")

func take[T any](s *scene, from *[]T) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var one T
	if len(*from) == 0 {
		return one, errNobody
	}
	one = (*from)[0]
	*from = (*from)[1:]
	return one, nil
}

// as makes calls of that user whose every answer counts.
func (s *scene) as(ctx context.Context, userID string, roles ...auth.Role) *client.Caller {
	token, err := s.once.Token(ctx, userID, roles...)
	if err != nil { // it is signed here
		panic(err)
	}
	return s.once.As(token)
}

func (s *scene) caller(name string) func(ctx context.Context, n int) error {
	switch name {
	case callPath:
		b := s.holders[0]
		return func(ctx context.Context, _ int) error {
			_, err := s.as(ctx, b.UserID).NewPath(ctx, s.sale.ActivityID)
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
				return errNobody
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

// bought notes what came of a purchase: one that was not answered may have taken place, so its buyer asks again.
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

// through lets the trouble come and go, and demands and prints what is to be seen of it.
func (tr trouble) through(t *testing.T, s *scene) {
	t.Helper()
	s.answers = map[string][]answer{}
	givenBack := s.givenBack(t)
	stop := s.keepCalling()
	stopped := sync.OnceFunc(stop)
	defer stopped()
	ctx := context.Background()

	began := time.Now()
	tr.begin(t)
	gone := time.Now()
	if tr.meanwhile != nil {
		tr.meanwhile(t, s)
	}
	require.NoError(t, shop.Until(ctx, gone.Add(tr.lasts)))
	if tr.queues {
		s.stillQueued(t, gone.Add(tr.opens))
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
		n := s.givenBack(t) - givenBack
		require.Positive(t, n, "messages that the broker was given back")
		t.Logf("%-24s the broker was given back %d messages", tr.name, n)
	}
	// Every kind of call is answered again before the callers stop.
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !slices.ContainsFunc(calls, func(name string) bool {
			return tr.told[name] != "" && firstServed(s.answers[name], ending).IsZero()
		})
	}, tr.resumes, 20*time.Millisecond, "some calls are not served again")
	stopped()

	s.mu.Lock()
	opened := gone.Add(tr.opens)
	for _, name := range calls {
		want := tr.told[name]
		if want == "" {
			want = served
		}
		seen := map[string]int{}
		var took []time.Duration
		for _, a := range s.answers[name] {
			// While it begins and ends, a call may be served or be told 503; whoever is killed breaks off his answers.
			fits := a.is(either, anyCode) || want == unanswered && a.is(unanswered, nil)
			if a.began.After(opened) && a.began.Before(ending) {
				if a.ended.Before(ending) && want != served {
					fits = a.is(want, []contract.Code{tr.code})
				}
				seen[a.String()]++
				took = append(took, a.ended.Sub(a.began))
			}
			assert.True(t, fits, "%s, %s: a call begun %s after the begin was to be %s and ended %s later with %s: %v", tr.name, name,
				a.began.Sub(began).Round(time.Millisecond), want, a.ended.Sub(a.began).Round(time.Millisecond), a, a.err)
			assert.LessOrEqual(t, a.ended.Sub(a.began), tr.patience, "%s, %s: an answer took too long", tr.name, name)
		}
		if tr.lasts-tr.opens > 4*payEvery || name != callPay {
			assert.NotEmpty(t, took, "%s, %s: nobody called while it was missing", tr.name, name)
		}
		slices.Sort(took)
		again := "never stopped"
		if want != served {
			again = "again " + firstServed(s.answers[name], ending).Sub(back).Round(time.Millisecond).String() + " after"
		}
		if len(took) > 0 {
			p50, worst := took[len(took)/2], took[len(took)-1]
			t.Logf("%-24s %-8s %s p50 %s, worst %s; %s", tr.name, name, counted(seen), p50.Round(100*time.Microsecond), worst.Round(time.Millisecond), again)
			assert.True(t, want != served || 4*seen[answer{}.String()] >= 3*len(took), "%s, %s: it goes on, and had %s", tr.name, name, counted(seen))
			if want == refused && tr.atOnce > 0 {
				assert.Less(t, p50, tr.atOnce, "%s, %s: refusals come at once", tr.name, name)
			}
		}
	}
	s.mu.Unlock()
	t.Logf("%-24s away %s, usable %s after its start; %s", tr.name, ending.Sub(began).Round(time.Millisecond), back.Sub(ending).Round(time.Millisecond), recovered)
}

// givenBack counts how often inventory gave a message back to the broker.
func (s *scene) givenBack(t *testing.T) int {
	t.Helper()
	return strings.Count(s.r.Inventory.Log(t), `"message not handled, will be redelivered"`)
}

// stillQueued asks how purchases stand that were accepted since then.
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
	require.NotEmpty(t, some, "purchases that were accepted meanwhile")
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	for _, p := range some {
		r, err := p.Reservation(ctx, s.sale.ActivityID, p.orderSN)
		require.NoError(t, err)
		require.Equal(t, client.Queued, r.Status, "order_sn %s, accepted meanwhile", p.orderSN)
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

// firstServed is when a call was first served after that moment; zero: not at all.
func firstServed(answers []answer, after time.Time) (first time.Time) {
	for _, a := range answers {
		if a.err == nil && a.ended.After(after) && (first.IsZero() || a.ended.Before(first)) {
			first = a.ended
		}
	}
	return first
}

// recovery is what came after the trouble, from its end on.
type recovery struct {
	first, last time.Duration // of what was accepted before the end, to become an order as its buyer sees it; of a sample
	lapsed      time.Duration // what ran out meanwhile is closed and on sale again
}

func (r recovery) String() string {
	return fmt.Sprintf("what was accepted before that became orders after %s to %s; what ran out meanwhile was on sale again after %s", r.first, r.last, r.lapsed)
}

// recovers watches what follows the end of the trouble, until all is well.
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
				return fmt.Errorf("order %s, accepted before the end, did not come: %w", p.orderSN, err)
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
				return fmt.Errorf("what ran out meanwhile is not on sale again: %w", err)
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

// settle has the buyers who were left without an answer ask again, and takes stock: one order for each accepted purchase,
// no other, every payment counted, nothing between gate and database, no dead letter, no alarm.
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
	}), "a purchase that was not answered is repeated")
	require.NoError(t, purchase.Each(ctx, 8, len(s.unpaid), func(ctx context.Context, i int) error {
		return purchase.Pay(ctx, s.unpaid[i].Caller, s.unpaid[i].orderSN)
	}), "a payment that was not answered is repeated")
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

// quiet requires that there is no dead letter and no alarm.
func quiet(t *testing.T, r *rig.Rig) {
	t.Helper()
	shop.NoDeadLetters(t, r)
	for _, p := range r.Processes() {
		shop.NoAlarms(t, p)
	}
}

// booked requires one ledger row and one order for each accepted purchase of the sale, and no other. A pay window is as
// long as the sale promises, from the making of the order on. Orders come a little after the ledger's rows.
func booked(t *testing.T, r *rig.Rig, sale shop.Sale, accepted map[string]string) {
	t.Helper()
	ledger := map[string]bool{}
	shop.Query(t, r.Dependencies.InventoryDSN, "SELECT order_sn, user_id FROM reservations WHERE activity_id = ?", func(rows *sql.Rows) {
		var sn, user string
		require.NoError(t, rows.Scan(&sn, &user))
		require.Equal(t, accepted[sn], user, "the ledger has order_sn %s, which no buyer was told of", sn)
		ledger[sn] = true
	}, sale.ActivityID)
	require.Len(t, ledger, len(accepted), "purchases in the ledger")
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		made := 0
		for shard := range 16 {
			shop.Query(t, r.Dependencies.OrderDSN, fmt.Sprintf("SELECT COUNT(*) FROM orders_%02d WHERE activity_id = ? AND tombstone = 0", shard),
				func(rows *sql.Rows) {
					var n int
					require.NoError(t, rows.Scan(&n))
					made += n
				}, sale.ActivityID)
		}
		return made >= len(accepted), fmt.Errorf("%d of %d orders are made", made, len(accepted))
	}))
	orders := map[string]bool{}
	for shard := range 16 {
		shop.Query(t, r.Dependencies.OrderDSN, fmt.Sprintf(`SELECT order_sn, user_id, CAST(TIMESTAMPDIFF(MICROSECOND, created_at, expires_at) / 1000 AS SIGNED)
			FROM orders_%02d WHERE activity_id = ? AND tombstone = 0`, shard), func(rows *sql.Rows) {
			var sn, user string
			var window int64
			require.NoError(t, rows.Scan(&sn, &user, &window))
			require.Equal(t, accepted[sn], user, "order %s belongs to no accepted purchase", sn)
			require.Equal(t, sale.PayWithinS*1000, window, "the pay window of order %s, in ms", sn)
			require.False(t, orders[sn], "order %s is there twice", sn)
			orders[sn] = true
		}, sale.ActivityID)
	}
	require.Len(t, orders, len(accepted), "orders")
}
