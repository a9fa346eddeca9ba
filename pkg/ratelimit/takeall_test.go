package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// blocked embeds a limiter of this package and overrides Take so that it refuses everything.
type blocked struct{ *Local }

func (blocked) Take(context.Context, Request) (Result, error) {
	return Result{RetryAfter: time.Second}, nil
}

// TestTakeAllUsesAnOverriddenTake: TakeAll calls the methods of the type that it was given, also if that type embeds a
// limiter of this package.
func TestTakeAllUsesAnOverriddenTake(t *testing.T) {
	inner, err := NewLocal(Spec{Algorithm: TokenBucket, Limit: PerSecond(10)})
	require.NoError(t, err)
	other, err := NewLocal(Spec{Algorithm: FixedWindow, Limit: Limit{Rate: 10, Period: farOff}})
	require.NoError(t, err)
	results := make([]Result, 2)
	ok, err := TakeAll(t.Context(), []Charge{{other, Request{N: 1}}, {blocked{inner}, Request{N: 1}}}, results)
	require.NoError(t, err)
	require.False(t, ok)
	require.True(t, results[0].Allowed)
	require.False(t, results[1].Allowed)
	require.EqualValues(t, 10, take(t, other, "", 0).Remaining)
}
