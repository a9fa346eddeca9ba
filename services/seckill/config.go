// Package seckill is the purchase path of the flash sale: it gives out paths, groups purchases into calls of the Redis
// gate, carries what the gate accepted to the message bus, and tells buyers how it ends. This package composes it;
// cmd/seckill runs it as a process and allinone runs it beside the other services.
package seckill

import (
	"time"

	"flashsale.internal/pkg/settings"
)

// developmentPathSecret applies in development where none is set; production refuses it by its beginning.
const developmentPathSecret = "development-only-secret-of-the-paths"

// Config holds the settings of the service itself. settings.Load fills in the defaults.
type Config struct {
	settings.Auth
	Paths

	// GateWait is how long a buyer waits for the gate before hearing that the outcome is unknown; GateTimeout bounds one
	// call to Redis; GateQueue is how many wait for one gate.
	GateWait    time.Duration `env:"GATE_WAIT" envDefault:"3s"`
	GateTimeout time.Duration `env:"GATE_TIMEOUT" envDefault:"1500ms"`
	GateQueue   int           `env:"GATE_QUEUE" envDefault:"8192"`
	// JournalMax is how many reservations may wait for the broker at one gate; JournalClaimAfter is for how long a relay
	// may keep one before another relay takes it.
	JournalMax        int64         `env:"JOURNAL_MAX" envDefault:"500000"`
	JournalClaimAfter time.Duration `env:"JOURNAL_CLAIM_AFTER" envDefault:"15s"`
	// StreamsMax is how many event streams this process serves.
	StreamsMax int `env:"STREAMS_MAX" envDefault:"20000"`
}

// Paths holds the settings of the secret paths.
type Paths struct {
	// PathSecrets sign paths and tickets: the first signs, all verify, so that a new one can be put before the old.
	PathSecrets []string `env:"PATH_SECRETS" secret:"true"`
}

// Validate reports the first wrong setting. In development it fills in a secret where none is set.
func (p *Paths) Validate(production bool) error {
	if len(p.PathSecrets) == 0 && !production {
		p.PathSecrets = []string{developmentPathSecret}
	}
	return settings.CheckSecrets("PATH_SECRETS", p.PathSecrets, production)
}

// Check reports the first figure out of range.
func (c Config) Check() error {
	switch {
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
	case c.StreamsMax < 1 || c.StreamsMax > 1_000_000:
		return settings.Wrong("STREAMS_MAX", "is %d and must be 1 to 1000000", c.StreamsMax)
	}
	return nil
}
