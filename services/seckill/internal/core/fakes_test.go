package core

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// world is a fake of all ports of core.
type world struct {
	unconfirmed error // of Confirm
	lost        bool  // by the gate, between Lookup and Confirm
	mu          sync.Mutex

	sale     Sale
	state    *GateState // nil means no gate
	hasSale  bool
	ready    bool
	empties  bool          // Redis loses everything before the sale is read
	fills    bool          // inventory fills Redis right after the sale was not found
	offset   time.Duration // of Redis time to now
	now      time.Time     // of this process
	err      error         // of every call to the gate and the catalogue
	nowCalls int
	reads    int             // calls of GateStates
	broken   map[string]bool // activities whose gates are unreadable

	verdict  Verdict
	requests []Purchase // calls of Reserve
	held     map[string]Reservation
	lookups  int
	buyer    []string
	allowed  Allowance
	noLease  bool
	next     uint64
}

func (w *world) Reserve(_ context.Context, _ string, p Purchase) (Verdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, p)
	if w.err != nil {
		return Verdict{}, w.err
	}
	if w.state == nil {
		return Verdict{}, ErrNoGate
	}
	v := w.verdict
	if v.Outcome == Accepted || v.Outcome == Known {
		v.Reservation = Reservation{ActivityID: "7", OrderSN: p.OrderSN, UserID: p.UserID, Lines: p.Lines, Status: StatusQueued}
		w.held[p.OrderSN] = v.Reservation
	}
	return v, nil
}

func (w *world) Lookup(_ context.Context, _, orderSN string) (Reservation, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	if w.err != nil {
		return Reservation{}, false, w.err
	}
	if w.state == nil {
		return Reservation{}, false, ErrNoGate
	}
	r, ok := w.held[orderSN]
	return r, ok, nil
}

func (w *world) LookupAll(_ context.Context, _ string, sns []string) (map[string]Reservation, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	if w.err != nil {
		return nil, w.err
	}
	found := map[string]Reservation{}
	for _, sn := range sns {
		if r, ok := w.held[sn]; ok {
			found[sn] = r
		}
	}
	return found, nil
}

func (w *world) Allowance(context.Context, string, string) (Allowance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == nil {
		return Allowance{}, ErrNoGate
	}
	return w.allowed, w.err
}

func (w *world) OfUser(context.Context, string, string) (UserPurchases, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == nil {
		return UserPurchases{}, ErrNoGate
	}
	return UserPurchases{OrderSNs: append([]string(nil), w.buyer...), BarredUntil: w.allowed.BarredUntil}, w.err
}

func (w *world) Confirm(_ context.Context, r Reservation) (Reservation, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r, w.unconfirmed == nil && !w.lost, w.unconfirmed
}

func (w *world) Sale(context.Context, string) (Sale, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return Sale{}, w.err
	}
	if w.empties {
		w.hasSale, w.ready = false, false
	}
	if !w.hasSale {
		if w.fills {
			w.hasSale, w.ready = true, true
		}
		return Sale{}, ErrNoSale
	}
	return w.sale, nil
}

func (w *world) Sales(context.Context) ([]Sale, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sales := []Sale{w.sale}
	for id := range w.broken {
		other := w.sale
		other.ActivityID = id
		sales = append(sales, other)
	}
	return sales, w.err
}

func (w *world) GateStates(_ context.Context, ids []string) (map[string]GateState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if w.err != nil {
		return nil, w.err
	}
	found := map[string]GateState{}
	var err error
	for _, id := range ids {
		if w.broken[id] {
			err = fmt.Errorf("%w: gate of %s", ErrUnavailable, id)
		}
		if w.state != nil && id == "7" {
			found[id] = *w.state
		}
	}
	return found, err
}

func (w *world) Ready(context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready, w.err
}

func (w *world) Now(context.Context) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nowCalls++
	return w.now.Add(w.offset), w.err
}

func (w *world) Next(string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noLease {
		return "", ErrNoLease
	}
	w.next++
	return strconv.FormatUint(w.next, 10), nil
}

// Belongs is a fake of the gene: an order_sn of four digits or more belongs to no user.
func (w *world) Belongs(orderSN, _ string) bool { return len(orderSN) < 4 }

// IssuedAt is a fake of the time in an order_sn: its number of seconds after noon.
func (w *world) IssuedAt(orderSN string) time.Time {
	n, _ := strconv.Atoi(orderSN)
	return noon.Add(time.Duration(n) * time.Second)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// advance moves the clock.
func (w *world) advance(d time.Duration) { w.change(func() { w.now = w.now.Add(d) }) }

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	lines = []contract.Line{{SKUID: "1", Qty: 1}}
)

// newWorld returns an open sale with one unit of SKU 1 left and none of SKU 2.
func newWorld(t *testing.T) (*world, *Service) {
	t.Helper()
	w := &world{
		sale: Sale{ActivityID: "7", Title: "sale", StartsAt: noon.Add(-time.Hour), EndsAt: noon.Add(time.Hour), PerUserLimit: 1},
		state: &GateState{
			State: StateOpen, StartsAt: noon.Add(-time.Hour), EndsAt: noon.Add(time.Hour),
			Left: map[string]int64{"1": 1, "2": 0},
		},
		hasSale: true, ready: true, now: noon, held: map[string]Reservation{}, verdict: Verdict{Outcome: Accepted},
	}
	seal, err := NewSeal("new", "old")
	require.NoError(t, err)
	return w, NewService(Deps{
		Purchases: w, Sales: NewSaleCache(w, w.clock), Feed: NewFeed(w, 3), SNs: w, Seal: seal, CallerWait: time.Second,
	})
}
