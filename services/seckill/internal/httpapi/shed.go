package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
)

// Bounds of the number of requests in flight. The limiter moves the limit between them: down while requests take
// longer than before, up while they do not. Below minInFlight it never refuses a request. A request that does not wait
// takes some hundredths of a millisecond, so a thousand in flight are about ten milliseconds of work.
const (
	minInFlight     = 1000
	initialInFlight = 2000
	maxInFlight     = 100_000
)

// shedder refuses requests at once while too many are in flight for this process, so that those it accepts get a
// response in time. It does not count a request while that waits for its turn for a path.
type shedder struct {
	limiter   adaptivelimiter.AdaptiveLimiter[any]
	counter   metric.Int64Counter // by outcome
	onRefused func()
}

// newShedder returns a shedder. onRefused, if set, is called for each request that it refuses.
func newShedder(meter metric.Meter, onRefused func()) (*shedder, error) {
	limits := adaptivelimiter.NewBuilder[any]().WithLimits(minInFlight, maxInFlight, initialInFlight)
	s := &shedder{limiter: limits.Build(), onRefused: onRefused}
	var errs [3]error
	s.counter, errs[0] = telemetry.NewCounter(meter, "flashsale.seckill.shed", "",
		"Requests above the limit of requests in flight by outcome: refused, or spared (purchases, whose buyers hold a path)",
		refused, spared)
	limit, err := meter.Int64ObservableGauge("flashsale.seckill.shed.limit",
		metric.WithDescription("Limit of the number of requests in flight"))
	errs[1] = err
	inFlight, err := meter.Int64ObservableGauge("flashsale.seckill.shed.in_flight",
		metric.WithDescription("Number of requests in flight, without those that wait for a path"))
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(limit, int64(s.limiter.Limit()))
		o.ObserveInt64(inFlight, int64(s.limiter.Inflight()))
		return nil
	}, limit, inFlight)
	return s, err
}

// Outcomes of requests above the limit.
var (
	refused = metric.WithAttributeSet(attribute.NewSet(telemetry.AttrOutcome.String("refused")))
	spared  = metric.WithAttributeSet(attribute.NewSet(telemetry.AttrOutcome.String("spared")))
)

// purchases accepts every purchase, because its buyer was admitted when the path was issued. Purchases count as
// requests in flight, so that other requests are refused first. The gate's queue bounds their number.
func (s *shedder) purchases(next http.Handler) http.Handler {
	return s.admit(next, func(w http.ResponseWriter, r *http.Request) {
		s.counter.Add(r.Context(), 1, spared)
		next.ServeHTTP(w, r)
	})
}

// others refuses requests above the limit.
func (s *shedder) others(next http.Handler) http.Handler { return s.admit(next, s.refuse) }

func (s *shedder) admit(next http.Handler, full http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permit, ok := s.limiter.TryAcquirePermit()
		if !ok {
			full(w, r)
			return
		}
		defer permit.Record()
		next.ServeHTTP(w, r)
	})
}

// paths refuses requests above the limit when they arrive. While a request waits for its turn it does not count as in
// flight. After its turn has come it is never refused.
func (s *shedder) paths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permit, ok := s.limiter.TryAcquirePermit()
		if !ok {
			s.refuse(w, r)
			return
		}
		waited := false
		defer func() {
			switch {
			case permit == nil:
			case waited: // this is the duration of a part of the request only
				permit.Drop()
			default:
				permit.Record()
			}
		}()
		next.ServeHTTP(w, r.WithContext(admission.WithWaiting(r.Context(), func(waiting bool) {
			if !waiting {
				if p, ok := s.limiter.TryAcquirePermit(); ok {
					permit = p
				}
				return
			}
			waited = true
			if permit != nil {
				permit.Drop()
				permit = nil
			}
		})))
	})
}

var discardLog = slog.New(slog.DiscardHandler) // shed requests are counted, not logged

func (s *shedder) refuse(w http.ResponseWriter, r *http.Request) {
	s.counter.Add(r.Context(), 1, refused)
	if s.onRefused != nil {
		s.onRefused()
	}
	problem.Write(w, r, discardLog, contract.Refuse(contract.CodeOverloaded,
		"Too many requests at once. Nothing was done.").After(time.Second))
}
