package cli

import "flashsale.internal/pkg/settings"

// signing holds the settings of the services with which flashctl signs tokens.
type signing struct {
	Secrets  []string `env:"AUTH_HS256_SECRET" secret:"true"` // the first one signs
	Audience string   `env:"AUTH_AUDIENCE"`
	Issuer   string   `env:"AUTH_ISSUER"`
}

func loadSigning() (signing, error) {
	var s signing
	err := settings.Load(&s, nil)
	return s, err
}

// secretOr returns the secret that signs, or def if none is set.
func (s signing) secretOr(def string) string {
	if len(s.Secrets) == 0 {
		return def
	}
	return s.Secrets[0]
}
