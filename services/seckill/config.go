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
	settings.Direct
	Paths
	Pages
	OIDC       signin.Settings
	Challenges challenge.Settings

	// InventoryURL is inventory's internal listener, for reservations while RocketMQ is unavailable.
	InventoryURL string `env:"INVENTORY_INTERNAL_URL" envDefault:"http://127.0.0.1:7083"`

	// GateWait bounds a buyer's wait for the gate; then the outcome is unknown. A GateTimeout close to it extends the
	// bound (see grouping.Bounds). GateTimeout bounds one call to Redis. GateQueue is the number of callers that may wait
	// for one gate.
	GateWait    time.Duration `env:"GATE_WAIT" envDefault:"3s"`
	GateTimeout time.Duration `env:"GATE_TIMEOUT" envDefault:"1500ms"`
	GateQueue   int           `env:"GATE_QUEUE" envDefault:"8192"`
	// JournalMax is the number of unpublished reservations that one gate may hold. JournalClaimAfter is the time that
	// a relay may hold an entry before another relay claims it.
	JournalMax        int64         `env:"JOURNAL_MAX" envDefault:"500000"`
	JournalClaimAfter time.Duration `env:"JOURNAL_CLAIM_AFTER" envDefault:"15s"`
	// WaitReplicas is the number of replicas that must have a purchase before its 202.
	WaitReplicas int `env:"GATE_WAIT_REPLICAS" envDefault:"0"`
	// MemoryReserve is the part of Redis's maxmemory, in percent, that purchases leave free for what was accepted.
	MemoryReserve int `env:"GATE_MEMORY_RESERVE" envDefault:"10"`
	// DrawBeacon is the URL of a drand chain, whose randomness becomes a part of each draw. Empty: no beacon.
	DrawBeacon string `env:"DRAW_BEACON"`
	// StreamsMax is the number of event streams that this process serves.
	StreamsMax int `env:"STREAMS_MAX" envDefault:"20000"`
}

// Paths holds the settings of the secret paths.
type Paths struct {
	// PathSecrets sign paths and tickets: the first signs, all verify. To rotate, put a new one before the old.
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
	case c.JournalClaimAfter < 100*time.Millisecond || c.JournalClaimAfter > 10*time.Minute:
		return settings.Wrong("JOURNAL_CLAIM_AFTER", "is %s and must be 100ms to 10m", c.JournalClaimAfter)
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
	return nil
}
