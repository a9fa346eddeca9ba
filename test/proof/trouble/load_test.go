package trouble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/test/shop"
)

// purchaseEvery is the interval of the load's purchases.
const purchaseEvery = 80 * time.Millisecond

// steadyLoad makes whole purchases at a steady rate. One of four is not paid and expires. The buyers of the others give a
// contact. With each purchase the merchant reads the stock.
type steadyLoad struct {
	paid, lapsing shop.Sale

	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	client   *client.Client
	group    *sync.WaitGroup // of the purchases that began with client
	done     map[bool]int    // ended purchases, by whether they were paid
	round    int             // calls of waitForPurchases
	fresh    int             // ended purchases that began in this round
	contacts []given
	err      error         // of the first purchase that failed
	next     chan struct{} // closed at the end of the next purchase
}

// given is the contact of an order.
type given struct {
	userID, orderSN string
	contact         client.Contact
}

func startLoad(ctx context.Context, c *client.Client, paid, lapsing shop.Sale) *steadyLoad {
	starting, cancel := context.WithCancel(ctx)
	l := &steadyLoad{
		paid: paid, lapsing: lapsing, cancel: cancel, ended: make(chan struct{}), client: c, group: &sync.WaitGroup{},
		done: map[bool]int{}, next: make(chan struct{}),
	}
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(purchaseEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-starting.Done():
				return
			case <-tick.C:
				l.begin(ctx, n)
			}
		}
	}()
	return l
}

func (l *steadyLoad) begin(ctx context.Context, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, round := l.client, l.round
	l.group.Go(func() {
		pays, user := n%4 != 0, fmt.Sprintf("loaded-%d", n)
		buy, sale := lapse, l.lapsing
		if pays {
			buy, sale = l.buyAndGiveContact, l.paid
		}
		err := errors.Join(buy(ctx, c, sale, user), readStock(ctx, c, sale))
		c.Close() // a new connection may go to the other process
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil && l.err == nil {
			l.err = fmt.Errorf("purchase of %s: %w", user, err)
		}
		l.done[pays]++
		if round == l.round {
			l.fresh++
		}
		close(l.next)
		l.next = make(chan struct{})
	})
}

func (l *steadyLoad) buyAndGiveContact(ctx context.Context, c *client.Client, sale shop.Sale, userID string) error {
	orderSN, err := shop.BuyOne(ctx, c, sale, userID)
	if err != nil {
		return err
	}
	token, err := c.Token(ctx, userID)
	if err != nil {
		return err
	}
	g := given{userID, orderSN, client.Contact{Name: "Buyer " + userID, Phone: "+8613800138000"}}
	if _, err := c.As(token).PutContact(ctx, orderSN, g.contact); err != nil {
		return err
	}
	l.mu.Lock()
	l.contacts = append(l.contacts, g)
	l.mu.Unlock()
	return g.check(ctx, c)
}

// check reads the contact back.
func (g given) check(ctx context.Context, c *client.Client) error {
	token, err := c.Token(ctx, g.userID)
	if err != nil {
		return err
	}
	got, err := c.As(token).Contact(ctx, g.orderSN)
	if err == nil && (got.Name != g.contact.Name || got.Phone != g.contact.Phone) {
		err = fmt.Errorf("contact of order %s is %+v", g.orderSN, got)
	}
	return err
}

func readStock(ctx context.Context, c *client.Client, sale shop.Sale) error {
	token, err := c.Token(ctx, "merchant-1", auth.Merchant)
	if err != nil {
		return err
	}
	_, err = c.As(token).Stock(ctx, sale.ActivityID)
	return err
}

// waitForPurchases waits for the end of n purchases that begin after its call.
func (l *steadyLoad) waitForPurchases(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	l.round++
	l.fresh = 0
	l.mu.Unlock()
	for {
		l.mu.Lock()
		ended, next := l.fresh, l.next
		l.mu.Unlock()
		if ended >= n {
			return
		}
		select {
		case <-next:
		case <-time.After(30 * time.Second):
			require.NoError(t, l.failed())
			require.Fail(t, "no purchase has ended for 30 s")
		}
	}
}

// switchTo lets later purchases use c, and waits for the end of the earlier ones.
func (l *steadyLoad) switchTo(t *testing.T, c *client.Client) {
	t.Helper()
	l.mu.Lock()
	earlier := l.group
	l.client, l.group = c, &sync.WaitGroup{}
	l.mu.Unlock()
	earlier.Wait()
}

// stop begins no more purchases, waits for the end of all, and returns how many were paid and how many were not.
func (l *steadyLoad) stop() (paid, lapsed int) {
	l.cancel()
	<-l.ended
	l.group.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[true], l.done[false]
}

func (l *steadyLoad) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
