// Package load makes many distinct buyers buy and measures the responses that they get.
package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/flashctl/internal/latency"
	"flashsale.internal/pkg/contract"
)

// Plan describes a load test.
type Plan struct {
	ActivityID string
	Lines      []contract.Line
	// Width is the number of concurrent buyers (closed loop: the next begins when one ends). With a Rate it is their
	// bound.
	Width int
	// Rate is the number of buyers that begin each second, whether or not earlier ones have ended (open loop). 0 means
	// closed loop.
	Rate float64
	// Follow is the time to wait for the accepted purchases to become orders, which is measured too. 0 means not to
	// wait.
	Follow time.Duration
}

// Report is the result of a load test.
type Report struct {
	Buyers   int                         `json:"buyers"`
	Took     time.Duration               `json:"took_ns"`
	PerSec   float64                     `json:"buyers_per_s"`
	Outcomes map[purchase.Outcome]int    `json:"outcomes"`
	Example  map[purchase.Outcome]string `json:"examples"` // the first refusal or error of each outcome
	// Whole is the time from the moment a buyer was due (open loop) or began (closed loop) to the last response. It
	// includes the wait for a free connection.
	Whole   latency.Summary       `json:"whole"`
	Path    latency.Summary       `json:"path"`
	Reserve latency.Summary       `json:"reserve"`
	Order   latency.Summary       `json:"order"` // from the response to the order's created_at; the clocks must agree
	Results map[client.Status]int `json:"results"`
	Unknown int                   `json:"results_not_in_time"`
}

// run is one load test in progress.
type run struct {
	plan      Plan
	buyers    []purchase.Buyer
	attempts  []purchase.Attempt
	responded []time.Time // when each attempt ended

	whole, path, reserve, order latency.Recorder

	mu     sync.Mutex
	report Report
}

// Run makes one attempt to buy for each buyer.
func Run(ctx context.Context, buyers []purchase.Buyer, plan Plan) (Report, error) {
	r := &run{
		plan: plan, buyers: buyers,
		attempts: make([]purchase.Attempt, len(buyers)), responded: make([]time.Time, len(buyers)),
		report: Report{
			Buyers: len(buyers), Outcomes: map[purchase.Outcome]int{}, Example: map[purchase.Outcome]string{},
			Results: map[client.Status]int{},
		},
	}
	began := time.Now()
	r.buyAll(ctx, began)
	r.report.Took = time.Since(began)
	r.report.PerSec = float64(len(buyers)) / r.report.Took.Seconds()
	var err error
	if plan.Follow > 0 && ctx.Err() == nil {
		err = r.follow(ctx)
	}
	r.report.Whole, r.report.Path = r.whole.Sum(), r.path.Sum()
	r.report.Reserve, r.report.Order = r.reserve.Sum(), r.order.Sum()
	return r.report, errors.Join(err, ctx.Err())
}

// buyAll starts each buyer at its time and waits for all of them.
func (r *run) buyAll(ctx context.Context, began time.Time) {
	slots := make(chan struct{}, r.plan.Width)
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range r.buyers {
		var due time.Time
		if r.plan.Rate > 0 {
			// The schedule is fixed from the start, so that slow responses do not move it.
			due = began.Add(time.Duration(float64(i) / r.plan.Rate * float64(time.Second)))
			until(ctx, due)
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
func (r *run) buy(ctx context.Context, i int, due time.Time) {
	a := purchase.Buy(ctx, r.buyers[i].Caller, r.buyers[i].UserID, r.plan.ActivityID, r.plan.Lines)
	r.responded[i] = time.Now()
	r.attempts[i] = a
	r.whole.Add(r.responded[i].Sub(due))
	r.path.Add(a.PathTook)
	if a.ReserveTook > 0 {
		r.reserve.Add(a.ReserveTook)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Outcomes[a.Outcome]++
	if a.Err != nil && r.report.Example[a.Outcome] == "" {
		r.report.Example[a.Outcome] = a.Err.Error()
	}
}

// follow polls each accepted purchase until it is no longer queued, at most for plan.Follow, and records its status.
func (r *run) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Follow)
	defer cancel()
	var accepted []int
	for i, a := range r.attempts {
		if a.Outcome == purchase.Accepted {
			accepted = append(accepted, i)
		}
	}
	err := purchase.Each(ctx, r.plan.Width, len(accepted), func(ctx context.Context, n int) error {
		i := accepted[n]
		result, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return r.buyers[i].Reservation(ctx, r.plan.ActivityID, r.attempts[i].OrderSN)
		}, func(result client.Reservation) bool { return result.Status != client.Queued })
		var order client.Order
		if err == nil && result.Status != client.Failed {
			order, err = r.buyers[i].Order(ctx, result.OrderSN)
		}
		r.recordResult(i, result.Status, order.CreatedAt, err)
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the report counts these as not in time
	}
	return err
}

// recordResult records the status of an accepted purchase. createdAt is zero if there is no order.
func (r *run) recordResult(i int, status client.Status, createdAt time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.report.Unknown++
		return
	}
	r.report.Results[status]++
	if !createdAt.IsZero() {
		r.order.Add(max(createdAt.Sub(r.responded[i]), 0))
	}
}

// until returns at t or when ctx ends.
func until(ctx context.Context, t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
