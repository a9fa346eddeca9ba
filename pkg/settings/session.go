package settings

import "time"

// Session configures the sessions of browsers: tokens that seckill issues at sign-in and every service accepts from a
// cookie. Without a secret there are none.
type Session struct {
	// Signs the sessions of browsers: `new,old` while it is rotated; without it there are no sessions.
	Secrets []string `env:"SESSION_SECRET" secret:"true"`
	// Lifetime of a session. Its roles are those of the sign-in.
	TTL time.Duration `env:"SESSION_TTL" envDefault:"12h"`
}

// DefaultSessionTTL is the lifetime of a session if none is set.
const DefaultSessionTTL = 12 * time.Hour

// Bounds of Session.TTL.
const (
	minSession = time.Minute
	maxSession = 30 * 24 * time.Hour
)

func (s *Session) developmentDefaults() {
	if len(s.Secrets) == 0 {
		s.Secrets = []string{DevelopmentSessionSecret}
	}
}

// Validate reports the first wrong setting.
func (s Session) Validate(production bool) error {
	if s.TTL < minSession || s.TTL > maxSession {
		return Wrong("SESSION_TTL", "is %s and must be %s to %s", s.TTL, minSession, maxSession)
	}
	if len(s.Secrets) == 0 {
		return nil
	}
	return CheckSecrets("SESSION_SECRET", s.Secrets, production)
}
