package core

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	// activitiesFresh is how long a description that was read is shown without reading it again.
	activitiesFresh = 10 * time.Second
	// maxActivities bounds the descriptions in memory.
	maxActivities = 1024
	// activityPause is how long a description that the tables refused is not tried again.
	activityPause = time.Minute
)

// activities keeps descriptions of activities in memory, so that in the steady state neither a message of deductions
// nor a list of orders needs a statement for them.
type activities struct {
	mu    sync.Mutex
	known map[string]knownActivity
}

type knownActivity struct {
	contract.ActivityInfo
	stored      bool // false: the tables had none
	readAt      time.Time
	failedUntil time.Time // descriptions are not stored before this time
}

func (a *activities) get(id string) (knownActivity, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.known[id]
	return known, ok
}

// put keeps a description. One too many replaces the one that was read longest ago.
func (a *activities) put(id string, known knownActivity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[string]knownActivity{}
	}
	if _, ok := a.known[id]; !ok && len(a.known) >= maxActivities {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(a.known)), func(x, y string) int {
			return a.known[x].readAt.Compare(a.known[y].readAt)
		})
		delete(a.known, oldest)
	}
	a.known[id] = known
}

// Describe stores the descriptions of activities that are later than those in the tables. It does nothing for those
// that this process has stored or read. Only a transient error is returned, since the deductions of the same message
// do not depend on the descriptions. After any other error, the activity is left out for a minute.
func (s *Service) Describe(ctx context.Context, about []contract.ActivityInfo) error {
	for _, a := range about {
		now := s.now()
		a.EndsAt = a.EndsAt.UTC().Truncate(time.Millisecond)
		a.AsOf = a.AsOf.UTC().Truncate(time.Millisecond)
		known, ok := s.activities.get(a.ActivityID)
		if now.Before(known.failedUntil) {
			continue
		}
		if ok && known.stored && (sameActivity(known.ActivityInfo, a) || !a.AsOf.After(known.AsOf)) {
			continue
		}
		err := s.store.InTx(ctx, "activity transaction", func(tx Tx) error {
			stored, found, err := tx.LockActivity(a.ActivityID)
			if err != nil {
				return err
			}
			latest, err := tx.Now()
			if err != nil {
				return err
			}
			if a.AsOf.After(latest) { // a time in the future would exclude all descriptions until then
				a.AsOf = latest
			}
			known = knownActivity{ActivityInfo: a, stored: true, readAt: now}
			if found && (sameActivity(stored, a) || !a.AsOf.After(stored.AsOf)) {
				known.ActivityInfo = stored
				return nil
			}
			return tx.PutActivity(a, found)
		})
		switch {
		case err == nil:
			s.activities.put(a.ActivityID, known)
		case contract.CodeOf(err) == contract.CodeUnavailable, ctx.Err() != nil:
			return err
		default:
			failed, _ := s.activities.get(a.ActivityID)
			failed.failedUntil = now.Add(activityPause)
			s.activities.put(a.ActivityID, failed)
			s.rec.Incident(ctx, "activity_not_stored", "description of an activity cannot be stored",
				"activity_id", a.ActivityID, "error", err.Error())
		}
	}
	return nil
}

// sameActivity reports whether two descriptions differ in nothing but their time.
func sameActivity(a, b contract.ActivityInfo) bool {
	return a.Title == b.Title && a.EndsAt.Equal(b.EndsAt) && slices.Equal(a.SKUs, b.SKUs)
}

// Activities returns the descriptions of these activities that are known. They may be 10 s old.
func (s *Service) Activities(ctx context.Context, ids []string) (map[string]contract.ActivityInfo, error) {
	now := s.now()
	found := make(map[string]contract.ActivityInfo, len(ids))
	var missing []string
	for _, id := range distinct(ids) {
		known, ok := s.activities.get(id)
		switch {
		case !ok || now.Sub(known.readAt).Abs() >= activitiesFresh:
			missing = append(missing, id)
		case known.stored:
			found[id] = known.ActivityInfo
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	read, err := s.store.Activities(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, id := range missing {
		a, stored := read[id]
		known, _ := s.activities.get(id)
		known.ActivityInfo, known.stored, known.readAt = a, stored, now
		s.activities.put(id, known)
		if stored {
			found[id] = a
		}
	}
	return found, nil
}
