package core

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
)

// rushed is how many accepted pieces wait in a journal, at least, during a rush: more come than are carried away. A look
// reads all of the gate and the ledger then, beside those who are buying, and is mostly not exact, so that it finds nothing
// out: 2,000 purchases that change meanwhile are enough for that. Where they only wait, as without a broker, looks are exact,
// and the round that is held every restMost goes on to its end.
const rushed = 2000

func (a GateAudit) rush() bool {
	var waiting int64
	for _, sku := range a.SKUs {
		waiting += sku.Journal
	}
	return waiting >= rushed
}

// rush tells whether one of the gates is in a rush.
func (s *Service) rush(ctx context.Context, activities []Activity) bool {
	for _, a := range activities {
		// A gate that cannot be read is in no rush.
		if audit, err := s.Gate.Audit(ctx, contract.GateRef{ActivityID: a.ID}); err == nil && audit.rush() {
			return true
		}
	}
	return false
}

// givesWay tells whether the timer of this process lets buyers go first: in a rush, unless it has done so for restMost.
func (s *Service) givesWay(rush bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !rush:
		s.rushSince = time.Time{}
	case s.rushSince.IsZero():
		s.rushSince = now
	case now.Sub(s.rushSince) >= restMost:
		s.rushSince = time.Time{} // this round is held, and the next ones give way again
		return false
	}
	return rush
}
