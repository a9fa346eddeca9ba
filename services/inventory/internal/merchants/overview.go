package merchants

import (
	"context"
	"time"
)

// Waits is how many things of a kind wait, and since when the oldest one does; the zero time if that is unknown.
type Waits struct {
	Count int64
	Since time.Time
}

// Waiting is what waits for an operator or for a dependency, as the database has it.
type Waiting struct {
	DeadLetters    Waits // open ones
	RedislessSales Waits // sales whose mode is not gate
	Imports        Waits // steps of a restore that are not complete
}

// Overview reads what waits.
type Overview interface {
	Waiting(ctx context.Context) (Waiting, error)
}

// The most refunds that CountRefunds counts are pages of so many.
const (
	refundPages    = 10
	refundsPerPage = 100
)

// CountRefunds counts the refunds that wait for an operator, at most 1000.
func (s *Service) CountRefunds(ctx context.Context) (Waits, error) {
	var w Waits
	page := RefundPage{Limit: refundsPerPage}
	for range refundPages {
		list, next, err := s.Refunds.WaitingRefunds(ctx, page)
		if err != nil {
			return Waits{}, err
		}
		if w.Count == 0 && len(list) > 0 {
			w.Since = list[0].CreatedAt
		}
		w.Count += int64(len(list))
		if next == "" {
			break
		}
		page.Cursor = next
	}
	return w, nil
}
