package httpapi

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"flashsale.internal/pkg/contract"
)

const pathPolicy = "path"

// PathBucket lets so many callers a second have a path. Who comes early waits a bounded time for its turn, so that the
// rush of the first second is spread rather than refused; who would wait longer is told when to come again. The bound
// on the wait bounds the number of those who wait.
type PathBucket struct {
	limiter *rate.Limiter
	wait    time.Duration
	policy  string
}

// NewPathBucket allows a fifth of a second's callers at once.
func NewPathBucket(perSecond float64, wait time.Duration) *PathBucket {
	burst := max(1, int(perSecond/5))
	window := max(1, int(math.Ceil(float64(burst)/perSecond)))
	quota := max(burst, int(perSecond)*window) // what a whole window lets through
	return &PathBucket{
		limiter: rate.NewLimiter(rate.Limit(perSecond), burst),
		wait:    wait,
		policy:  fmt.Sprintf(`"%s";q=%d;w=%d`, pathPolicy, quota, window),
	}
}

// Wait returns when it is the caller's turn.
func (b *PathBucket) Wait(ctx context.Context) error {
	now := time.Now()
	turn := b.limiter.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay > b.wait {
		turn.CancelAt(now)
		return contract.Refuse(contract.CodeRateLimited, "too many buyers ask for a path right now").
			With("violated_policies", []string{pathPolicy}).After(delay - b.wait)
	}
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()
		return ctx.Err()
	}
}

// tell writes the state of the bucket into the answer (IETF RateLimit fields).
func (b *PathBucket) tell(h http.Header) {
	left := b.limiter.Tokens()
	refill := math.Ceil(math.Max(0, 1-left) / float64(b.limiter.Limit()))
	h.Set("RateLimit-Policy", b.policy)
	h.Set("RateLimit", `"`+pathPolicy+`";r=`+strconv.Itoa(int(math.Max(0, left)))+`;t=`+strconv.Itoa(int(refill)))
}
