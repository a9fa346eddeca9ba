package trouble

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// TestAttackers runs programs against the services behind the real edge, with the limits of production. Meanwhile
// ordinary buyers, each from an address of its own, must be served at their first call. It prints a row for each
// attacker: what it tried, and what it got.
func TestAttackers(t *testing.T) {
	r := rig.New(t, rig.Env("TRUSTED_PROXIES", "127.0.0.1/32"), rig.Env("CHALLENGE_IMAGES", "24"),
		rig.Env("LIMIT_RULES", filepath.Join(rig.Root(t), "pkg/admission/rules.yaml")))
	a := &attacked{r: r, edge: rig.StartEdge(t, r.Seckill.URL, r.Order.URL, r.Inventory.URL)}
	a.provider = rig.StartIdentityProvider(t, a.edge.URL)
	for name, value := range a.provider.Settings {
		r.Seckill.Set(name, value)
	}
	r.Up(t)
	r.WithoutFsync(t)
	a.sale = shop.Open(t, r, shop.Sale{Stock: 100_000, PayWithinS: 600})
	const tickets = 400_000
	drawn := a.drawOf(t, tickets) // is due in some minutes, in which the others attack

	t.Run("blind robot", a.blindRobot)
	t.Run("one solution for many accounts", a.sharedSolution)
	t.Run("own cookie repeated", a.repeatedCookie)
	t.Run("10,000 tickets of one address", a.ticketsOfOneAddress)
	t.Run("slow readers", func(t *testing.T) { a.slowReaders(t, drawn, tickets) })
}

// attacked is the system that programs attack.
type attacked struct {
	r                *rig.Rig
	edge             rig.Edge
	provider         rig.IdentityProvider
	sale             shop.Sale // without waiting room and challenge, for ordinary buyers
	addresses, users atomic.Int64
}

// row prints what an attacker got.
func (a *attacked) row(t *testing.T, tried, got string, served int) {
	t.Helper()
	t.Logf("| %s | %s | %s | %d ordinary buyers served, 0 refused |", t.Name(), tried, got, served)
}

// address returns an address of this machine that no caller had. The edge passes it on.
func (a *attacked) address() net.Addr {
	n := a.addresses.Add(1)
	return &net.TCPAddr{IP: net.IPv4(127, 1, byte(n/250), byte(1+n%250))}
}

// browser returns a client of the edge at an address of its own.
func (a *attacked) browser(t *testing.T) *http.Client {
	dialer := net.Dialer{LocalAddr: a.address(), Timeout: 5 * time.Second}
	through := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64}
	t.Cleanup(through.CloseIdleConnections)
	return &http.Client{Transport: through, Timeout: anyWithin}
}

// accounts returns n accounts at an address of their own, which make each call once.
func (a *attacked) accounts(t *testing.T, n int) []purchase.Buyer {
	c := client.New(client.Single(a.edge.URL), client.Options{
		Secret: rig.TokenSecret, Attempts: 1, Timeout: 20 * time.Second, Transport: a.browser(t).Transport,
	})
	made := make([]purchase.Buyer, n)
	for i := range made {
		id := "user-" + strconv.FormatInt(a.users.Add(1), 10)
		token, err := c.Token(t.Context(), id)
		if err != nil { // impossible: the token is signed here
			panic(err)
		}
		made[i] = purchase.Buyer{UserID: id, Caller: c.As(token)}
	}
	return made
}

// buys is an ordinary buyer of the sale without waiting room and challenge.
func (a *attacked) buys(ctx context.Context, b purchase.Buyer) error {
	return purchase.Buy(ctx, b.Caller, b.UserID, a.sale.ActivityID, a.sale.Lines()).Err
}

// meanwhile attacks while ordinary buyers act, five a second, and returns how many did. None may be refused.
func (a *attacked) meanwhile(
	t *testing.T, act func(context.Context, purchase.Buyer) error, attack func(),
) (served int) {
	t.Helper()
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for assert.NoError(t, act(t.Context(), a.accounts(t, 1)[0]), "ordinary buyer %d", served+1) {
			served++
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	})
	func() {
		defer work.Wait()
		defer close(ended)
		attack()
	}()
	return served
}

// responses counts responses by their status.
type responses struct {
	sync.Mutex
	n map[int]int
}

func (r *responses) add(status int) {
	r.Lock()
	defer r.Unlock()
	r.n[status]++
}

// statusOf returns the status of the response to a call that creates something, 0 if there was none.
func statusOf(err error) int {
	if p := client.AsProblem(err); p != nil {
		return p.Status
	} else if err != nil {
		return 0
	}
	return http.StatusCreated
}

// newRoom publishes a sale with a waiting room and waits until it is open. It returns the id.
func (a *attacked) newRoom(t *testing.T, startsIn time.Duration) string {
	t.Helper()
	start := time.Now().Add(startsIn)
	id, err := a.sale.Merchant.NewActivity(t.Context(), client.Draft{
		Title: "Sale", StartsAt: start, EndsAt: start.Add(time.Hour), PerUserLimit: 1, PayWithinS: 300,
		Items:       []client.Item{{SKUID: a.sale.SKUID, Price: 49900, Stock: 1000}},
		WaitingRoom: &client.WaitingRoom{AdmitPerSecond: 1000},
	})
	require.NoError(t, err)
	require.NoError(t, a.sale.Merchant.Change(t.Context(), id, "publish"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := a.accounts(t, 1)[0].JoinRoom(t.Context(), id)
		assert.NoError(c, err)
	}, anyWithin, 100*time.Millisecond)
	return id
}
