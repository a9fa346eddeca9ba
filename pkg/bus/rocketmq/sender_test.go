package rocketmq

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
)

// The broker gets a delay: with a time, a broker whose clock is ahead would deliver early.
func TestADelayedMessageCarriesItsDelay(t *testing.T) {
	m := bus.Message{Topic: "t", DeliverAt: time.Now().Add(time.Hour)}
	first, err := strconv.ParseInt(message("", m).GetProperty("TIMER_DELAY_MS"), 10, 64)
	require.NoError(t, err)
	require.LessOrEqual(t, first, time.Hour.Milliseconds())
	require.Greater(t, first, (59 * time.Minute).Milliseconds())
	require.Eventually(t, func() bool { // each send has the delay that is left
		left, err := strconv.ParseInt(message("", m).GetProperty("TIMER_DELAY_MS"), 10, 64)
		return err == nil && left < first
	}, 30*time.Second, time.Millisecond)
	require.Empty(t, message("", m).GetProperty("TIMER_DELIVER_MS"))
	for _, at := range []time.Time{{}, time.Now().Add(-time.Second)} {
		require.Empty(t, message("", bus.Message{Topic: "t", DeliverAt: at}).GetProperty("TIMER_DELAY_MS"), "at once")
	}
}
