package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

const (
	scanLimit = 1000 // rows of a page, at most
	scanFew   = 100  // rows of a page, at least
	// A scan reads at most scanPages pages of a merchant, and stops after as many changes to send as addRate allows since the
	// last scan of the process. The rest follows in the next one. So a burst of changes takes little from the landings and
	// closings that cause it.
	scanPages = 20
	addRate   = 600 // a second
	// scanLeast and scanMost bound the time for which addRate counts.
	scanLeast = time.Second
	scanMost  = 10 * time.Second
	// A short pass reads the changes since shortly before the last pass of this process, of sales that end later than
	// shortPassAge ago. A full pass reads all changes since ScannedTo, which stays a minute back: transactions commit out of order.
	fullEvery    = time.Minute
	shortOverlap = 2 * time.Second
	shortPassAge = 2 * contract.MaxPayWithinS * time.Second
	// scanTimeout is below FeedOverlap: what changes after the endpoints were read belongs to the next full pass, too.
	scanTimeout = 50 * time.Second
)

// pass is the progress of the scan for the endpoints of a merchant in this process.
type pass struct {
	last   time.Time // up to which a pass has read, by the time of the database
	fullAt time.Time // end of the last full pass, by the clock of the process
	// of a pass that has not ended; from is nil if there is none
	from  *merchants.FeedPlace
	of    []string // endpoints that were active at its beginning
	since time.Time
	full  bool
}

// Scan adds deliveries for the changes of all active endpoints, and a page of each replay. It may run in several
// processes: a change has one delivery to each endpoint. A merchant whose changes cannot be scanned delays no other. It
// returns the last error.
func (s *Service) Scan(ctx context.Context) error {
	if !s.Enabled() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	list, err := s.Endpoints.ActiveWebhooks(ctx)
	if err != nil {
		return err
	}
	since := min(max(s.Now().Sub(s.scanned), scanLeast), scanMost)
	s.scanned, s.adds = s.Now(), int(since.Seconds()*addRate)
	last := func(e Endpoint) (at time.Time) {
		if p := s.passes[e.MerchantID]; p != nil {
			at = p.last
		}
		return at
	}
	slices.SortStableFunc(list, func(a, b Endpoint) int { // the merchant that was read least recently comes first
		return cmp.Or(last(a).Compare(last(b)), cmp.Compare(a.MerchantID, b.MerchantID))
	})
	known := map[string]*pass{}
	for rest := list; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(e Endpoint) bool { return e.MerchantID != rest[0].MerchantID })
		if n < 0 {
			n = len(rest)
		}
		p := s.passes[rest[0].MerchantID]
		if p == nil {
			p = &pass{}
		}
		known[rest[0].MerchantID] = p
		if serr := s.scan(ctx, rest[:n], p); serr != nil {
			err = serr
		}
		rest = rest[n:]
	}
	s.passes = known
	for _, e := range list {
		if e.Replay == "" || ctx.Err() != nil {
			continue
		}
		if rerr := s.scanReplay(ctx, e); rerr != nil {
			err = rerr
		}
	}
	return err
}

// scan reads the changes of one merchant for its endpoints.
func (s *Service) scan(ctx context.Context, of []Endpoint, p *pass) error {
	ids, scanned := make([]string, len(of)), of[0].ScannedTo
	for i, e := range of {
		ids[i] = e.ID
		if e.ScannedTo.Before(scanned) {
			scanned = e.ScannedTo
		}
	}
	if p.from == nil {
		p.since, p.full, p.from, p.of = p.last.Add(-shortOverlap), false, &merchants.FeedPlace{}, ids
		if s.Now().Sub(p.fullAt) >= fullEvery || p.since.Before(scanned) {
			p.since, p.full = scanned, true
		}
	}
	r := merchants.FeedRequest{Since: p.since, From: *p.from}
	if !p.full {
		r.EndAfter = p.last.Add(-shortPassAge)
	}
	var known map[ChangeID]bool // of the page
	lacks := func(e Endpoint, at core.ReservationPlace) bool {
		return !at.ChangedAt.Before(e.ScannedTo) && !known[ChangeID{e.ID, at.OrderSN, at.ChangedAt.UnixMilli()}]
	}
	r.Unknown = func(ctx context.Context, places []core.ReservationPlace) (unknown []core.ReservationPlace, err error) {
		known, err = s.Queue.KnownChanges(ctx, ids, places)
		for _, at := range places {
			if slices.ContainsFunc(of, func(e Endpoint) bool { return lacks(e, at) }) {
				unknown = append(unknown, at)
			}
		}
		return unknown, err
	}
	recipients := func(row merchants.FeedRow) (to []Endpoint) {
		for _, e := range of {
			if lacks(e, core.ReservationPlace{ChangedAt: row.ChangedAt, OrderSN: row.OrderSN}) {
				to = append(to, e)
			}
		}
		return to
	}
	end, next, err := s.pages(ctx, of[0].MerchantID, r, scanPages, recipients, false)
	if p.from = next; err != nil || next != nil {
		return err
	}
	p.last = end.Add(merchants.FeedOverlap)
	if !p.full {
		return nil
	}
	p.fullAt = s.Now()
	for _, e := range of {
		err = errors.Join(err, s.update(ctx, e, func(of *Endpoint) {
			if slices.Contains(p.of, of.ID) && of.ScannedTo.Before(end) {
				of.ScannedTo = end
			}
		}))
	}
	return err
}

// pages reads pages from a place on, and adds each row for the endpoints that to returns; again sends known ones once
// more. next is where the pass continues, nil if it has ended at end.
func (s *Service) pages(
	ctx context.Context, merchantID string, r merchants.FeedRequest, most int,
	to func(row merchants.FeedRow) []Endpoint, again bool,
) (end time.Time, next *merchants.FeedPlace, err error) {
	r.In = core.OfMerchant(merchantID)
	for added := 0; most > 0 && added < s.adds; most-- {
		r.Limit = min(scanLimit, max(s.adds-added, scanFew))
		page, err := s.Feed.Feed(ctx, r)
		if err != nil {
			return end, &r.From, err
		}
		var list []Delivery
		for _, row := range page.Rows {
			before := len(list)
			for _, e := range to(row) {
				d := Delivery{EndpointID: e.ID, OrderSN: row.OrderSN, ChangedAt: row.ChangedAt, Type: typeOf(row.Row)}
				if !slices.Contains(e.Types, d.Type) {
					continue
				}
				if d.Body, err = body(e, d, s.Data(row)); err != nil {
					return end, &r.From, err
				}
				list = append(list, d)
			}
			if len(list) > before {
				added++
			}
		}
		if err := s.Queue.AddDeliveries(ctx, list, again); err != nil {
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

// replay is the progress of a replay. Changes after Until are left to the scan.
type replay struct {
	Since, Until time.Time
	From         merchants.FeedPlace
}

func (r replay) text() string {
	text, _ := json.Marshal(r) // it never fails
	return string(text)
}

// scanReplay continues a replay by a page. After a kill that page is read again.
func (s *Service) scanReplay(ctx context.Context, e Endpoint) error {
	var r replay
	if err := json.Unmarshal([]byte(e.Replay), &r); err != nil {
		return err
	}
	to := func(row merchants.FeedRow) []Endpoint {
		if row.ChangedAt.After(r.Until) {
			return nil
		}
		return []Endpoint{e}
	}
	_, next, err := s.pages(ctx, e.MerchantID, merchants.FeedRequest{Since: r.Since, From: r.From}, 1, to, true)
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
