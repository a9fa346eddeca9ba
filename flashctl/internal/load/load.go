// Package load lets many distinct buyers buy at once and measures what they see.
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

// Plan is what to do.
type Plan struct {
	ActivityID string
	Lines      []contract.Line
	// Width is how many buyers are at work at a time (closed loop: the next begins when one ends); with a Rate, how many
	// may be at work at most.
	Width int
	// Rate is how many buyers begin in a second, whether or not the earlier ones have ended (open loop); 0 = closed loop.
	Rate float64
	// Follow waits for each accepted purchase until it is an order, and measures that too.
	Follow time.Duration
}

// Report is what happened.
type Report struct {
	Buyers   int                         `json:"buyers"`
	Took     time.Duration               `json:"took_ns"`
	PerSec   float64                     `json:"buyers_per_s"`
	Outcomes map[purchase.Outcome]int    `json:"outcomes"`
	Example  map[purchase.Outcome]string `json:"examples"` // of a refusal or error, the first
	// Whole is from the moment a buyer was due to begin (open loop; else began) to the answer, so waiting for a free
	// connection counts.
	Whole   latency.Summary       `json:"whole"`
	Path    latency.Summary       `json:"path"`
	Reserve latency.Summary       `json:"reserve"`
	Order   latency.Summary       `json:"order"` // from acceptance to the order, by its created_at: both clocks must agree
	Results map[client.Status]int `json:"results"`
	Unknown int                   `json:"results_not_in_time"`
}

// Run lets each buyer make one attempt.
func Run(ctx context.Context, buyers []purchase.Buyer, plan Plan) (Report, error) {
	var (
		whole, path, reserve, order latency.Recorder
		mu                          sync.Mutex
	)
	report := Report{
		Buyers: len(buyers), Outcomes: map[purchase.Outcome]int{}, Example: map[purchase.Outcome]string{},
		Results: map[client.Status]int{},
	}
	began := time.Now()
	attempts := make([]purchase.Attempt, len(buyers))
	answered := make([]time.Time, len(buyers))
	slots := make(chan struct{}, plan.Width)
	var wg sync.WaitGroup
	for i := range buyers {
		var due time.Time
		if plan.Rate > 0 {
			// The schedule is fixed from the start, so that slow answers delay nobody's due time.
			due = began.Add(time.Duration(float64(i) / plan.Rate * float64(time.Second)))
			until(ctx, due)
		}
		select {
		case <-ctx.Done():
		case slots <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		if due.IsZero() {
			due = time.Now()
		}
		wg.Go(func() {
			defer func() { <-slots }()
			a := purchase.Buy(ctx, buyers[i].Caller, buyers[i].UserID, plan.ActivityID, plan.Lines)
			answered[i] = time.Now()
			attempts[i] = a
			whole.Add(answered[i].Sub(due))
			path.Add(a.PathTook)
			if a.ReserveTook > 0 {
				reserve.Add(a.ReserveTook)
			}
			mu.Lock()
			defer mu.Unlock()
			report.Outcomes[a.Outcome]++
			if a.Err != nil && report.Example[a.Outcome] == "" {
				report.Example[a.Outcome] = a.Err.Error()
			}
		})
	}
	wg.Wait()
	report.Took = time.Since(began)
	report.PerSec = float64(len(buyers)) / report.Took.Seconds()

	var err error
	if plan.Follow > 0 && ctx.Err() == nil {
		err = follow(ctx, buyers, attempts, plan, func(i int, r client.Reservation, made time.Time, ferr error) {
			mu.Lock()
			defer mu.Unlock()
			if ferr != nil {
				report.Unknown++
				return
			}
			report.Results[r.Status]++
			if !made.IsZero() {
				order.Add(max(made.Sub(answered[i]), 0))
			}
		})
	}
	report.Whole, report.Path, report.Reserve, report.Order = whole.Sum(), path.Sum(), reserve.Sum(), order.Sum()
	return report, errors.Join(err, ctx.Err())
}

// follow polls each accepted purchase until it is not queued any more.
func follow(ctx context.Context, buyers []purchase.Buyer, attempts []purchase.Attempt, plan Plan,
	tell func(i int, r client.Reservation, made time.Time, err error),
) error {
	ctx, cancel := context.WithTimeout(ctx, plan.Follow)
	defer cancel()
	var accepted []int
	for i, a := range attempts {
		if a.Outcome == purchase.Accepted {
			accepted = append(accepted, i)
		}
	}
	err := purchase.Each(ctx, plan.Width, len(accepted), func(ctx context.Context, n int) error {
		i := accepted[n]
		r, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return buyers[i].Reservation(ctx, plan.ActivityID, attempts[i].OrderSN)
		}, func(r client.Reservation) bool { return r.Status != client.Queued })
		var order client.Order
		if err == nil && r.Status != client.Failed {
			order, err = buyers[i].Order(ctx, r.OrderSN)
		}
		tell(i, r, order.CreatedAt, err)
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // those are counted as not in time
	}
	return err
}

func until(ctx context.Context, t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
