package shop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
)

// bought is one accepted purchase.
type bought struct {
	userID, orderSN string
	pays            bool
	accepted        time.Time
	landed          time.Time     // first result above queued
	status          client.Status // of the last result
	paidFor         bool          // the payment call succeeded
	cancelled       bool          // by the buyer
	expires         time.Time
	order           client.Order // at the end
	ended           bool         // order is known
}

// Buyers runs many buyers who arrive at one sale at a steady rate. A buyer who is refused as sold out retries until a
// purchase is accepted, and then pays or cancels at once. Of the others half pay, and half let the order expire.
// A buyer retries every failed call, so an error that ends a buyer is a defect.
type Buyers struct {
	Sale      Sale
	Client    *client.Client
	Count     int
	PerSecond int             // arrivals
	Together  int             // buyers who arrive at the same time; 0 means 1
	Until     <-chan struct{} // arrivals end before Count when it is closed; nil means that they do not
	Rand      *rand.Rand      // decides who pays; no other goroutine may use it

	mu                            sync.Mutex
	came                          int
	refused                       int  // times that a buyer was refused as sold out
	refusedForGood                int  // of these, without a time until which units may return
	soldOut                       bool // the gate had no unit left at some time
	pathsExpired                  int  // times that a path expired during 503 responses and its buyer took another one
	bought                        []*bought
	acceptances, landings, paying []time.Duration
}

// Start starts the buyers. failed ends with ctx, or as soon as a buyer meets a defect; wait returns that defect, or
// nil when every purchase has ended.
func (s *Buyers) Start(ctx context.Context) (failed context.Context, wait func() error) {
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		together := max(s.Together, 1)
		tick := time.NewTicker(time.Duration(together) * time.Second / time.Duration(s.PerSecond))
		defer tick.Stop()
		prefix := "k" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-"
		for n := range s.Count {
			if n%together == 0 {
				select {
				case <-inner.Done():
					return inner.Err()
				case <-s.Until:
					return nil
				case <-tick.C:
				}
			}
			pays := s.Rand.IntN(2) == 0
			group.Go(func() error {
				userID := prefix + strconv.Itoa(n)
				if err := s.buy(inner, userID, pays); err != nil {
					return fmt.Errorf("buyer %s: %w", userID, err)
				}
				return nil
			})
		}
		return nil
	})
	return inner, group.Wait
}

// buy runs one buyer, from the first path to the end of the order.
func (s *Buyers) buy(ctx context.Context, userID string, pays bool) error {
	token, err := s.Client.Token(ctx, userID)
	if err != nil {
		return err
	}
	caller := s.Client.As(token)
	a := purchase.Buy(ctx, caller, userID, s.Sale.ActivityID, s.Sale.Lines())
	returned := false
	for refused := s.refuses(a); refused || s.expired(a); refused = s.refuses(a) {
		if refused {
			returned = true
			if err := Until(ctx, time.Now().Add(returnsAfter+rand.N(returnsAfter))); err != nil {
				return fmt.Errorf("got no unit: %w", a.Err)
			}
		}
		a = purchase.Buy(ctx, caller, userID, s.Sale.ActivityID, s.Sale.Lines())
	}
	b := s.record(a, pays)
	if b == nil {
		return fmt.Errorf("%s: %w", a.Outcome, a.Err)
	}
	var reversed error
	result := func(done func(client.Reservation) bool) (client.Reservation, error) {
		v, err := await(ctx, func(ctx context.Context) (client.Reservation, error) {
			v, err := caller.Reservation(ctx, s.Sale.ActivityID, b.orderSN)
			if err == nil {
				reversed = errors.Join(reversed, s.note(b, v))
			}
			return v, err
		}, func(v client.Reservation) bool { return reversed != nil || done(v) })
		return v, errors.Join(reversed, err)
	}
	v, err := result(func(v client.Reservation) bool { return v.Status != client.Queued })
	if err != nil {
		return fmt.Errorf("no order %s: %w", b.orderSN, err)
	}
	switch {
	case pays:
		began := time.Now()
		err := purchase.Pay(ctx, caller, b.orderSN)
		took := time.Since(began)
		s.mu.Lock()
		s.paying = append(s.paying, took)
		s.mu.Unlock()
		b.paidFor = err == nil
		// An outage may have used up the pay window.
		if err != nil && client.CodeOf(err) != contract.CodeOrderNotPayable {
			return fmt.Errorf("paying for order %s: %w", b.orderSN, err)
		}
	case returned:
		if _, err := caller.Cancel(ctx, b.orderSN); err != nil {
			return fmt.Errorf("cancelling order %s: %w", b.orderSN, err)
		}
		b.cancelled = true
	default:
		if err := Until(ctx, v.ExpiresAt); err != nil {
			return err
		}
	}
	ended := func(v client.Reservation) bool { return v.Status == client.Paid || v.Status == client.Closed }
	if _, err := result(ended); err != nil {
		return fmt.Errorf("order %s was never paid or closed: %w", b.orderSN, err)
	}
	order, err := caller.Order(ctx, b.orderSN)
	if err == nil {
		s.mu.Lock()
		b.order, b.ended = order, true
		s.mu.Unlock()
	}
	return err
}

// returnsAfter is the shortest time after which a refused buyer retries; the longest is twice that.
const returnsAfter = 6 * time.Second

// refuses reports whether the attempt was refused as sold out, and counts it.
func (s *Buyers) refuses(a purchase.Attempt) bool {
	if a.Outcome != purchase.SoldOut {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	if p := client.AsProblem(a.Err); p != nil && p.MayReturnUntil.IsZero() {
		s.refusedForGood++
	}
	return true
}

// expired reports whether a path expired before its purchase was accepted. A known order_sn returns its state also
// when its path has expired, so this purchase took nothing.
func (s *Buyers) expired(a purchase.Attempt) bool {
	if a.Outcome != purchase.Outcome(contract.CodePathExpired) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pathsExpired++
	return true
}

// longestPause is the longest pause of a waiting buyer between two calls.
const longestPause = 2 * time.Second

// await calls read with growing pauses until done returns true.
func await(
	ctx context.Context, read func(context.Context) (client.Reservation, error), done func(client.Reservation) bool,
) (client.Reservation, error) {
	for pause := longestPause / 16; ; pause = min(2*pause, longestPause) {
		v, err := read(ctx)
		if err == nil && done(v) {
			return v, nil
		}
		if ended := Until(ctx, time.Now().Add(pause/2+rand.N(pause/2))); ended != nil {
			return v, errors.Join(purchase.ErrNotReached, err)
		}
	}
}

// record stores the outcome of a buyer's last attempt; nil unless it was accepted.
func (s *Buyers) record(a purchase.Attempt, pays bool) *bought {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came++
	if a.Outcome != purchase.Accepted {
		return nil
	}
	s.acceptances = append(s.acceptances, a.PathTook+a.ReserveTook)
	b := &bought{userID: a.UserID, orderSN: a.OrderSN, pays: pays, accepted: time.Now(), status: client.Queued}
	s.bought = append(s.bought, b)
	return b
}

// note records a result that a buyer read. It returns an error unless the state rises; a final state must not change.
func (s *Buyers) note(b *bought, v client.Reservation) error {
	status := v.Status
	rank := map[client.Status]int{client.Queued: 1, client.Created: 2, client.Paid: 3, client.Closed: 3}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := b.status
	b.status = status
	if status != client.Queued && b.landed.IsZero() {
		b.landed = time.Now()
		s.landings = append(s.landings, b.landed.Sub(b.accepted))
	}
	if !v.ExpiresAt.IsZero() {
		b.expires = v.ExpiresAt
	}
	if status != was && rank[status] <= rank[was] {
		return fmt.Errorf("order %s was returned as %s and then as %s", b.orderSN, was, status)
	}
	return nil
}

// Unlanded counts the purchases that were accepted before that time and whose buyer has not read of an order yet.
func (s *Buyers) Unlanded(before time.Time) int {
	return s.count(func(b *bought) bool { return b.accepted.Before(before) && b.landed.IsZero() })
}

// Overdue counts the unpaid purchases that expired before that time and whose buyer has not read of the closing yet.
func (s *Buyers) Overdue(before time.Time) int {
	return s.count(func(b *bought) bool { return !b.ended && !b.pays && !b.expires.IsZero() && b.expires.Before(before) })
}

// Accepted counts the purchases that were accepted in [from, to).
func (s *Buyers) Accepted(from, to time.Time) int {
	return s.count(func(b *bought) bool { return !b.accepted.Before(from) && b.accepted.Before(to) })
}

func (s *Buyers) count(counts func(*bought) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bought {
		if counts(b) {
			n++
		}
	}
	return n
}

// WatchStock reads the stock of the sale four times a second and checks that it adds up. The returned func ends that
// and returns the first violation.
func (s *Buyers) WatchStock(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	wrong := make(chan error, 1)
	go func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			view, err := s.Sale.Merchant.Stock(ctx, s.Sale.ActivityID)
			if err == nil {
				err = s.plausible(view)
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
		cancel()
		return <-wrong
	}
}

func (s *Buyers) plausible(view client.Stock) error {
	for _, sku := range view.SKUs {
		m := sku.MySQL
		if sku.Total != s.Sale.Stock || m.Available < 0 || m.Reserved+m.Sold > sku.Total ||
			m.Available+m.Reserved+m.Sold != sku.Total {
			return fmt.Errorf("the ledger does not add up: %s", sku)
		}
		s.mu.Lock()
		s.soldOut = s.soldOut || sku.Gate.Left == 0
		s.mu.Unlock()
		// A kill loses nothing that Redis has acknowledged, so no adoption takes a unit that the gate does not have.
		if sku.Gate.Left < 0 || sku.Gate.Left > sku.Total {
			return fmt.Errorf("the gate sells units that do not exist: %s", sku)
		}
	}
	return nil
}

// UnlandedSince counts the purchases that were accepted in [from, before) and whose buyer has not read of an order
// yet.
func (s *Buyers) UnlandedSince(from, before time.Time) int {
	return s.count(func(b *bought) bool {
		return !b.accepted.Before(from) && b.accepted.Before(before) && b.landed.IsZero()
	})
}

// Ended counts the purchases that were accepted from that time on and whose buyer has read the end.
func (s *Buyers) Ended(from time.Time) (paid, closed int) {
	ended := func(state string) int {
		return s.count(func(b *bought) bool { return !b.accepted.Before(from) && b.ended && b.order.State == state })
	}
	return ended("paid"), ended("closed")
}

// Lateness returns the longest time from a deadline in [from, to) to the closing of its order.
func (s *Buyers) Lateness(from, to time.Time) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bought {
		at := b.order.ExpiresAt
		if b.ended && b.order.State == "closed" && !b.cancelled && !at.Before(from) && at.Before(to) {
			longest = max(longest, b.order.ClosedAt.Sub(at))
		}
	}
	return longest
}
