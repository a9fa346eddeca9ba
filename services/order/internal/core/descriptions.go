package core

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	// descriptionsFresh is how long the latest description of an activity is used without reading it again.
	descriptionsFresh = 10 * time.Second
	// maxDescriptions bounds the descriptions in memory.
	maxDescriptions = 1024
	// descriptionPause is how long a description that the tables refused is not tried again.
	descriptionPause = time.Minute
)

// DescriptionKey names the description of an activity that inventory read at a time, or the latest one if that is zero.
type DescriptionKey struct {
	ActivityID string
	AsOf       int64 // ms since 1970
}

func latestOf(activityID string) DescriptionKey { return DescriptionKey{ActivityID: activityID} }

// description returns the key of what the order shows: what was bought. If nothing was known then, it shows the latest.
func (o Order) description() DescriptionKey {
	if o.DescribedAt.IsZero() {
		return latestOf(o.ActivityID)
	}
	return DescriptionKey{o.ActivityID, o.DescribedAt.UnixMilli()}
}

// descriptions keeps descriptions of activities in memory, so that in the steady state neither a message of deductions
// nor a list of orders needs a statement for them.
type descriptions struct {
	mu    sync.Mutex
	known map[DescriptionKey]knownDescription
}

type knownDescription struct {
	contract.ActivityInfo
	stored      bool // false: the tables had none
	readAt      time.Time
	failedUntil time.Time // of the latest: descriptions are not stored before this time
}

func (d *descriptions) get(key DescriptionKey) (knownDescription, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[key]
	return known, ok
}

// put keeps a description. One too many replaces the one that was read longest ago.
func (d *descriptions) put(key DescriptionKey, known knownDescription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[DescriptionKey]knownDescription{}
	}
	if _, ok := d.known[key]; !ok && len(d.known) >= maxDescriptions {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(d.known)), func(x, y DescriptionKey) int {
			return d.known[x].readAt.Compare(d.known[y].readAt)
		})
		delete(d.known, oldest)
	}
	d.known[key] = known
}

// describe stores the descriptions that a message carries and the tables lack, and returns the time of each by its
// activity. It executes no statement for one that this process has in memory: the latest for descriptionsFresh, since
// another process may have stored a later one. Only a transient error is returned, since the deductions of the message do
// not depend on the descriptions. After any other error, the activity is left out for a minute.
func (s *Service) describe(ctx context.Context, about []contract.ActivityInfo) (map[string]time.Time, error) {
	described := make(map[string]time.Time, len(about))
	for _, a := range about {
		now := s.now()
		a.EndsAt = a.EndsAt.UTC().Truncate(time.Millisecond)
		a.AsOf = a.AsOf.UTC().Truncate(time.Millisecond)
		known, _ := s.descriptions.get(latestOf(a.ActivityID))
		if now.Before(known.failedUntil) {
			continue
		}
		// Messages with an earlier content may come for long, each with the time of one of some readings.
		sent := DescriptionKey{a.ActivityID, a.AsOf.UnixMilli()}
		earlier, _ := s.descriptions.get(sent)
		switch {
		case known.stored && now.Sub(known.readAt).Abs() < descriptionsFresh && sameActivity(known.ActivityInfo, a):
			described[a.ActivityID] = known.AsOf
			continue
		case earlier.stored && sameActivity(earlier.ActivityInfo, a):
			described[a.ActivityID] = earlier.AsOf
			continue
		}
		var stored, latest contract.ActivityInfo
		err := s.store.InTx(ctx, "description transaction", func(tx Tx) (err error) {
			stored, latest, err = addDescription(tx, a)
			return err
		})
		switch {
		case err == nil:
			described[a.ActivityID] = stored.AsOf
			s.descriptions.put(latestOf(a.ActivityID), knownDescription{ActivityInfo: latest, stored: true, readAt: now})
			if !sameActivity(latest, stored) {
				s.descriptions.put(sent, knownDescription{ActivityInfo: stored, stored: true, readAt: now})
			}
		case contract.CodeOf(err) == contract.CodeUnavailable, ctx.Err() != nil:
			return nil, err
		default:
			known.failedUntil = now.Add(descriptionPause)
			s.descriptions.put(latestOf(a.ActivityID), known)
			s.rec.Incident(ctx, "activity_not_stored", "description of an activity cannot be stored",
				"activity_id", a.ActivityID, "error", err.Error())
		}
	}
	return described, nil
}

// addDescription inserts a description unless the latest, or for an earlier one any, has the same content. It returns the
// one that is stored, and the latest one. Two processes may insert the same content at once, each with its time.
func addDescription(tx Tx, a contract.ActivityInfo) (stored, latest contract.ActivityInfo, err error) {
	latest, found, err := tx.LockDescription(a.ActivityID)
	if err != nil || found && sameActivity(latest, a) {
		return latest, latest, err
	}
	now, err := tx.Now()
	if err != nil {
		return a, latest, err
	}
	if a.AsOf.After(now) { // with a time in the future it would stay the latest until then
		a.AsOf = now
	}
	if found && !a.AsOf.After(latest.AsOf) {
		if earlier, known, err := tx.EqualDescription(a); known || err != nil {
			return earlier, latest, err
		}
	}
	for range 10 {
		inserted, err := tx.InsertDescription(a)
		if err != nil {
			return a, latest, err
		}
		if inserted {
			if a.AsOf.After(latest.AsOf) {
				latest = a
			}
			return a, latest, nil
		}
		a.AsOf = a.AsOf.Add(time.Millisecond) // another content was read in the same millisecond
	}
	return a, latest, errors.New("ten descriptions have the same time")
}

// sameActivity reports whether two descriptions differ in nothing but their time.
func sameActivity(a, b contract.ActivityInfo) bool {
	return a.Title == b.Title && a.EndsAt.Equal(b.EndsAt) && slices.Equal(a.SKUs, b.SKUs)
}

// Descriptions returns what was bought with each of the orders: the description of its activity at the purchase, or the
// zero value if none is known. If the order has none, it is the latest, which may be 10 s old.
func (s *Service) Descriptions(ctx context.Context, orders []Order) ([]contract.ActivityInfo, error) {
	now := s.now()
	found := make(map[DescriptionKey]contract.ActivityInfo, len(orders))
	missing := map[DescriptionKey]bool{}
	for _, o := range orders {
		if o.ActivityID == "" { // there is no such order
			continue
		}
		key := o.description()
		known, ok := s.descriptions.get(key)
		final := known.stored && key.AsOf != 0
		switch {
		case !ok || !final && now.Sub(known.readAt).Abs() >= descriptionsFresh:
			missing[key] = true
		case known.stored:
			found[key] = known.ActivityInfo
		}
	}
	var err error
	if len(missing) > 0 {
		err = s.readDescriptions(ctx, slices.Collect(maps.Keys(missing)), now, found)
	}
	list := make([]contract.ActivityInfo, len(orders))
	for i, o := range orders {
		list[i] = found[o.description()]
	}
	return list, err
}

// readDescriptions reads descriptions into memory, and adds those that exist to found.
func (s *Service) readDescriptions(
	ctx context.Context, keys []DescriptionKey, now time.Time, found map[DescriptionKey]contract.ActivityInfo,
) error {
	read, err := s.store.Descriptions(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		a, stored := read[key]
		known, _ := s.descriptions.get(key)
		known.ActivityInfo, known.stored, known.readAt = a, stored, now
		s.descriptions.put(key, known)
		if stored {
			found[key] = a
		}
	}
	return nil
}
