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

	"flashsale.internal/services/seckill/internal/core"
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

// Remote verifies tokens at a third party.
type Remote struct {
	settings Settings
	client   *http.Client
	breaker  *gobreaker.CircuitBreaker[verdict]
}

var _ core.Provider = (*Remote)(nil)

// verdict is the response of a provider. Both send these fields; hCaptcha has no action and no cdata.
type verdict struct {
	Success    bool     `json:"success"`
	Hostname   string   `json:"hostname"`
	Action     string   `json:"action"`
	Data       string   `json:"cdata"`
	ErrorCodes []string `json:"error-codes"`
}

// NewRemote returns the provider of the settings, nil if they name none. transport is nil for the default.
func NewRemote(s Settings, transport http.RoundTripper) *Remote {
	if s.Provider == "" {
		return nil
	}
	if s.VerifyURL == "" {
		s.VerifyURL = verifyURLs[s.Provider]
	}
	if transport == nil {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &Remote{
		settings: s,
		client: &http.Client{
			Transport: transport, Timeout: verifyTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		breaker: gobreaker.NewCircuitBreaker[verdict](gobreaker.Settings{
			Timeout: verifyOpenFor, MaxRequests: 1,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= verifyFailures },
			IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
		}),
	}
}

// Breaker returns the state of the breaker before the provider.
func (p *Remote) Breaker() string { return p.breaker.State().String() }

// Available implements core.Provider. While the breaker is half open, some buyers get the widget, whose verification
// shows whether the provider responds again.
func (p *Remote) Available() bool { return p.breaker.State() != gobreaker.StateOpen }

// Widget implements core.Provider.
func (p *Remote) Widget(activityID string) core.Widget {
	return core.Widget{Provider: p.settings.Provider, SiteKey: p.settings.SiteKey, Action: "sale-" + activityID}
}

// Close closes idle connections.
func (p *Remote) Close() { p.client.CloseIdleConnections() }

// Verify implements core.Provider. A refusal of the configuration counts as unverified: it is no fault of the buyer.
func (p *Remote) Verify(ctx context.Context, t core.Token) error {
	if len(t.Value) > maxToken {
		return core.ErrTokenRefused
	}
	v, err := p.breaker.Execute(func() (verdict, error) { return p.call(ctx, t) })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", core.ErrUnverified, err)
	case !v.Success, !slices.ContainsFunc(p.settings.Hostnames, func(h string) bool { return strings.EqualFold(h, v.Hostname) }):
		return core.ErrTokenRefused
	case p.settings.Provider == Turnstile && (v.Action != t.Action || v.Data != t.CaptchaID):
		return core.ErrTokenRefused
	}
	return nil
}

// configurationErrors are error codes of a wrong secret or site key.
var configurationErrors = []string{
	"missing-input-secret", "invalid-input-secret", "sitekey-secret-mismatch", "internal-error",
}

func (p *Remote) call(ctx context.Context, t core.Token) (verdict, error) {
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
