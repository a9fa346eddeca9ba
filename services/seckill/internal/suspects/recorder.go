// Package suspects counts refused requests by address and by user in bounded memory, and adds the most frequent of
// them to the gates every few seconds.
package suspects

import (
	"context"
	"sync"
	"time"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/stockgate/counting"
	"flashsale.internal/services/seckill/internal/core"
)

// Bounds of a Recorder.
const (
	flushEvery    = 5 * time.Second
	maxActivities = 256
	keptKeys      = stockgate.MaxSuspectsAdded // of each kind, for each activity
)

// Redis holds the method of *stockgate.Gate that a Recorder uses.
type Redis interface {
	AddSuspects(ctx context.Context, activityID, source string, until time.Time, s stockgate.Suspects) error
}

// Recorder counts refused requests.
type Recorder struct {
	*counting.Activities[*refused, stockgate.Suspects]
}

// refused are the refused requests of one activity.
type refused struct {
	mu               sync.Mutex
	addresses, users *Sketch // nil: there are none
}

// NewRecorder returns a Recorder; Run makes it write.
func NewRecorder(redis Redis, o counting.Options) *Recorder {
	return &Recorder{counting.NewActivities(counting.Kind[*refused, stockgate.Suspects]{
		Name: "counts of suspects", Every: flushEvery, Unit: time.Millisecond, MaxActivities: maxActivities,
		New: func() *refused { return &refused{} }, Add: redis.AddSuspects,
	}, o)}
}

// Address counts a refused request of an address.
func (r *Recorder) Address(activityID, address string, c core.Cause) {
	r.add(activityID, address, c, func(of *refused) **Sketch { return &of.addresses })
}

// User counts a refused request of a user.
func (r *Recorder) User(activityID, userID string, c core.Cause) {
	r.add(activityID, userID, c, func(of *refused) **Sketch { return &of.users })
}

func (r *Recorder) add(activityID, key string, c core.Cause, sketch func(*refused) **Sketch) {
	if key != "" {
		r.Count(activityID, false, func(of *refused) { of.add(key, c, sketch(of)) })
	}
}

func (r *refused) add(key string, c core.Cause, to **Sketch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *to == nil {
		*to = NewSketch(keptKeys)
	}
	(*to).Add(key, c)
}

// Take implements counting.Counter.
func (r *refused) Take() (counted stockgate.Suspects, some bool) {
	r.mu.Lock()
	addresses, users := r.addresses, r.users
	r.addresses, r.users = nil, nil
	r.mu.Unlock()
	if addresses != nil {
		counted.Addresses = addresses.Suspects()
	}
	if users != nil {
		counted.Users = users.Suspects()
	}
	return counted, addresses != nil || users != nil
}
