package core

import (
	"context"
	"time"
)

// rushed is how many accepted pieces wait in a journal during a rush. As many purchases that change during a look keep
// it from being exact, so it would find nothing out, and it reads all of the gate and the ledger beside those who are buying.
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
		if audit, err := s.Gate.Audit(ctx, GateRef{ActivityID: a.ID}); err == nil && audit.rush() {
			return true
		}
	}
	return false
}

// givesWay tells whether the reconciler's timer lets buyers go first: in a rush, unless it has done so for restMost.
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
