package inventory

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/seal"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/inventory/internal/httpapi"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/webhooks"
)

// Webhooks configures the webhooks of merchants.
type Webhooks struct {
	// Encrypt the secrets of webhooks, each 32 bytes in base64: `new,old` while the key is rotated. The first one encrypts.
	// Without a key there are no webhooks.
	Keys []string `env:"WEBHOOK_KEYS" secret:"true"`
	// Private networks, such as 10.0.0.0/8, in which endpoints of webhooks may be. Public addresses always may,
	// link-local ones never.
	Networks []string `env:"WEBHOOK_NETWORKS"`
}

// Validate reports the first wrong setting.
func (c Webhooks) Validate(production bool) error {
	if _, err := c.networks(); err != nil {
		return err
	}
	if len(c.Keys) == 0 {
		return nil
	}
	_, err := seal.NewKeys(c.Keys)
	if err == nil && production {
		err = seal.CheckProduction(c.Keys)
	}
	if err != nil {
		return settings.Wrong("WEBHOOK_KEYS", "%v", err)
	}
	return nil
}

func (c Webhooks) networks() (all []netip.Prefix, err error) {
	for _, text := range c.Networks {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		widest := 7
		if p.Addr().Is4() {
			widest = 8
		}
		switch {
		case err != nil || p != p.Masked() || p.Addr().Is4In6():
			return nil, settings.Wrong("WEBHOOK_NETWORKS", "holds %q, which is no network such as 10.0.0.0/8", text)
		case p.Bits() < widest:
			return nil, settings.Wrong("WEBHOOK_NETWORKS", "holds %s, which is wider than any private network", p)
		case p.Addr().IsLinkLocalUnicast():
			return nil, settings.Wrong("WEBHOOK_NETWORKS", "holds %s, which is link-local and never admitted", p)
		}
		all = append(all, p)
	}
	return all, nil
}

// newWebhooks makes the webhooks. Without keys they are refused, and nothing is scanned or sent.
func (s *Service) newWebhooks() (*webhooks.Service, error) {
	if err := s.cfg.Webhooks.Validate(false); err != nil {
		return nil, err
	}
	var sealer webhooks.Sealer
	if len(s.cfg.Webhooks.Keys) > 0 {
		keys, err := seal.NewKeys(s.cfg.Webhooks.Keys)
		if err != nil {
			return nil, err
		}
		sealer = keys
	}
	networks, err := s.cfg.Webhooks.networks()
	client := webhooks.NewClient(networks, nil)
	if s.deps.Endpoints != nil {
		client.Transport = s.deps.Endpoints
	}
	return webhooks.New(webhooks.Deps{
		Endpoints: s.store, Queue: s.store, Feed: s.merchants, Sealer: sealer, Recorder: s.recorder,
		Log: s.deps.Telemetry.Log, Now: s.deps.Now,
		Data:   func(r merchants.FeedRow) any { return httpapi.FeedView(r) },
		Client: client, CheckClocks: s.clocks.Check,
	}), err
}

const (
	webhookScanEvery = time.Second
	webhookScanAlone = 5 * time.Second // without the locks
	webhookScanFor   = time.Minute     // in one process before another may; with a scan below the time-out of a round
	webhookSendEvery = 500 * time.Millisecond
)

// scanForWebhooks adds the deliveries of changed orders. One process does for a minute, since the passes of a process
// continue each other. While the locks are unavailable, each does: a change still has one delivery to each endpoint.
func (s *Service) scanForWebhooks(ctx context.Context) error {
	if !s.webhooks.Enabled() {
		return nil
	}
	err := s.locker.Do(ctx, "inventory webhook scan", func(ctx context.Context, fence int64) error {
		if fence == 0 { // Redis is full, and each process runs
			return s.scanWithoutLock(ctx)
		}
		for until := time.Now().Add(webhookScanFor); ; {
			err := s.webhooks.Scan(ctx)
			if time.Now().After(until) || !pause(ctx, webhookScanEvery) || s.clocks.Check(ctx) != nil {
				return err
			}
		}
	})
	switch {
	case errors.Is(err, lock.ErrNotObtained):
		return nil
	case errors.Is(err, lock.ErrUnavailable):
		return s.scanWithoutLock(ctx)
	}
	return err
}

func (s *Service) scanWithoutLock(ctx context.Context) error {
	if time.Since(s.scannedAlone) < webhookScanAlone {
		return nil
	}
	s.scannedAlone = time.Now()
	return s.webhooks.Scan(ctx)
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// sendWebhooks sends due deliveries. At the end it waits for the attempts that have begun.
func (s *Service) sendWebhooks(ctx context.Context) error {
	drain, cancel := lifecycle.DrainContext(ctx)
	defer cancel()
	defer s.webhooks.Wait()
	return lifecycle.EveryOrWoken("inventory webhooks", webhookSendEvery, s.webhooks.Woken(), s.deps.Telemetry.Log,
		func(round context.Context) error { return s.webhooks.Dispatch(round, ctx, drain) }).Run(ctx)
}
