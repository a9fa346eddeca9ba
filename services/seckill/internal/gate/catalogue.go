package gate

import (
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
)

// Catalogue implements core.Catalogue.
type Catalogue struct{ Redis *stockgate.Gate }

var _ core.Catalogue = Catalogue{}

// Sale implements core.Catalogue. If Redis lacks the sale but still lists its gate, Redis has lost data, for example
// with a node of a Cluster. The sale exists and inventory will write it again, so Sale returns ErrNoGate, not
// ErrNoSale.
func (c Catalogue) Sale(ctx context.Context, activityID string) (core.Sale, error) {
	s, err := c.Redis.Sale(ctx, activityID)
	if errors.Is(err, stockgate.ErrNoSale) {
		activityIDs, listing := c.Redis.Registered(ctx)
		switch {
		case listing != nil:
			err = listing
		case slices.Contains(activityIDs, activityID):
			err = stockgate.ErrNoGate
		}
	}
	if err != nil {
		return core.Sale{}, MapError(err)
	}
	return toSale(s), nil
}

// Sales implements core.Catalogue.
func (c Catalogue) Sales(ctx context.Context) ([]core.Sale, error) {
	sales, err := c.Redis.Sales(ctx)
	if err != nil {
		return nil, MapError(err)
	}
	out := make([]core.Sale, len(sales))
	for i, s := range sales {
		out[i] = toSale(s)
	}
	return out, nil
}

// GateStates implements core.Catalogue.
func (c Catalogue) GateStates(ctx context.Context, activityIDs []string) (map[string]core.GateState, error) {
	levels, err := c.Redis.StockLevels(ctx, activityIDs...)
	if err != nil {
		return nil, MapError(err)
	}
	out := make(map[string]core.GateState, len(levels))
	var errs []error
	for i, l := range levels {
		if l.Err != nil {
			errs = append(errs, MapError(l.Err))
		}
		if l.Found {
			out[activityIDs[i]] = core.GateState{
				State: core.State(l.State), StartsAt: l.StartsAt, EndsAt: l.EndsAt, RoomRate: l.RoomRate,
				Challenge: l.Challenge, Left: l.Left, Unpaid: l.Unpaid,
			}
		}
	}
	return out, errors.Join(errs...)
}

// Backlog returns the number of purchases in the journal of a gate, and the age of the oldest one.
func (c Catalogue) Backlog(ctx context.Context, activityID string) (purchases int64, oldest time.Duration, err error) {
	b, err := c.Redis.Backlog(ctx, activityID)
	return b.JournalLen, b.OldestAge, MapError(err)
}

// Rooms returns the activities that have a waiting room and have not ended at that time.
func (c Catalogue) Rooms(ctx context.Context, now time.Time) ([]string, error) {
	levels, err := c.notEnded(ctx, now)
	var ids []string
	for _, l := range levels {
		if l.RoomRate > 0 {
			ids = append(ids, l.ActivityID)
		}
	}
	return ids, err
}

// Clicks reports whether an activity that has not ended at that time has images to click as its challenge.
func (c Catalogue) Clicks(ctx context.Context, now time.Time) (bool, error) {
	levels, err := c.notEnded(ctx, now)
	return slices.ContainsFunc(levels, func(l stockgate.StockLevel) bool {
		return l.Challenge.Kind == contract.ChallengeClick
	}), err
}

// notEnded returns the readable gates of the activities that have not ended at that time.
func (c Catalogue) notEnded(ctx context.Context, now time.Time) ([]stockgate.StockLevel, error) {
	activityIDs, err := c.Redis.Registered(ctx)
	if err != nil {
		return nil, MapError(err)
	}
	levels, err := c.Redis.StockLevels(ctx, activityIDs...)
	if err != nil {
		return nil, MapError(err)
	}
	return slices.DeleteFunc(levels, func(l stockgate.StockLevel) bool {
		return l.Err != nil || !l.Found || l.State == stockgate.GateEnded || !now.Before(l.EndsAt)
	}), nil
}

// Ready implements core.Catalogue.
func (c Catalogue) Ready(ctx context.Context) (bool, error) {
	ready, err := c.Redis.Ready(ctx)
	return ready, MapError(err)
}

// Now implements core.Catalogue.
func (c Catalogue) Now(ctx context.Context) (time.Time, error) {
	now, err := c.Redis.Now(ctx)
	return now, MapError(err)
}

func toSale(s stockgate.Sale) core.Sale {
	out := core.Sale{
		ActivityID: s.ActivityID, Title: s.Title, Description: s.Description, ImageURL: s.ImageURL,
		StartsAt: s.StartsAt, EndsAt: s.EndsAt, PerUserLimit: s.PerUserLimit,
		PayWithin: time.Duration(s.PayWithinS) * time.Second, Degraded: s.DegradedSale, Items: make([]core.Item, len(s.Items)),
	}
	for i, item := range s.Items {
		out.Items[i] = core.Item(item)
	}
	if s.Seller != nil {
		out.Seller = &core.Seller{Name: s.Seller.Name, TermsURL: s.Seller.TermsURL, Delivery: s.Seller.Delivery}
	}
	if s.Notice != nil {
		out.Notice = &core.Notice{Text: s.Notice.Text, At: s.Notice.At}
	}
	return out
}
