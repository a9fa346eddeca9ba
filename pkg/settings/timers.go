package settings

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Timers holds intervals and waits that depend on no installation. Tests and allinone shorten them.
type Timers struct {
	// For tests: shortens timers of the services, such as `order.sweep_every=1s,inventory.keep_every=200ms`.
	TestTimers map[string]time.Duration `env:"TEST_TIMERS" envKeyValSeparator:"="`
}

// longestTimer is above every default.
const longestTimer = 30 * 24 * time.Hour

// Validate returns an error for the first wrong timer, and in production for any.
func (t Timers) Validate(production bool) error {
	if production && len(t.TestTimers) > 0 {
		return Wrong("TEST_TIMERS", "must not be set with APP_ENV=production")
	}
	for _, name := range slices.Sorted(maps.Keys(t.TestTimers)) {
		service, _, _ := strings.Cut(name, ".")
		if !slices.Contains([]string{"seckill", "order", "inventory"}, service) {
			return Wrong("TEST_TIMERS", "names %q, which begins with no service, such as order.sweep_every", name)
		}
		if d := t.TestTimers[name]; d < time.Millisecond || d > longestTimer {
			return Wrong("TEST_TIMERS", "sets %s to %s, which must be 1ms to %s", name, d, longestTimer)
		}
	}
	return nil
}

// SetTimers sets each of the service's timers that TEST_TIMERS names. It returns an error for a name that the service
// does not have.
func (t Timers) SetTimers(service string, timers map[string]*time.Duration) error {
	for name, d := range t.TestTimers {
		own, ok := strings.CutPrefix(name, service+".")
		if !ok {
			continue // another service's
		}
		if timers[own] == nil {
			return Wrong("TEST_TIMERS", "names %q, which %s does not have", name, service)
		}
		*timers[own] = d
	}
	return nil
}
