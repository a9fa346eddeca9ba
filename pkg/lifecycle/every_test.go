package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryRetriesAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		rounds := 0
		began := time.Now()
		var at []time.Duration
		err := Every("sweep", time.Second, slog.New(slog.NewTextHandler(&out, nil)), func(ctx context.Context) error {
			_, bounded := ctx.Deadline()
			require.True(t, bounded)
			rounds++
			at = append(at, time.Since(began))
			switch {
			case rounds <= 8:
				return errors.New("unavailable")
			case rounds == 10:
				cancel()
			}
			return nil
		}).Run(ctx)
		require.NoError(t, err)
		require.Equal(t, 10, rounds)
		require.GreaterOrEqual(t, at[0], time.Second)
		require.LessOrEqual(t, at[0], 1250*time.Millisecond)
		require.GreaterOrEqual(t, at[8]-at[7], 2*time.Second, "pauses grow while rounds fail")
		require.LessOrEqual(t, at[8]-at[7], 2500*time.Millisecond, "but stay short, so that work resumes soon after an outage")
		require.Less(t, at[9]-at[8], 1300*time.Millisecond, "and are reset by a success")
		require.Equal(t, 1, strings.Count(out.String(), "sweep failed, will retry"), "an outage is logged once")
		require.Equal(t, 1, strings.Count(out.String(), "sweep works again"))
	})
}

func TestARoundBeginsAtOnceWhenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wake, began := make(chan struct{}, 1), time.Now()
		wake <- struct{}{}
		var at []time.Duration
		err := EveryOrWoken("sweep", time.Minute, wake, discard, func(context.Context) error {
			if at = append(at, time.Since(began)); len(at) == 2 {
				cancel()
			}
			return nil
		}).Run(ctx)
		require.NoError(t, err)
		require.Zero(t, at[0])
		require.GreaterOrEqual(t, at[1], time.Minute, "it wakes once")
	})
}

func TestAtEndHasTimeToDrain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var seen error
	require.NoError(t, AtEnd("database", func(ctx context.Context) error { seen = ctx.Err(); return nil }).Run(ctx))
	require.NoError(t, seen, "the deadline of the shutdown has not passed")
}
