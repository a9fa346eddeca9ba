package challenge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Bounds of a call to a provider.
const (
	verifyTimeout  = 3 * time.Second
	verifyFailures = 5 // consecutive ones, that open the breaker
	verifyOpenFor  = 5 * time.Second
	maxToken       = 8192
	maxVerdict     = 16 << 10
)

var verifyURLs = map[string]string{
	Turnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	HCaptcha:  "https://api.hcaptcha.com/siteverify",
}

// origins are what a page with the widget of a provider may load scripts from and show in a frame.
var origins = map[string][]string{
	Turnstile: {"https://challenges.cloudflare.com"},
	HCaptcha:  {"https://hcaptcha.com", "https://*.hcaptcha.com"},
}

// Origins returns the origins of the provider's scripts and frames; nil without a provider.
func (s Settings) Origins() []string { return origins[s.Provider] }

// Errors of a Provider.
var (
	// errUnverified means that the provider could not be reached or returned nothing usable.
	errUnverified = errors.New("provider of challenges did not respond")
	// errTokenRefused means that the provider refused a token.
	errTokenRefused = errors.New("provider refused the token")
	// errTooMany means that the provider responded 429. Callers may cause that, so it opens no breaker: otherwise they
	// would replace the widget by a proof of work for all.
	errTooMany = errors.New("provider of challenges responded 429")
)

// Widget is the widget of a provider.
type Widget struct{ Provider, SiteKey, Action string }

// Token is the answer of a provider's widget, with what the provider has to confirm.
type Token struct {
	Value, Action, ChallengeID string
}

// Provider verifies the tokens of a third party.
type Provider struct {
	settings Settings
	host     string // of the pages
	client   *http.Client
	breaker  *gobreaker.CircuitBreaker[verdict]
}

// verdict is the response of a provider. Both send these fields; hCaptcha has no action and no cdata.
type verdict struct {
	Success    bool     `json:"success"`
	Hostname   string   `json:"hostname"`
	Action     string   `json:"action"`
	Data       string   `json:"cdata"`
	ErrorCodes []string `json:"error-codes"`
}

// NewProvider returns the provider of the settings, nil if they name none. transport is nil for the default.
func NewProvider(s Settings, host string, transport http.RoundTripper) *Provider {
	if s.Provider == "" {
		return nil
	}
	if s.VerifyURL == "" {
		s.VerifyURL = verifyURLs[s.Provider]
	}
	if transport == nil {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &Provider{
		settings: s, host: host,
		client: &http.Client{
			Transport: transport, Timeout: verifyTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		breaker: gobreaker.NewCircuitBreaker[verdict](gobreaker.Settings{
			Timeout: verifyOpenFor, MaxRequests: 1,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= verifyFailures },
			IsExcluded: func(err error) bool {
				return errors.Is(err, context.Canceled) || errors.Is(err, errTooMany)
			},
		}),
	}
}

// Breaker returns the state of the breaker before the provider.
func (p *Provider) Breaker() string { return p.breaker.State().String() }

// Available reports whether the provider responded lately. While the breaker is half open, some buyers get the widget,
// whose verification shows whether the provider responds again.
func (p *Provider) Available() bool { return p.breaker.State() != gobreaker.StateOpen }

// Widget returns the widget of an activity.
func (p *Provider) Widget(activityID string) Widget {
	return Widget{Provider: p.settings.Provider, SiteKey: p.settings.SiteKey, Action: "sale-" + activityID}
}

// Close closes idle connections.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// Verify returns nil for a token that the provider confirms, errTokenRefused or errUnverified. A refusal of the
// configuration counts as unverified: it is no fault of the buyer.
func (p *Provider) Verify(ctx context.Context, t Token) error {
	if len(t.Value) > maxToken {
		return errTokenRefused
	}
	v, err := p.breaker.Execute(func() (verdict, error) { return p.call(ctx, t) })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnverified, err)
	case !v.Success, !strings.EqualFold(p.host, v.Hostname):
		return errTokenRefused
	case p.settings.Provider == Turnstile && (v.Action != t.Action || v.Data != t.ChallengeID):
		return errTokenRefused
	}
	return nil
}

// configurationErrors are error codes of a wrong secret or site key.
var configurationErrors = []string{
	"missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "internal-error",
}

func (p *Provider) call(ctx context.Context, t Token) (verdict, error) {
	form := url.Values{"secret": {p.settings.Secret}, "response": {t.Value}}
	if p.settings.Provider == HCaptcha {
		form.Set("sitekey", p.settings.SiteKey)
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.settings.VerifyURL, strings.NewReader(form.Encode()))
	if err != nil {
		return verdict{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.client.Do(r)
	if err != nil {
		return verdict{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxVerdict))
	if err != nil {
		return verdict{}, err
	}
	if response.StatusCode == http.StatusTooManyRequests {
		return verdict{}, errTooMany
	}
	if response.StatusCode/100 != 2 && response.StatusCode != http.StatusBadRequest {
		return verdict{}, fmt.Errorf("provider of challenges responded %d", response.StatusCode)
	}
	return parseVerdict(raw)
}

func parseVerdict(raw []byte) (v verdict, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return verdict{}, fmt.Errorf("response of the provider of challenges: %w", err)
	}
	for _, code := range v.ErrorCodes {
		if slices.Contains(configurationErrors, code) {
			return verdict{}, fmt.Errorf("provider of challenges refused the configuration: %s", code)
		}
	}
	return v, nil
}
