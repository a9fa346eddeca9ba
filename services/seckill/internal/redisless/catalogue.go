package redisless

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/internal/core"
)

// Catalogue implements core.Catalogue: by inventory for the sales whose mode is not gate, and else by Redis.
type Catalogue struct {
	core.Catalogue
	Watch *Watch
}

var _ core.Catalogue = Catalogue{}

// Sale implements core.Catalogue.
func (c Catalogue) Sale(ctx context.Context, activityID string) (core.Sale, error) {
	if m := c.Watch.mode(activityID); m.Sale != nil {
		return sale(m), nil
	}
	return c.Catalogue.Sale(ctx, activityID)
}

func sale(m contract.ActivityMode) core.Sale {
	out := core.Sale{
		ActivityID: m.ActivityID, Title: m.Sale.Title, Description: m.Sale.Description, ImageURL: m.Sale.ImageURL,
		StartsAt: m.Sale.StartsAt, EndsAt: m.Sale.EndsAt, PerUserLimit: m.Sale.PerUserLimit,
		PayWithin: time.Duration(m.Sale.PayWithinS) * time.Second, Items: make([]core.Item, len(m.Sale.Items)),
	}
	for i, it := range m.Sale.Items {
		out.Items[i] = core.Item{
			SKUID: it.SKUID, Name: it.Name, ImageURL: it.ImageURL, Price: it.Price, ListPrice: it.ListPrice,
			Currency: it.Currency, Total: it.Total,
		}
	}
	if s := m.Sale.Seller; s != nil {
		out.Seller = &core.Seller{Name: s.Name, TermsURL: s.TermsURL, Delivery: s.Delivery}
	}
	if n := m.Sale.Notice; n != nil {
		out.Notice = &core.Notice{Text: n.Text, At: n.At}
	}
	return out
}

// redisless returns the sales that inventory has responded with.
func (c Catalogue) redisless() []core.Sale {
	s := c.Watch.modes.Load()
	if s == nil {
		return nil
	}
	var sales []core.Sale
	for i := range s.Activities {
		if s.Activities[i].Sale != nil {
			sales = append(sales, sale(s.Activities[i]))
		}
	}
	return sales
}

// Sales implements core.Catalogue. Without Redis, the list has the redisless sales only.
func (c Catalogue) Sales(ctx context.Context) ([]core.Sale, error) {
	all, err := c.Catalogue.Sales(ctx)
	redisless := c.redisless()
	if err != nil && (len(redisless) == 0 || !unavailable(err)) {
		return nil, err
	}
	has := make(map[string]bool, len(all))
	for _, s := range all {
		has[s.ActivityID] = true
	}
	for _, s := range redisless {
		if !has[s.ActivityID] {
			all = append(all, s)
		}
	}
	return all, nil
}

// GateStates implements core.Catalogue.
func (c Catalogue) GateStates(ctx context.Context, activityIDs []string) (map[string]core.GateState, error) {
	states := make(map[string]core.GateState, len(activityIDs))
	var others []string
	var errs []error
	for _, id := range activityIDs {
		m := c.Watch.mode(id)
		if m.Sale == nil {
			others = append(others, id)
			continue
		}
		var err error
		if states[id], err = c.Watch.state(m); err != nil {
			delete(states, id)
			errs = append(errs, err)
		}
	}
	if len(others) == 0 {
		return states, errors.Join(errs...)
	}
	found, err := c.Catalogue.GateStates(ctx, others)
	for id, st := range found {
		states[id] = st
	}
	return states, errors.Join(append(errs, err)...)
}

// Ready implements core.Catalogue. Without Redis, this process is ready while there are redisless sales.
func (c Catalogue) Ready(ctx context.Context) (bool, error) {
	ready, err := c.Catalogue.Ready(ctx)
	if err != nil && unavailable(err) && len(c.redisless()) > 0 {
		return true, nil
	}
	return ready, err
}

// Now implements core.Catalogue. Without Redis it is the time of inventory's database.
func (c Catalogue) Now(ctx context.Context) (time.Time, error) {
	now, err := c.Catalogue.Now(ctx)
	if s := c.Watch.modes.Load(); err != nil && unavailable(err) && len(c.redisless()) > 0 {
		return s.now(), nil
	}
	return now, err
}

// unavailable reports whether Redis did not respond.
func unavailable(err error) bool {
	return errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrBreakerOpen)
}
