package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/problem"
)

// How many requests a process works on at a time. The limit begins in between and moves by itself: down while they take
// longer than they used to, up while they do not. Below the lowest nothing is ever refused; a request that is not waiting
// takes some hundredths of a millisecond, so a thousand at a time are some ten milliseconds of work.
const (
	fewestAtATime = 1000
	firstAtATime  = 2000
	mostAtATime   = 100_000
)

// shedder refuses requests at once when more are under way than this process can work on, so that those it takes have
// their answer in time. It counts and times a request only while something is done for it: who waits for his turn for a
// path takes no place.
type shedder struct {
	limiter        adaptivelimiter.AdaptiveLimiter[any]
	refused, above metric.Int64Counter
}

func newShedder(meter metric.Meter) (*shedder, error) {
	s := &shedder{limiter: adaptivelimiter.NewBuilder[any]().WithLimits(fewestAtATime, mostAtATime, firstAtATime).Build()}
	var errs [4]error
	s.refused, errs[0] = meter.Int64Counter("flashsale.seckill.shed", metric.WithDescription("Requests refused because too many were under way"))
	s.above, errs[1] = meter.Int64Counter("flashsale.seckill.shed.spared",
		metric.WithDescription("Purchases let in although too many requests were under way, as their buyers have a path"))
	limit, err := meter.Int64ObservableGauge("flashsale.seckill.shed.limit", metric.WithDescription("How many requests may be under way"))
	errs[2] = err
	inFlight, err := meter.Int64ObservableGauge("flashsale.seckill.shed.in_flight", metric.WithDescription("How many requests are under way, without those that wait for a path"))
	errs[3] = err
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

// purchases takes every purchase: whoever has a path was let in when it was given. They fill the places all the same, so
// that others are refused in their favour; how many there are at most is a matter of the gate's queue.
func (s *shedder) purchases(next http.Handler) http.Handler {
	return s.admit(next, func(w http.ResponseWriter, r *http.Request) {
		s.above.Add(r.Context(), 1)
		next.ServeHTTP(w, r)
	})
}

// others are refused while there is no place.
func (s *shedder) others(next http.Handler) http.Handler { return s.admit(next, s.refuse) }

func (s *shedder) admit(next http.Handler, noPlace http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		permit, ok := s.limiter.TryAcquirePermit()
		if !ok {
			noPlace(w, r)
			return
		}
		defer permit.Record()
		next.ServeHTTP(w, r)
	})
}

// paths are others that may wait for their turn; meanwhile they take no place. One whose turn has come is not refused any
// more.
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
			case waited: // the time of a part says nothing
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

var quiet = slog.New(slog.DiscardHandler) // they are counted

func (s *shedder) refuse(w http.ResponseWriter, r *http.Request) {
	s.refused.Add(r.Context(), 1)
	problem.Write(w, r, quiet, contract.Refuse(contract.CodeOverloaded, "Too many requests at once. Nothing was done.").After(time.Second))
}
