package challenge

import (
	"slices"

	"flashsale.internal/pkg/settings"
)

// Settings holds the settings of challenges.
type Settings struct {
	// Third party of [challenges](challenge.md) of the kind `provider`: `turnstile`, `hcaptcha`, or none.
	Provider string `env:"CHALLENGE_PROVIDER"`
	// Public key of the account at the provider; required with it.
	SiteKey string `env:"CHALLENGE_SITE_KEY"`
	// Secret of that account; required with it.
	Secret string `env:"CHALLENGE_SECRET" secret:"true"`
	// URL at which tokens are verified, such as a proxy; without it the provider's.
	VerifyURL string `env:"CHALLENGE_VERIFY_URL"`
	// [Who may](challenge.md#who-may-compute-instead) compute a proof of work where an activity has another kind:
	// `everyone`, or buyers with the role `accessible`.
	Work string `env:"CHALLENGE_WORK" envDefault:"everyone"`
	// [Images](challenge.md#kinds) that a pod keeps, about 20 KB each.
	Images int `env:"CHALLENGE_IMAGES" envDefault:"1024"`
}

// Values of Settings.Work.
const (
	WorkForEveryone   = "everyone"
	WorkForAccessible = "accessible" // buyers with that role
)

// Names of providers.
const (
	Turnstile = "turnstile"
	HCaptcha  = "hcaptcha"
)

// Validate returns an error for the first wrong setting.
func (s *Settings) Validate(production bool) error {
	if s.Images < 1 || s.Images > 10_000 {
		return settings.Wrong("CHALLENGE_IMAGES", "is %d and must be 1 to 10000", s.Images)
	}
	if s.Work != WorkForEveryone && s.Work != WorkForAccessible {
		return settings.Wrong("CHALLENGE_WORK", "is %q and must be everyone or accessible", s.Work)
	}
	if s.Provider == "" {
		return nil
	}
	if s.VerifyURL != "" {
		if err := settings.CheckURL("CHALLENGE_VERIFY_URL", s.VerifyURL); err != nil {
			return err
		}
	}
	switch {
	case !slices.Contains([]string{Turnstile, HCaptcha}, s.Provider):
		return settings.Wrong("CHALLENGE_PROVIDER", "is %q and must be turnstile or hcaptcha", s.Provider)
	case s.SiteKey == "":
		return settings.Wrong("CHALLENGE_SITE_KEY", "is required with CHALLENGE_PROVIDER and not set")
	case s.Secret == "":
		return settings.Wrong("CHALLENGE_SECRET", "is required with CHALLENGE_PROVIDER and not set")
	}
	return nil
}
