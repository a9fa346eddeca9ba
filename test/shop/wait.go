package shop

import (
	"context"
	"errors"
	"time"
)

// Until waits until that time and returns nil, or returns the error of ctx when ctx ends first.
func Until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Poll calls done ten times a second until it returns true, whatever error it returns beside. When ctx ends first,
// Poll returns the error of ctx joined with the last one of done.
func Poll(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if ended := Until(ctx, time.Now().Add(100*time.Millisecond)); ended != nil {
			return errors.Join(ended, err)
		}
	}
}
