package httpapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

type metrics struct {
	purchases, paths metric.Int64Counter
	refused          *sync.Map // refusal -> *atomic.Int64; one entry for each call and code
}

type refusal struct {
	call string
	code contract.Code
}

// refusals are the codes with which each call is refused. They are counted from 0; any other code from its first refusal.
var refusals = map[string][]contract.Code{
	"path": {
		contract.CodeInvalidRequest, contract.CodeUnsupportedMediaType, contract.CodeBodyTooLarge, contract.CodeNotFound,
		contract.CodeActivityNotStarted, contract.CodeActivityEnded, contract.CodeActivityPaused, contract.CodeSoldOut,
		contract.CodeLimitReached, contract.CodeRoomRequired, contract.CodeRoomWaiting, contract.CodeChallengeRequired,
		contract.CodeRateLimited, contract.CodeOverloaded, contract.CodeGateUnavailable, contract.CodeUnavailable,
		contract.CodeInternal,
	},
	"cached_sale": {contract.CodeSoldOut},
	"purchase": {
		contract.CodeInvalidRequest, contract.CodeUnsupportedMediaType, contract.CodeBodyTooLarge, contract.CodeNotFound,
		contract.CodePathInvalid, contract.CodePathExpired, contract.CodeIdempotencyConflict,
		contract.CodeActivityNotStarted, contract.CodeActivityEnded, contract.CodeActivityPaused, contract.CodeSoldOut,
		contract.CodeLimitReached, contract.CodeOverloaded, contract.CodeJournalFull, contract.CodeGateUnavailable,
		contract.CodeUnavailable, contract.CodeInternal,
	},
	"challenge": {
		contract.CodeNotFound, contract.CodeActivityNotStarted, contract.CodeActivityEnded, contract.CodeForbidden,
		contract.CodeChallengeWrong, contract.CodeRateLimited, contract.CodeGateUnavailable, contract.CodeUnavailable,
		contract.CodeInternal,
	},
	"room": {
		contract.CodeNotFound, contract.CodeActivityNotStarted, contract.CodeActivityEnded, contract.CodeOverloaded,
		contract.CodeGateUnavailable, contract.CodeUnavailable, contract.CodeInternal,
	},
}

func newMetrics(meter metric.Meter) (metrics, error) {
	m := metrics{refused: &sync.Map{}}
	var all []error
	for call, codes := range refusals {
		for _, code := range codes {
			m.refused.Store(refusal{call, code}, new(atomic.Int64))
		}
	}
	counter := func(name, description string, series ...metric.MeasurementOption) metric.Int64Counter {
		c, err := telemetry.NewCounter(meter, name, "", description, series...)
		all = append(all, err)
		return c
	}
	m.purchases = counter("flashsale.seckill.purchases",
		"Purchase requests that got 202 by outcome: accepted (they reserved units at the gate), repeated (their path had "+
			"made the purchase before)", accepted, repeated)
	m.paths = counter("flashsale.seckill.paths.issued", "Path requests that got a path")
	// Most buyers of a popular sale are refused. Their counters are plain integers, read when the metrics are
	// collected.
	_, err := meter.Int64ObservableCounter("flashsale.seckill.refused",
		metric.WithDescription("Path and purchase requests that were refused, by call and error code; "+
			"the call cached_sale is a path request that the cached sale refused, before all limits and without a call "+
			"to Redis; excludes refusals of the load shedder, the limits and the token check"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			m.refused.Range(func(key, n any) bool {
				of := key.(refusal)
				o.Observe(n.(*atomic.Int64).Load(), metric.WithAttributes(
					attribute.String("flashsale.call", of.call), telemetry.AttrReason.String(string(of.code))))
				return true
			})
			return nil
		}))
	return m, errors.Join(append(all, err)...)
}

// noExemplar is the context for counters of frequent events. With the request's context the counter would search for a
// recorded trace as an exemplar, which costs more than counting.
var noExemplar = context.Background()

// Outcomes of purchases.
var (
	accepted = metric.WithAttributeSet(attribute.NewSet(telemetry.AttrOutcome.String("accepted")))
	repeated = metric.WithAttributeSet(attribute.NewSet(telemetry.AttrOutcome.String("repeated")))
)

func (m metrics) refuse(call string, err error) {
	key := refusal{call, contract.CodeOf(err)}
	n, ok := m.refused.Load(key)
	if !ok {
		n, _ = m.refused.LoadOrStore(key, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}
