package seckill

import (
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/seckill/api"
)

// Pages holds the settings of the pages. An empty colour means the default of the pages.
type Pages struct {
	// Address of the pages in browsers, such as `https://shop.example.com`, without a path. Required for
	// [sign-in](pages.md#sign-in-with-an-identity-provider) (`OIDC_ISSUER`) and for `CHALLENGE_PROVIDER`.
	PublicURL string `env:"PUBLIC_URL"`
	// Name of the shop in the [pages](pages.md#brand-them).
	Name string `env:"PAGES_NAME" envDefault:"Flashsale"`
	// Its logo.
	LogoURL string `env:"PAGES_LOGO_URL"`
	// Colour of buttons and links; without it `#c4320a`.
	Accent string `env:"PAGES_ACCENT"`
	// Colour of the text on it; without it `#ffffff`.
	AccentInk string `env:"PAGES_ACCENT_INK"`
	// The accent in the dark theme; without it `#ff7a45`.
	AccentDark string `env:"PAGES_ACCENT_DARK"`
	// Colour of the text on that; without it `#1f0d05`.
	AccentInkDark string `env:"PAGES_ACCENT_INK_DARK"`
	// Origins, beside that of the pages, from which a browser may load images of sales.
	ImageOrigins []string `env:"PAGES_IMAGE_ORIGINS"`
	settings.Payments
}

// Colours of the pages where none is set: accent and the text on it, light and dark.
const (
	defaultAccent        = "#c4320a"
	defaultAccentInk     = "#ffffff"
	defaultAccentDark    = "#ff7a45"
	defaultAccentInkDark = "#1f0d05"
)

// Bounds of the settings.
const (
	maxBrandName = 60 // characters
	maxLogoURL   = 500
	minContrast  = 4.5 // WCAG 2.2, 1.4.3
)

var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// Validate returns an error for the first wrong setting.
func (p *Pages) Validate(production bool) error {
	if err := p.checkPublicURL(production); err != nil {
		return err
	}
	if p.Name == "" || utf8.RuneCountInString(p.Name) > maxBrandName || strings.TrimSpace(p.Name) != p.Name {
		return settings.Wrong("PAGES_NAME", "must have 1 to %d characters, without blanks around them", maxBrandName)
	}
	if p.LogoURL != "" && (len(p.LogoURL) > maxLogoURL || !imageURL(p.LogoURL)) {
		return settings.Wrong("PAGES_LOGO_URL",
			"must be an http or https URL or a path of the site such as /logo.svg, of at most %d bytes", maxLogoURL)
	}
	for _, o := range p.ImageOrigins {
		if _, ok := originOf(o); !ok {
			return settings.Wrong("PAGES_IMAGE_ORIGINS",
				"holds %q, which is not an origin such as https://img.example.com", o)
		}
	}
	for _, c := range []struct{ variable, value string }{
		{"PAGES_ACCENT", p.Accent},
		{"PAGES_ACCENT_INK", p.AccentInk},
		{"PAGES_ACCENT_DARK", p.AccentDark},
		{"PAGES_ACCENT_INK_DARK", p.AccentInkDark},
	} {
		if c.value != "" && !colour.MatchString(c.value) {
			return settings.Wrong(c.variable, "is %q, which is not a colour such as %s", c.value, defaultAccent)
		}
	}
	for _, pair := range []struct{ variable, accent, ink string }{
		{"PAGES_ACCENT", or(p.Accent, defaultAccent), or(p.AccentInk, defaultAccentInk)},
		{"PAGES_ACCENT_DARK", or(p.AccentDark, defaultAccentDark), or(p.AccentInkDark, defaultAccentInkDark)},
	} {
		if c := contrast(pair.accent, pair.ink); c < minContrast {
			ink := strings.Replace(pair.variable, "ACCENT", "ACCENT_INK", 1)
			return settings.Wrong(pair.variable, "(%s) and %s (%s) have a contrast of %.2f and need at least %.1f",
				pair.accent, ink, pair.ink, c, minContrast)
		}
	}
	return nil
}

// checkPublicURL reports a PUBLIC_URL that is no address of a site.
func (p *Pages) checkPublicURL(production bool) error {
	if p.PublicURL == "" {
		return nil
	}
	address, err := settings.CheckPublicURL(p.PublicURL, production)
	p.PublicURL = address
	return err
}

// publicHost returns the host name of PUBLIC_URL, "" without one.
func (p *Pages) publicHost() string {
	u, err := url.Parse(p.PublicURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// imageURL reports whether a page may show the image: it is http or https, or a path of this site.
func imageURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || strings.ContainsAny(s, " \"'<>\\;,") {
		return false
	}
	if u.Scheme == "" && u.Host == "" {
		return strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//")
	}
	return (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

// originOf returns the origin of a URL that has no path, or whose path is /.
func originOf(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || !imageURL(s) || u.Host == "" || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	return u.Scheme + "://" + u.Host, true
}

// imageSources returns the origins of images for the Content-Security-Policy: those of the setting and that of the logo.
func (p *Pages) imageSources() []string {
	var list []string
	for _, o := range p.ImageOrigins {
		origin, _ := originOf(o)
		list = append(list, origin)
	}
	if u, err := url.Parse(p.LogoURL); err == nil && u.Host != "" {
		list = append(list, u.Scheme+"://"+u.Host)
	}
	return list
}

// contrast returns the contrast ratio of two colours (WCAG 2.2), 1 to 21.
func contrast(a, b string) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(c string) float64 {
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(c[1+2*i:3+2*i], 16, 8) // the form was checked
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

// pagesConfig returns what GET /v1/config responds.
func (c *Config) pagesConfig(signIn api.PagesConfigSignIn) api.PagesConfig {
	out := api.PagesConfig{
		SignIn: signIn, PaymentProviders: append([]string{}, c.Providers...), Languages: []string{"en", "zh"}, Version: command.Version(),
		CaptchaWork: api.PagesConfigCaptchaWork(c.Challenges.Work),
		Brand: api.Brand{
			Name: or(c.Name, "Flashsale"), LogoUrl: c.LogoURL, Accent: c.Accent, AccentInk: c.AccentInk,
			AccentDark: c.AccentDark, AccentInkDark: c.AccentInkDark,
		},
	}
	return out
}
