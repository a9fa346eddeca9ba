package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/load"
)

// buyer is one distinct user, with token and path for one purchase.
type buyer struct {
	token   string
	path    string
	orderSN string
}

// sale is one sale of the run, with its accepted purchases.
type sale struct {
	load.Target
	stock    int64
	mu       sync.Mutex
	accepted []string // order_sns

	unavailable atomic.Int64 // responses with status 503, of paths and purchases
}

func (s *sale) accept(orderSN string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, orderSN)
}

func (s *sale) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// newSale creates and publishes a sale of stock units with a limit of one for each buyer.
func (b *bench) newSale(ctx context.Context, stock int64, payWithin time.Duration) (*sale, error) {
	sku, err := b.merchant.NewProduct(ctx, client.Product{Name: "Bench phone", ListPrice: 49900, Currency: "EUR"})
	if err != nil {
		return nil, err
	}
	id, err := b.merchant.NewActivity(ctx, client.Draft{
		Title: "Bench", PerUserLimit: 1, PayWithinS: int64(payWithin / time.Second),
		StartsAt: b.began.Add(-time.Hour), EndsAt: b.began.Add(24 * time.Hour),
		Items: []client.Item{{SKUID: sku, Price: 49900, Stock: stock}},
	})
	if err != nil {
		return nil, err
	}
	if err := b.merchant.Change(ctx, id, "publish"); err != nil {
		return nil, err
	}
	s := &sale{Target: load.Target{Host: b.seckill(), ActivityID: id, SKUID: sku}, stock: stock}
	b.sales = append(b.sales, s)
	return s, nil
}

// newBuyers returns n new users with signed tokens.
func (b *bench) newBuyers(ctx context.Context, n int) (buyers []buyer, err error) {
	prefix := b.userPrefix()
	buyers = make([]buyer, n)
	for i := range buyers {
		if buyers[i].token, err = b.client.Token(ctx, prefix+strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return buyers, nil
}

// userPrefix returns the beginning of user ids that no earlier user has.
func (b *bench) userPrefix() string {
	b.buyerGroups++
	return "b" + strconv.FormatInt(b.began.UnixMilli(), 36) + "-" + strconv.Itoa(b.buyerGroups) + "-"
}

// prepare creates a sale, and n buyers with a path each unless they fetch it inline.
func (b *bench) prepare(ctx context.Context, stock int64, n int, inline bool) (*sale, []buyer, error) {
	s, err := b.newSale(ctx, stock, 24*time.Hour)
	if err != nil {
		return nil, nil, err
	}
	buyers, err := b.newBuyers(ctx, n)
	if err != nil || inline {
		return s, buyers, err
	}
	return s, buyers, b.fetchPaths(ctx, s, buyers)
}

// sold creates a sale of n units, sells it out and waits until all of its orders exist.
func (b *bench) sold(ctx context.Context, n int, payWithin time.Duration) (*sale, []buyer, error) {
	s, err := b.newSale(ctx, int64(n), payWithin)
	if err != nil {
		return nil, nil, err
	}
	buyers, err := b.newBuyers(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	if err := b.fetchPaths(ctx, s, buyers); err != nil {
		return nil, nil, err
	}
	if _, err := b.buy(ctx, s, buyers, traffic{}); err != nil {
		return nil, nil, err
	}
	_, err = b.landed(ctx)
	return s, buyers, err
}

// warmUp sells 5,000 units and lands them without a measurement: the broker's JVM compiles its code, and connection
// pools are filled.
func (b *bench) warmUp(ctx context.Context) error {
	_, _, err := b.sold(ctx, b.scaledCount(5000, 200), 24*time.Hour)
	return err
}

// connections is the number of connections of the generator where a section does not name another one.
const connections = 256

// traffic describes how the requests of a sale are sent.
type traffic struct {
	conns  int           // 0 means connections
	within time.Duration // 0 means until every buyer was served
}

// send sends a batch. It fails if one of the requests had an unexpected response, which wrong holds, or none.
func (b *bench) send(ctx context.Context, what string, batch load.Batch, wrong *atomic.Value) (load.BatchResult, error) {
	batch.Addr, batch.Conns = cmp.Or(batch.Addr, b.seckill()), cmp.Or(batch.Conns, connections)
	result, err := batch.Send(ctx)
	if err == nil && wrong.Load() != nil {
		err = fmt.Errorf("unexpected response to a %s: %s", what, wrong.Load())
	}
	if err == nil && result.GivenUp > 0 {
		err = fmt.Errorf("%d requests of a %s got no response: %s", result.GivenUp, what, result.Example)
	}
	return result, err
}

// fetchPaths fetches a path for each buyer.
func (b *bench) fetchPaths(ctx context.Context, s *sale, buyers []buyer) error {
	var wrong atomic.Value
	batch := load.Batch{N: len(buyers), Request: pathRequest(s, buyers), Response: pathResponse(s, buyers, &wrong)}
	paths, err := b.send(ctx, "path", batch, &wrong)
	b.logf("%d paths fetched, %.0f/s", len(buyers), paths.PerSec())
	return err
}

// buy makes the purchase of each buyer, who has a path, and records the accepted ones in the sale.
func (b *bench) buy(ctx context.Context, s *sale, buyers []buyer, t traffic) (load.BatchResult, error) {
	var wrong atomic.Value
	batch := load.Batch{Conns: t.conns, N: len(buyers), For: t.within}
	batch.Request, batch.Response = purchaseRequest(s, buyers), purchaseResponse(s, buyers, &wrong)
	return b.send(ctx, "purchase", batch, &wrong)
}

// buyInline makes the two requests of each buyer on the same connection: for a path, and the purchase with it.
func (b *bench) buyInline(ctx context.Context, s *sale, buyers []buyer, t traffic) (load.BatchResult, error) {
	var wrong atomic.Value
	batch := load.Batch{Conns: t.conns, N: len(buyers), For: t.within}
	batch.Request, batch.Response = pathRequest(s, buyers), pathResponse(s, buyers, &wrong)
	batch.Second, batch.SecondResponse = purchaseRequest(s, buyers), purchaseResponse(s, buyers, &wrong)
	return b.send(ctx, "path and purchase", batch, &wrong)
}

func pathRequest(s *sale, buyers []buyer) func(i int, buf []byte) []byte {
	return func(i int, buf []byte) []byte { return s.AppendPath(buf, buyers[i].token) }
}

// purchaseRequest returns the function that appends the purchase of a buyer who has a path.
func purchaseRequest(s *sale, buyers []buyer) func(i int, buf []byte) []byte {
	return func(i int, buf []byte) []byte {
		if buyers[i].path == "" {
			return buf // the response to the path request was wrong
		}
		return s.AppendPurchase(buf, buyers[i].token, buyers[i].path)
	}
}

// pathResponse returns the function that keeps the path of a buyer. It stores an unexpected response in wrong.
func pathResponse(s *sale, buyers []buyer, wrong *atomic.Value) func(i int, r *load.Response) bool {
	return func(i int, r *load.Response) bool {
		if r.Status == 503 {
			s.unavailable.Add(1)
		}
		if r.Status == 503 || r.Status == 429 {
			return true
		}
		buyers[i].path, buyers[i].orderSN = r.Member("path"), r.Member("order_sn")
		if r.Status != 201 || buyers[i].path == "" || buyers[i].orderSN == "" {
			wrong.Store(unexpected(r))
		}
		return false
	}
}

// purchaseResponse returns the function that records an accepted purchase in the sale. It stores a final response other
// than 202 and sold_out in wrong.
func purchaseResponse(s *sale, buyers []buyer, wrong *atomic.Value) func(i int, r *load.Response) bool {
	return func(i int, r *load.Response) bool {
		switch {
		case r.Status == 202:
			s.accept(buyers[i].orderSN)
		case r.Status == 503:
			s.unavailable.Add(1)
			return true // the outcome is unknown, so repeat the request
		case r.Status == 409 && r.Member("code") == "sold_out":
		default:
			wrong.Store(unexpected(r))
		}
		return false
	}
}

func unexpected(r *load.Response) string { return fmt.Sprintf("status %d: %.200s", r.Status, r.Body) }
