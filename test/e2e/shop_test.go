package e2e

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
	landed          time.Time // when it was first told as more than queued
	told            client.Status
	paidFor         bool // the provider reported the payment and was heard
	cancelled       bool // by the buyer
	expires         time.Time
	order           client.Order // as it was at the end
	ended           bool         // order is known
}

// shop is a sale that buyers come to. Those who find everything sold come back until they get a piece, and then pay, or give
// it back at once.
type shop struct {
	sale     Sale
	client   *client.Client
	buyers   int
	arrivals int        // buyers a second
	pays     *rand.Rand // used by the doorman only

	mu                        sync.Mutex
	came                      int
	refused                   int  // times that a buyer found everything sold
	refusedForGood            int  // of these, without a word that pieces may come back
	emptied                   bool // the gate had given out every piece
	pathsExpired              int  // times that a buyer was told 503 until his path had expired, and took another one
	bought                    []*bought
	answers, landings, paying spread
}

// open lets the buyers in at a steady rate. trouble ends with ctx, or as soon as a buyer met with a defect; ended waits until
// the last of them knows how his purchase ended.
func (s *shop) open(ctx context.Context) (trouble context.Context, ended func() error) {
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		tick := time.NewTicker(time.Second / time.Duration(s.arrivals))
		defer tick.Stop()
		prefix := "k" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-"
		for n := range s.buyers {
			select {
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
		return nil
	})
	return inner, group.Wait
}

// buy is one buyer from the button to the end.
func (s *shop) buy(ctx context.Context, userID string, pays bool) error {
	token, err := s.client.Token(ctx, userID)
	if err != nil {
		return err
	}
	caller := s.client.As(token)
	a := purchase.Buy(ctx, caller, userID, s.sale.ActivityID, s.sale.lines())
	again := false
	for refused := s.refuses(a); refused || s.expired(a); refused = s.refuses(a) {
		if refused {
			again = true
			if err := until(ctx, time.Now().Add(comesBackAfter+rand.N(comesBackAfter))); err != nil {
				return fmt.Errorf("never got a piece: %w", a.Err)
			}
		}
		a = purchase.Buy(ctx, caller, userID, s.sale.ActivityID, s.sale.lines())
	}
	b := s.answered(a, pays)
	if b == nil {
		return fmt.Errorf("%s: %w", a.Outcome, a.Err)
	}
	var turned error
	told := func(done func(client.Reservation) bool) (client.Reservation, error) {
		v, err := await(ctx, func(ctx context.Context) (client.Reservation, error) {
			v, err := caller.Reservation(ctx, s.sale.ActivityID, b.orderSN)
			if err == nil {
				turned = errors.Join(turned, s.hears(b, v))
			}
			return v, err
		}, func(v client.Reservation) bool { return turned != nil || done(v) })
		return v, errors.Join(turned, err)
	}
	v, err := told(func(v client.Reservation) bool { return v.Status != client.Queued })
	if err != nil {
		return fmt.Errorf("order %s never came: %w", b.orderSN, err)
	}
	switch {
	case pays:
		began := time.Now()
		err := purchase.Pay(ctx, caller, b.orderSN)
		s.paying.add(time.Since(began))
		b.paidFor = err == nil
		// An outage may have eaten the pay window.
		if err != nil && client.CodeOf(err) != contract.CodeOrderNotPayable {
			return fmt.Errorf("paying for order %s: %w", b.orderSN, err)
		}
	case again:
		if _, err := caller.Cancel(ctx, b.orderSN); err != nil {
			return fmt.Errorf("giving order %s back: %w", b.orderSN, err)
		}
		b.cancelled = true
	default:
		if err := until(ctx, v.ExpiresAt); err != nil {
			return err
		}
	}
	if _, err := told(func(v client.Reservation) bool { return v.Status == client.Paid || v.Status == client.Closed }); err != nil {
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

// comesBackAfter is how long, and up to twice as long, a buyer stays away who found everything sold.
const comesBackAfter = 6 * time.Second

// refuses tells whether everything was sold.
func (s *shop) refuses(a purchase.Attempt) bool {
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

// expired tells whether a path ended before its purchase was accepted. A known purchase is answered whatever became of its
// path, so this one took nothing.
func (s *shop) expired(a purchase.Attempt) bool {
	if a.Outcome != purchase.Outcome(contract.CodePathExpired) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pathsExpired++
	return true
}

// slowest is how long a buyer who waits pauses at most before asking again.
const slowest = 2 * time.Second

// await asks until done is content, slower and slower.
func await(ctx context.Context, ask func(context.Context) (client.Reservation, error), done func(client.Reservation) bool) (client.Reservation, error) {
	for wait := slowest / 16; ; wait = min(2*wait, slowest) {
		v, err := ask(ctx)
		if err == nil && done(v) {
			return v, nil
		}
		if uerr := until(ctx, time.Now().Add(wait/2+rand.N(wait/2))); uerr != nil {
			return v, errors.Join(purchase.ErrNeverCame, err)
		}
	}
}

func (s *shop) answered(a purchase.Attempt, pays bool) *bought {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came++
	if a.Outcome != purchase.Accepted {
		return nil
	}
	s.answers.add(a.PathTook + a.ReserveTook)
	b := &bought{userID: a.UserID, orderSN: a.OrderSN, pays: pays, accepted: time.Now(), told: client.Queued}
	s.bought = append(s.bought, b)
	return b
}

// hears notes what a buyer is told. States only rise, and an end is an end.
func (s *shop) hears(b *bought, v client.Reservation) error {
	status := v.Status
	rank := map[client.Status]int{client.Queued: 1, client.Created: 2, client.Paid: 3, client.Closed: 3}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := b.told
	b.told = status
	if status != client.Queued && b.landed.IsZero() {
		b.landed = time.Now()
		s.landings.add(b.landed.Sub(b.accepted))
	}
	if !v.ExpiresAt.IsZero() {
		b.expires = v.ExpiresAt
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

// notEnded counts the purchases that were to be closed before that moment and whose buyer has not heard of it yet.
func (s *shop) notEnded(before time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.bought {
		if !b.ended && !b.pays && !b.expires.IsZero() && b.expires.Before(before) {
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
		stop()
		return <-wrong
	}
}

func (s *shop) plausible(view client.Stock) error {
	for _, sku := range view.SKUs {
		m := sku.MySQL
		if sku.Total != s.sale.Stock || m.Available < 0 || m.Reserved+m.Sold > sku.Total || m.Available+m.Reserved+m.Sold != sku.Total {
			return fmt.Errorf("the ledger does not add up: %s", sku)
		}
		s.mu.Lock()
		s.emptied = s.emptied || sku.Gate.Left == 0
		s.mu.Unlock()
		// Nothing that Redis answered is lost by a kill, so no adoption takes what is not there.
		if sku.Gate.Left < 0 || sku.Gate.Left > sku.Total {
			return fmt.Errorf("the gate gives out what is not there: %s", sku)
		}
	}
	return nil
}
