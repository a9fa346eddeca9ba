// Package seckill is the purchase path of the flash sale. It issues paths, groups purchases into calls of the Redis
// gate, publishes accepted reservations to the message bus, and returns their status to buyers. This package composes
// the service; cmd/seckill runs it as a process, and allinone runs it beside the other services.
package seckill

import (
	"time"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/signin"
)

// developmentPathSecret applies in development if none is set. Production refuses it by its prefix.
const developmentPathSecret = "development-only-secret-of-the-paths"

// shortestWithReplicas is below every GateTimeout with WaitReplicas. A call waits up to 100 ms for the replicas. If that
// were a time-out, purchases without a replica would open the breaker, and lookups would fail too.
const shortestWithReplicas = 250 * time.Millisecond

// Config holds the settings of the service itself. settings.Load fills in the defaults.
type Config struct {
	settings.Auth
	settings.Internal
	settings.Brokerless
	settings.Timers
	Paths
	Pages
	OIDC       signin.Settings
	Challenges challenge.Settings

	// Internal listener of inventory, for reservations while RocketMQ is unavailable, and for sales without Redis.
	InventoryURL string `env:"INVENTORY_INTERNAL_URL" envDefault:"http://127.0.0.1:7083"`

	// Longest wait of a buyer for the gate; then 503, and the outcome is unknown. A `GATE_TIMEOUT` close to it extends
	// the wait.
	GateWait time.Duration `env:"GATE_WAIT" envDefault:"3s"`
	// Bounds one call to Redis; more than 250ms with `GATE_WAIT_REPLICAS`.
	GateTimeout time.Duration `env:"GATE_TIMEOUT" envDefault:"1500ms"`
	// Callers that may wait for one gate, each kind of call counted apart; then 503 `overloaded`.
	GateQueue int `env:"GATE_QUEUE" envDefault:"8192"`
	// Unpublished purchases that the journal of one gate may hold, about 0.5 KiB each in Redis; then 503 `journal_full`.
	JournalMax int64 `env:"JOURNAL_MAX" envDefault:"500000"`
	// Replicas of Redis that must have a purchase before its 202.
	WaitReplicas int `env:"GATE_WAIT_REPLICAS" envDefault:"0"`
	// Percent of Redis's `maxmemory` that purchases leave free for what was accepted; below it 503 `journal_full`.
	MemoryReserve int `env:"GATE_MEMORY_RESERVE" envDefault:"10"`
	// URL of a drand chain, whose randomness becomes a part of each [draw](draw.md). Each pod must reach it.
	DrawBeacon string `env:"DRAW_BEACON"`
	// Event streams that a pod serves.
	StreamsMax int `env:"STREAMS_MAX" envDefault:"20000"`
}

// Paths holds the settings of the secret paths.
type Paths struct {
	// Signs paths and tickets: `new,old` while it is rotated.
	PathSecrets []string `env:"PATH_SECRETS" secret:"true"`
}

// Validate returns an error for the first wrong setting. In development it fills in a secret if none is set.
func (p *Paths) Validate(production bool) error {
	if len(p.PathSecrets) == 0 && !production {
		p.PathSecrets = []string{developmentPathSecret}
	}
	return settings.CheckSecrets("PATH_SECRETS", p.PathSecrets, production)
}

// Check returns an error for the first setting out of range.
func (c Config) Check() error {
	if err := settings.CheckURL("INVENTORY_INTERNAL_URL", c.InventoryURL); err != nil {
		return err
	}
	if c.DrawBeacon != "" {
		if err := settings.CheckURL("DRAW_BEACON", c.DrawBeacon); err != nil {
			return err
		}
	}
	switch {
	case c.PublicURL == "" && c.OIDC.On():
		return settings.Wrong("PUBLIC_URL", "is required with OIDC_ISSUER and not set")
	case c.PublicURL == "" && c.Challenges.Provider != "":
		return settings.Wrong("PUBLIC_URL", "is required with CHALLENGE_PROVIDER and not set")
	case c.OIDC.On() && len(c.Session.Secrets) == 0:
		return settings.Wrong("SESSION_SECRET", "is required with OIDC_ISSUER and not set")
	case c.GateWait < 50*time.Millisecond || c.GateWait > 30*time.Second:
		return settings.Wrong("GATE_WAIT", "is %s and must be 50ms to 30s", c.GateWait)
	case c.GateTimeout < 50*time.Millisecond || c.GateTimeout > c.GateWait:
		return settings.Wrong("GATE_TIMEOUT", "is %s and must be 50ms to GATE_WAIT (%s)", c.GateTimeout, c.GateWait)
	case c.GateQueue < 1 || c.GateQueue > 1_000_000:
		return settings.Wrong("GATE_QUEUE", "is %d and must be 1 to 1000000", c.GateQueue)
	case c.JournalMax < 1 || c.JournalMax > 100_000_000:
		return settings.Wrong("JOURNAL_MAX", "is %d and must be 1 to 100000000", c.JournalMax)
	case c.WaitReplicas < 0 || c.WaitReplicas > 8:
		return settings.Wrong("GATE_WAIT_REPLICAS", "is %d and must be 0 to 8", c.WaitReplicas)
	case c.WaitReplicas > 0 && c.GateTimeout <= shortestWithReplicas:
		return settings.Wrong("GATE_TIMEOUT", "is %s and must be more than %s with GATE_WAIT_REPLICAS", c.GateTimeout,
			shortestWithReplicas)
	case c.MemoryReserve < 1 || c.MemoryReserve > 90:
		return settings.Wrong("GATE_MEMORY_RESERVE", "is %d and must be 1 to 90", c.MemoryReserve)
	case c.StreamsMax < 1 || c.StreamsMax > 1_000_000:
		return settings.Wrong("STREAMS_MAX", "is %d and must be 1 to 1000000", c.StreamsMax)
	}
	_, err := c.timers()
	return err
}

// timers are intervals and waits that only tests change.
type timers struct {
	claimAfter time.Duration // after which a relay claims a journal entry that another one holds
}

func (c Config) timers() (timers, error) {
	t := timers{claimAfter: 15 * time.Second}
	err := c.SetTimers("seckill", map[string]*time.Duration{"claim_after": &t.claimAfter})
	return t, err
}
