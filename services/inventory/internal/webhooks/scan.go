package webhooks

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

const (
	scanLimit = 1000 // rows of a page
	scanPages = 20   // pages of an endpoint in a round; the rest follows in the next one
	// A short pass reads the changes since shortly before the last pass of this process. A full pass reads all changes
	// since ScannedTo, which stays a minute back: transactions commit out of order.
	fullEvery    = 30 * time.Second
	shortOverlap = 2 * time.Second
)

// pass is the progress of the scan for an endpoint in this process.
type pass struct {
	last   time.Time // up to which a pass has read, by the time of the database
	fullAt time.Time // end of the last full pass, by the clock of the process
	// of a pass that has not ended; from is nil if there is none
	from  *merchants.FeedPlace
	since time.Time
	full  bool
}

// Scan adds deliveries for the changes of all active endpoints. It may run in several processes: a change has one
// delivery to each endpoint. One that cannot be scanned delays no other.
func (s *Service) Scan(ctx context.Context) error {
	if !s.Enabled() {
		return nil
	}
	list, err := s.Endpoints.ActiveWebhooks(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]*pass, len(list))
	for _, e := range list {
		p := s.passes[e.ID]
		if p == nil {
			p = &pass{}
		}
		known[e.ID] = p
		if serr := s.scan(ctx, e, p); serr != nil {
			err = serr
		}
		if e.Replay != "" {
			if rerr := s.scanReplay(ctx, e); rerr != nil {
				err = rerr
			}
		}
	}
	s.passes = known
	return err
}

// scan reads the changes of one endpoint.
func (s *Service) scan(ctx context.Context, e Endpoint, p *pass) error {
	if p.from == nil {
		p.since, p.full, p.from = p.last.Add(-shortOverlap), false, &merchants.FeedPlace{}
		if s.Now().Sub(p.fullAt) >= fullEvery || p.since.Before(e.ScannedTo) {
			p.since, p.full = e.ScannedTo, true
		}
	}
	unknown := func(ctx context.Context, places []core.ReservationPlace) ([]core.ReservationPlace, error) {
		return s.Queue.UnknownChanges(ctx, e.ID, places)
	}
	end, next, err := s.pages(ctx, e, merchants.FeedRequest{Since: p.since, From: *p.from, Unknown: unknown}, time.Time{})
	if err != nil {
		return err
	}
	if p.from = next; next != nil {
		return nil
	}
	p.last = end.Add(merchants.FeedOverlap)
	if !p.full {
		return nil
	}
	p.fullAt = s.Now()
	return s.update(ctx, e, func(of *Endpoint) {
		if of.ScannedTo.Before(end) {
			of.ScannedTo = end
		}
	})
}

// pages reads up to scanPages pages from a place on. next is where the pass continues, nil if it has ended at end.
// Changes after until, if it is not zero, are left to the scan, and all others are sent again.
func (s *Service) pages(
	ctx context.Context, e Endpoint, r merchants.FeedRequest, until time.Time,
) (end time.Time, next *merchants.FeedPlace, err error) {
	r.In, r.Limit = core.OfMerchant(e.MerchantID), scanLimit
	for range scanPages {
		page, err := s.Feed.Feed(ctx, r)
		if err != nil {
			return end, &r.From, err
		}
		var list []Delivery
		for _, row := range page.Rows {
			d := Delivery{EndpointID: e.ID, OrderSN: row.OrderSN, ChangedAt: row.ChangedAt, Type: typeOf(row.Row)}
			if !slices.Contains(e.Types, d.Type) || !until.IsZero() && row.ChangedAt.After(until) {
				continue
			}
			if d.Body, err = body(e, d, s.Data(row)); err != nil {
				return end, &r.From, err
			}
			list = append(list, d)
		}
		if err := s.Queue.AddDeliveries(ctx, list, !until.IsZero()); err != nil {
			return end, &r.From, err
		}
		if len(list) > 0 {
			s.wakeUp()
		}
		if page.Next == nil {
			return page.NextSince, nil, nil
		}
		r.From = *page.Next
	}
	return end, &r.From, nil
}

// replay is the progress of a replay.
type replay struct {
	Since, Until time.Time
	From         merchants.FeedPlace
}

func (r replay) text() string {
	text, _ := json.Marshal(r) // it never fails
	return string(text)
}

// scanReplay continues a replay. After a kill its last pages are read again.
func (s *Service) scanReplay(ctx context.Context, e Endpoint) error {
	var r replay
	if err := json.Unmarshal([]byte(e.Replay), &r); err != nil {
		return err
	}
	_, next, err := s.pages(ctx, e, merchants.FeedRequest{Since: r.Since, From: r.From}, r.Until)
	if err != nil {
		return err
	}
	return s.update(ctx, e, func(of *Endpoint) {
		if of.Replay != e.Replay {
			return // another one was requested
		}
		if of.Replay = ""; next != nil {
			r.From = *next
			of.Replay = r.text()
		}
	})
}

// update changes an endpoint, unless it was deleted.
func (s *Service) update(ctx context.Context, e Endpoint, fn func(of *Endpoint)) error {
	_, err := s.Endpoints.ChangeWebhook(ctx, core.OfMerchant(e.MerchantID), e.ID, nil, func(of *Endpoint) error {
		fn(of)
		return nil
	})
	if contract.CodeOf(err) == contract.CodeNotFound {
		return nil
	}
	return err
}
