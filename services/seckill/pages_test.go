package seckill

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

func TestSettingsOfThePages(t *testing.T) {
	t.Parallel()
	load := func(environ map[string]string) (Config, error) {
		var c struct{ Config }
		err := settings.Load(&c, environ)
		return c.Config, err
	}
	c, err := load(map[string]string{"APP_ENV": ""})
	require.NoError(t, err)
	require.Equal(t, "Flashsale", c.Name)
	for variable, values := range map[string][]string{
		"PAGES_NAME":            {"Shop", "抢购"},
		"PAGES_LOGO_URL":        {"/logo.svg", "https://img.example.com/logo.svg?v=1"},
		"PAGES_ACCENT":          {"#003366", "#C4320A"},
		"PAGES_ACCENT_DARK":     {"#ffcc00"},
		"PAGES_ACCENT_INK":      {"#fffffe"},
		"PAGES_ACCENT_INK_DARK": {"#000000"},
		"PAGES_IMAGE_ORIGINS":   {"https://img.example.com", "https://a.example.com/,http://127.0.0.1:9000"},
	} {
		for _, value := range values {
			_, err := load(map[string]string{variable: value})
			require.NoError(t, err, variable)
		}
	}
	for variable, values := range map[string][]string{
		"PAGES_NAME":            {" Shop", "a name that is much longer than a page can show in its head, or in a title"},
		"PAGES_LOGO_URL":        {"logo.svg", "//evil.example.com/x", "javascript:alert(1)", "data:image/png;base64,x", "https://a b", "https://u:p@x/"},
		"PAGES_ACCENT":          {"red", "#fff", "#ff7a45", "#c4320a;", "#gggggg"},
		"PAGES_ACCENT_DARK":     {"#222222"},
		"PAGES_ACCENT_INK":      {"#c4320b", "white"},
		"PAGES_ACCENT_INK_DARK": {"#ffffff"},
		"PAGES_IMAGE_ORIGINS":   {"*", "img.example.com", "https://img.example.com/path", "https://a.example.com;script-src *", "data:"},
	} {
		for _, value := range values {
			_, err := load(map[string]string{variable: value})
			require.ErrorContains(t, err, variable, value)
		}
	}
	_, err = load(map[string]string{"PAGES_ACCENT": "#ff7a45"})
	require.EqualError(t, err, "PAGES_ACCENT (#ff7a45) and PAGES_ACCENT_INK (#ffffff) have a contrast of 2.59 and need at least 4.5")
	p := Pages{ImageOrigins: []string{"https://a.example.com/"}, LogoURL: "http://b.example.com:81/x.svg"}
	require.Equal(t, []string{"https://a.example.com", "http://b.example.com:81"}, p.imageSources())
}

func TestAnIdentityProviderNeedsASecretOfSessions(t *testing.T) {
	t.Parallel()
	var c struct{ Config }
	require.NoError(t, settings.Load(&c, map[string]string{
		"OIDC_ISSUER": "http://127.0.0.1:1/", "OIDC_CLIENT_ID": "x", "PUBLIC_URL": "http://127.0.0.1:8080/",
	}))
	require.NoError(t, c.Check())
	c.Session.Secrets = nil
	require.EqualError(t, c.Check(), "SESSION_SECRET is required with OIDC_ISSUER and not set")
	c.PublicURL = ""
	require.EqualError(t, c.Check(), "PUBLIC_URL is required with OIDC_ISSUER and not set")
	c.OIDC.Issuer, c.Challenges.Provider = "", "turnstile"
	require.EqualError(t, c.Check(), "PUBLIC_URL is required with CHALLENGE_PROVIDER and not set")
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	for url, host := range map[string]string{
		"": "", "https://shop.example.com": "shop.example.com", "https://shop.example.com:8443/": "shop.example.com",
	} {
		p := Pages{Name: "Shop", PublicURL: url}
		require.NoError(t, p.Validate(true), url)
		require.Equal(t, strings.TrimSuffix(url, "/"), p.PublicURL)
		require.Equal(t, host, p.publicHost())
	}
	for _, url := range []string{
		"http://shop.example.com", "shop.example.com", "https://shop.example.com/auth/callback", "https://shop.example.com?a=b",
		"https://u:p@shop.example.com", "https://", "https://shop.example.com#x", "ftp://shop.example.com",
	} {
		p := Pages{Name: "Shop", PublicURL: url}
		require.ErrorContains(t, p.Validate(true), "PUBLIC_URL must be ", url)
	}
	p := Pages{Name: "Shop", PublicURL: "http://127.0.0.1:8080"}
	require.NoError(t, p.Validate(false))
}

func TestContrast(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 21, contrast("#000000", "#ffffff"), 0.001)
	require.InDelta(t, 1, contrast("#777777", "#777777"), 0.001)
	require.GreaterOrEqual(t, contrast(defaultAccent, defaultAccentInk), minContrast)
	require.GreaterOrEqual(t, contrast(defaultAccentDark, defaultAccentInkDark), minContrast)
}
