package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
)

type buyersCmd struct {
	loadFlags
	Stock     int64         `default:"1000" help:"Units of the new sale."`
	PayWithin time.Duration `default:"15m" help:"Pay window of the new sale."`
	Buyers    int           `default:"10000" help:"Distinct users, one attempt each."`
	Width     int           `default:"200" help:"Concurrent buyers; with --rate their bound."`
	Rate      float64       `help:"Buyers that begin each second, whether or not earlier ones have ended (open loop)."`
	Follow    time.Duration `default:"60s" help:"Wait for accepted purchases to become orders; 0 means not to wait."`
	NoRetry   bool          `help:"Count 429, 503 and time-outs instead of retrying."`
}

// Validate is called by kong.
func (c *buyersCmd) Validate() error {
	if c.Buyers < 1 || c.Width < 1 || c.Rate < 0 {
		return fmt.Errorf("%d buyers, %d at a time, %g a second", c.Buyers, c.Width, c.Rate)
	}
	return nil
}

func (c *buyersCmd) Run(e env) error {
	opts := client.Options{Connections: c.Width}
	if c.NoRetry {
		opts.Attempts = 1
	}
	cl, err := e.connect(opts)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = c.test(e, cl, loadTest{
		stock: c.Stock, payWithin: c.PayWithin, perUser: 1, users: c.Buyers,
		run: func(activityID, sku string, buyers []purchase.Buyer) (load.Report, error) {
			if sku == "" {
				return load.Report{}, fmt.Errorf("activity %s has no items", activityID)
			}
			r := &buyersRun{
				buyersCmd: c, activityID: activityID, lines: []contract.Line{{SKUID: sku, Qty: 1}}, buyers: buyers,
				attempts: make([]purchase.Attempt, len(buyers)), responded: make([]time.Time, len(buyers)),
			}
			return r.run(e.ctx)
		},
	})
	return err
}

// buyersRun is a load test in progress.
type buyersRun struct {
	*buyersCmd
	activityID string
	lines      []contract.Line
	buyers     []purchase.Buyer
	attempts   []purchase.Attempt
	responded  []time.Time // when each attempt ended

	mu sync.Mutex
	// attempt is from the moment at which a buyer was due (open loop) or began (closed loop) to the last response, with
	// the wait for a free connection. order is from that response to the order's created_at; the clocks must agree.
	attempt, path, reserve, order load.Step
}

func (r *buyersRun) run(ctx context.Context) (load.Report, error) {
	r.attempt.Name, r.path.Name, r.reserve.Name, r.order.Name = "attempt", "path", "reserve", "order"
	began := time.Now()
	r.buyAll(ctx, began)
	report := load.Report{Took: time.Since(began)}
	var err error
	if r.Follow > 0 && ctx.Err() == nil {
		err = r.follow(ctx)
	}
	report.Steps = []load.Step{r.attempt, r.path, r.reserve, r.order}
	return report, errors.Join(err, ctx.Err())
}

// buyAll starts each buyer at its time and waits for all of them.
func (r *buyersRun) buyAll(ctx context.Context, began time.Time) {
	slots := make(chan struct{}, r.Width)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range r.buyers {
		var due time.Time
		if r.Rate > 0 {
			// The schedule is fixed from the start, so that slow responses do not move it.
			due = began.Add(time.Duration(float64(i) / r.Rate * float64(time.Second)))
			_ = load.Until(ctx, due)
		}
		select {
		case <-ctx.Done():
		case slots <- struct{}{}:
		}
		if ctx.Err() != nil {
			return
		}
		if due.IsZero() {
			due = time.Now()
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r.buy(ctx, i, due)
		})
	}
}

// buy makes the attempt of buyer i and records it.
func (r *buyersRun) buy(ctx context.Context, i int, due time.Time) {
	a := purchase.Buy(ctx, r.buyers[i].Caller, r.buyers[i].UserID, r.activityID, r.lines)
	r.responded[i] = time.Now()
	r.attempts[i] = a
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempt.Time(r.responded[i].Sub(due))
	r.path.Time(a.PathTook)
	if a.ReserveTook > 0 {
		r.reserve.Time(a.ReserveTook)
	}
	if a.Err != nil {
		r.attempt.Fail(string(a.Outcome), a.Err)
	} else {
		r.attempt.Count(string(a.Outcome), 1)
	}
}

// follow polls each accepted purchase until it is no longer queued, at most for Follow, and records its status.
func (r *buyersRun) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Follow)
	defer cancel()
	var accepted []int
	for i, a := range r.attempts {
		if a.Outcome == purchase.Accepted {
			accepted = append(accepted, i)
		}
	}
	err := purchase.Each(ctx, r.Width, len(accepted), func(ctx context.Context, n int) error {
		i := accepted[n]
		result, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return r.buyers[i].Reservation(ctx, r.activityID, r.attempts[i].OrderSN)
		}, func(result client.Reservation) bool { return result.Status != client.Queued })
		var order client.Order
		if err == nil && result.Status != client.Failed {
			order, err = r.buyers[i].Order(ctx, result.OrderSN)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.order.Fail("not in time", err)
			return nil
		}
		r.order.Count(string(result.Status), 1)
		if !order.CreatedAt.IsZero() {
			r.order.Time(max(order.CreatedAt.Sub(r.responded[i]), 0))
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the report counts these as not in time
	}
	return err
}
