package httpserver

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/problem"
)

// RateBucket lets perSecond requests through, with bursts of up to burst, all callers together. Others are answered 429
// rate_limited. Every answer tells the state by the fields RateLimit and RateLimit-Policy (IETF httpapi draft).
func RateBucket(perSecond float64, burst int) func(http.Handler) http.Handler {
	perSecond, burst = max(perSecond, 1e-3), max(1, burst)
	limiter := rate.NewLimiter(rate.Limit(perSecond), burst)
	window := max(1, int(math.Ceil(float64(burst)/perSecond)))
	quota := max(burst, int(perSecond)*window) // what a whole window lets through
	policy := fmt.Sprintf(`"route";q=%d;w=%d`, quota, window)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			now := time.Now()
			ok := limiter.AllowN(now, 1)
			left := limiter.TokensAt(now)
			refill := time.Duration(math.Max(0, 1-left) / perSecond * float64(time.Second)) // until one more is let through
			h := w.Header()
			h.Set("RateLimit-Policy", policy)
			h.Set("RateLimit", `"route";r=`+strconv.Itoa(int(math.Max(0, left)))+`;t=`+strconv.Itoa(int(math.Ceil(refill.Seconds()))))
			if !ok {
				refusal := contract.Refuse(contract.CodeRateLimited, "Too many requests right now.").
					With("violated_policies", []string{"route"}).After(refill)
				problem.Write(w, r, discard, refusal)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
