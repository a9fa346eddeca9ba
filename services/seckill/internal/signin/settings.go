package signin

import (
	"context"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"flashsale.internal/pkg/settings"
)

// CallbackPath is the path, at the address of the pages, to which the provider sends the browser after a sign-in.
const CallbackPath = "/auth/callback"

// Settings configure sign-in by an identity provider (OpenID Connect). Without an issuer there is none.
type Settings struct {
	// Issuer of [sign-in](security.md#sessions-of-browsers) by an identity provider, exactly as the provider writes it,
	// a slash at its end included; without it there is none.
	Issuer string `env:"OIDC_ISSUER"`
	// Id of the client at the provider.
	ClientID string `env:"OIDC_CLIENT_ID"`
	// Secret of the client; none for a public one.
	ClientSecret string `env:"OIDC_CLIENT_SECRET" secret:"true"`
}

// On reports whether there is a provider.
func (s Settings) On() bool { return s.Issuer != "" }

// Check reports why the provider cannot be used: its discovery document is missing or of another issuer.
func (s Settings) Check(ctx context.Context) error {
	_, err := oidc.NewProvider(ctx, s.Issuer)
	return err
}

// Validate returns an error for the first wrong setting.
func (s Settings) Validate(production bool) error {
	if !s.On() {
		for variable, value := range map[string]string{
			"OIDC_CLIENT_ID": s.ClientID, "OIDC_CLIENT_SECRET": s.ClientSecret,
		} {
			if value != "" {
				return settings.Wrong(variable, "is set and OIDC_ISSUER is not")
			}
		}
		return nil
	}
	if err := settings.CheckURL("OIDC_ISSUER", s.Issuer); err != nil {
		return err
	}
	switch {
	case production && !strings.HasPrefix(strings.ToLower(s.Issuer), "https:"):
		return settings.Wrong("OIDC_ISSUER", "must be an https URL with APP_ENV=production")
	case s.ClientID == "":
		return settings.Wrong("OIDC_CLIENT_ID", "is required with OIDC_ISSUER and not set")
	case strings.TrimSpace(s.ClientSecret) != s.ClientSecret:
		return settings.Wrong("OIDC_CLIENT_SECRET", "has a blank before or after the secret")
	}
	return nil
}
