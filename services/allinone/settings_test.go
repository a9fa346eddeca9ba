package allinone

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A timer that is set replaces one of those that let a process without durable messages resume soon, not all.
func TestTimersOfOneProcess(t *testing.T) {
	t.Parallel()
	s, err := loadServices(Config{HTTPAddr: "127.0.0.1:1"},
		map[string]string{"TEST_TIMERS": "order.sweep_every=5s,seckill.claim_after=2s"}, "http://127.0.0.1:1")
	require.NoError(t, err)
	require.Equal(t, map[string]time.Duration{
		"order.sweep_after": time.Second, "order.sweep_every": 5 * time.Second, "seckill.claim_after": 2 * time.Second,
		"inventory.republish_after": 3 * time.Second, "inventory.ask_after": 3 * time.Second,
		"inventory.sweep_every": time.Second,
	}, s.inventory.TestTimers)
}
