// Package counts counts path and purchase requests by activity in memory and adds the counts to the gates once a
// second.
package counts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/stockgate/counting"
)

const maxActivities = 1024

// Redis holds the method of *stockgate.Gate that a Recorder uses.
type Redis interface {
	AddCounts(ctx context.Context, activityID, source string, c stockgate.RequestCounts) error
}

// Recorder counts path and purchase requests.
type Recorder struct {
	*counting.Activities[*requests, stockgate.RequestCounts]
}

// requests are those of one activity.
type requests struct {
	accepted, paths, solved, failed atomic.Int64
	refused                         sync.Map // contract.Code -> *atomic.Int64
}

// NewRecorder returns a Recorder; Run makes it write.
func NewRecorder(redis Redis, o counting.Options) *Recorder {
	return &Recorder{counting.NewActivities(counting.Kind[*requests, stockgate.RequestCounts]{
		Name: "request counts", Every: time.Second, Unit: time.Second, MaxActivities: maxActivities,
		New: func() *requests { return &requests{} },
		Add: func(ctx context.Context, activityID, source string, at time.Time, c stockgate.RequestCounts) error {
			c.At = at
			return redis.AddCounts(ctx, activityID, source, c)
		},
	}, o)}
}

// Path counts an issued path.
func (r *Recorder) Path(activityID string) {
	r.Count(activityID, true, func(c *requests) { c.paths.Add(1) })
}

// Solved counts a solved challenge.
func (r *Recorder) Solved(activityID string) {
	r.Count(activityID, true, func(c *requests) { c.solved.Add(1) })
}

// Failed counts a wrong answer to a challenge.
func (r *Recorder) Failed(activityID string) {
	r.Count(activityID, true, func(c *requests) { c.failed.Add(1) })
}

// Accepted counts an accepted purchase.
func (r *Recorder) Accepted(activityID string) {
	r.Count(activityID, true, func(c *requests) { c.accepted.Add(1) })
}

// Refused counts a refused path or purchase request.
func (r *Recorder) Refused(activityID string, code contract.Code) {
	r.Count(activityID, false, func(c *requests) {
		n, ok := c.refused.Load(code)
		if !ok {
			n, _ = c.refused.LoadOrStore(code, new(atomic.Int64))
		}
		n.(*atomic.Int64).Add(1)
	})
}

// Take implements counting.Counter.
func (c *requests) Take() (counted stockgate.RequestCounts, some bool) {
	counted = stockgate.RequestCounts{
		Accepted: c.accepted.Swap(0), Paths: c.paths.Swap(0), Solved: c.solved.Swap(0), Failed: c.failed.Swap(0),
	}
	some = counted.Accepted > 0 || counted.Paths > 0 || counted.Solved > 0 || counted.Failed > 0
	c.refused.Range(func(code, n any) bool {
		if n := n.(*atomic.Int64).Swap(0); n > 0 {
			if counted.Refused == nil {
				counted.Refused = map[string]int64{}
			}
			counted.Refused[string(code.(contract.Code))] = n
			some = true
		}
		return true
	})
	return counted, some
}
