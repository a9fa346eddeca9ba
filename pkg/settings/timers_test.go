package settings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimers(t *testing.T) {
	load := func(env, value string) (Timers, error) {
		var c struct {
			App
			Timers
		}
		err := Load(&c, map[string]string{"APP_ENV": env, "TEST_TIMERS": value})
		return c.Timers, err
	}
	timers, err := load(Development, "order.sweep_every=1s,inventory.keep_every=200ms")
	require.NoError(t, err)
	every, after := time.Minute, time.Minute
	require.NoError(t, timers.SetTimers("order", map[string]*time.Duration{"sweep_every": &every, "sweep_after": &after}))
	require.Equal(t, []time.Duration{time.Second, time.Minute}, []time.Duration{every, after})
	require.EqualError(t, timers.SetTimers("inventory", map[string]*time.Duration{"sweep_every": &every}),
		`TEST_TIMERS names "inventory.keep_every", which inventory does not have`)
	none, err := load(Production, "")
	require.NoError(t, err)
	require.NoError(t, none.SetTimers("order", nil))
	for value, message := range map[string]string{
		"order.sweep_every=0s":   "TEST_TIMERS sets order.sweep_every to 0s, which must be 1ms to 720h0m0s",
		"sweep_every=1s":         `TEST_TIMERS names "sweep_every", which begins with no service, such as order.sweep_every`,
		"order.sweep_every=1":    `TEST_TIMERS is "order.sweep_every=1", which is not a list such as order.sweep_every=1s`,
		"order.sweep_every":      `TEST_TIMERS is "order.sweep_every", which is not a list such as order.sweep_every=1s`,
		"order.sweep_every=721h": "TEST_TIMERS sets order.sweep_every to 721h0m0s, which must be 1ms to 720h0m0s",
	} {
		_, err := load(Development, value)
		require.EqualError(t, err, message)
	}
	_, err = load(Production, "order.sweep_every=1s")
	require.EqualError(t, err, "TEST_TIMERS must not be set with APP_ENV=production")
}
