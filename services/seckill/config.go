package seckill

import (
	"time"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
)

// developmentPathSecret applies in development where none is set; production refuses it by its beginning.
const developmentPathSecret = "development-only-secret-of-the-paths"

// Config is what the service is set by. Load it with settings.Load; DefaultConfig brings the service's own ports.
type Config struct {
	settings.App
	settings.HTTP
	settings.Redis
	settings.RocketMQ
	settings.Auth
	admission.Settings

	// PathSecrets sign paths and tickets: the first signs, all verify, so that a new one can be put before the old.
	PathSecrets []string `env:"PATH_SECRETS" secret:"true"`
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

// DefaultConfig holds what differs from the defaults of the groups, for settings.Load to begin with.
func DefaultConfig() Config {
	return Config{HTTP: settings.HTTP{Addr: ":8081", AdminAddr: "127.0.0.1:9081"}}
}

// Validate reports the first wrong setting.
func (c Config) Validate() error {
	if err := settings.CheckSecrets("PATH_SECRETS", c.pathSecrets(), c.Production()); err != nil {
		return err
	}
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

// pathSecrets are those that are set; in development there is always one.
func (c Config) pathSecrets() []string {
	if len(c.PathSecrets) == 0 && !c.Production() {
		return []string{developmentPathSecret}
	}
	return c.PathSecrets
}
