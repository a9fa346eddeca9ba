package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/consumer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type lander struct {
	fails int
	calls int
	items []contract.Deduction
	bad   []contract.BadItem
	about []contract.ActivityInfo
}

var errDown = errors.New("database down")

func (l *lander) Land(
	_ context.Context, items []contract.Deduction, about []contract.ActivityInfo, bad []contract.BadItem,
) error {
	l.items, l.about, l.bad = items, about, bad
	if l.calls++; l.calls <= l.fails {
		return errDown
	}
	return nil
}

func delivery(t *testing.T) bus.Delivery {
	t.Helper()
	body := `{"v":1,"items":[
		{"order_sn":"1","user_id":"u","activity_id":"1","lines":[{"sku_id":"1","qty":1,"price":5}],"currency":"EUR","pay_within_s":5,"traceparent":"nonsense"},
		{"order_sn":"2","user_id":"u","activity_id":"1","lines":[{"sku_id":"1","qty":1,"price":1000000000000}],"currency":"EUR","pay_within_s":5}],
		"activities":[{"activity_id":"1","title":"Kettles","ends_at":"2026-11-22T10:00:00Z","skus":[{"sku_id":"1","name":"Red"}],"as_of":"2026-11-21T10:00:00Z"}]}`
	return bus.Delivery{Message: bus.Message{Topic: contract.TopicDeductions, Body: []byte(body)}, Attempt: 1}
}

func TestTransientErrorsAreRetriedThenReturned(t *testing.T) {
	for fails, want := range map[int]struct {
		calls int
		err   error
	}{0: {1, nil}, 3: {4, nil}, 100: {4, errDown}} {
		l := &lander{fails: fails}
		err := consumer.New(l, telemetry.Discard(t), time.Millisecond).Deductions(t.Context(), delivery(t))
		require.ErrorIs(t, err, want.err)
		require.Equal(t, want.calls, l.calls)
		require.Len(t, l.items, 1, "the whole message each time")
		require.Empty(t, l.items[0].Traceparent, "a malformed one is dropped")
		require.Len(t, l.bad, 1)
		require.Equal(t, []contract.ActivityInfo{{
			ActivityID: "1", Title: "Kettles", EndsAt: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC),
			SKUs: []contract.SKUName{{SKUID: "1", Name: "Red"}}, AsOf: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		}}, l.about)
	}
}

func TestRetriesEndWithTheContext(t *testing.T) {
	l := &lander{fails: 100}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, consumer.New(l, telemetry.Discard(t), time.Hour).Deductions(ctx, delivery(t)))
	require.Equal(t, 1, l.calls)
}
