package signin

import (
	"net/url"
	"strings"

	"flashsale.internal/pkg/settings"
)

// CallbackPath is the path of OIDC_REDIRECT_URL.
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
	// Such as `https://shop.example.com/auth/callback`.
	RedirectURL string `env:"OIDC_REDIRECT_URL"`
	// Where the provider sends the browser after sign-out; it must be registered there. Without it the browser stays at
	// the provider's page.
	LogoutURL string `env:"OIDC_LOGOUT_URL"`
}

// On reports whether there is a provider.
func (s Settings) On() bool { return s.Issuer != "" }

// Validate returns an error for the first wrong setting.
func (s Settings) Validate(production bool) error {
	if !s.On() {
		for variable, value := range map[string]string{
			"OIDC_CLIENT_ID": s.ClientID, "OIDC_CLIENT_SECRET": s.ClientSecret, "OIDC_REDIRECT_URL": s.RedirectURL,
			"OIDC_LOGOUT_URL": s.LogoutURL,
		} {
			if value != "" {
				return settings.Wrong(variable, "is set and OIDC_ISSUER is not")
			}
		}
		return nil
	}
	for _, u := range []struct{ variable, value string }{
		{"OIDC_ISSUER", s.Issuer}, {"OIDC_REDIRECT_URL", s.RedirectURL}, {"OIDC_LOGOUT_URL", s.LogoutURL},
	} {
		if u.variable == "OIDC_LOGOUT_URL" && u.value == "" {
			continue
		}
		parsed, err := url.Parse(u.value)
		switch {
		case u.value == "":
			return settings.Wrong(u.variable, "is required with OIDC_ISSUER and not set")
		case err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http":
			return settings.Wrong(u.variable, "is not an http or https URL")
		case production && parsed.Scheme != "https":
			return settings.Wrong(u.variable, "must be an https URL with APP_ENV=production")
		case u.variable == "OIDC_REDIRECT_URL" &&
			(parsed.Path != CallbackPath || parsed.RawQuery != "" || parsed.Fragment != ""):
			return settings.Wrong(u.variable, "must be the address of the pages with the path %s", CallbackPath)
		}
	}
	switch {
	case s.ClientID == "":
		return settings.Wrong("OIDC_CLIENT_ID", "is required with OIDC_ISSUER and not set")
	case strings.TrimSpace(s.ClientSecret) != s.ClientSecret:
		return settings.Wrong("OIDC_CLIENT_SECRET", "has a blank before or after the secret")
	}
	return nil
}
