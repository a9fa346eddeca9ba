package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

const (
	mostEndpoints = 5              // of a merchant
	oldSecretFor  = 24 * time.Hour // for which a replaced secret signs
	keepFor       = 30 * 24 * time.Hour
)

// Create adds an endpoint of the caller's merchant. It returns its secret, which is not shown again. It refuses with
// quota_exceeded if the merchant has five.
func (s *Service) Create(ctx context.Context, by core.Caller, address string, types []string) (Endpoint, string, error) {
	owner, err := by.Owner()
	if err == nil {
		err = s.refuseDisabled()
	}
	if err == nil {
		err = validate(address, types)
	}
	if err != nil {
		return Endpoint{}, "", err
	}
	now, err := s.Queue.Now(ctx)
	if err != nil {
		return Endpoint{}, "", err
	}
	secret := newSecret()
	e := Endpoint{
		MerchantID: owner, URL: address, Types: types, State: Active, ScannedTo: now.Add(-merchants.FeedOverlap), CreatedAt: now,
		LeasedTo: now, Secret: s.seal(owner, secret),
	}
	e, err = s.Endpoints.CreateWebhook(ctx, e, change(by, now, "create", nil), func(used int64) error {
		if used < mostEndpoints {
			return nil
		}
		return contract.Refuse(contract.CodeQuotaExceeded, fmt.Sprintf("a merchant may have %d webhooks", mostEndpoints)).
			With("limit", int64(mostEndpoints)).With("used", used)
	})
	return e, secret, err
}

// Get returns an endpoint.
func (s *Service) Get(ctx context.Context, in core.Scope, id string) (*Endpoint, error) {
	if err := s.refuseDisabled(); err != nil {
		return nil, err
	}
	e, err := s.Endpoints.Webhook(ctx, in, id)
	if err == nil && e == nil {
		err = contract.Refuse(contract.CodeNotFound, "no such resource")
	}
	return e, err
}

// List returns endpoints, newest first.
func (s *Service) List(ctx context.Context, in core.Scope, p core.Page) ([]Endpoint, error) {
	if err := s.refuseDisabled(); err != nil {
		return nil, err
	}
	return s.Endpoints.Webhooks(ctx, in, p)
}

// Patch holds the fields of an endpoint to change; nil ones stay.
type Patch struct {
	URL   *string
	Types *[]string
	State *State
}

// Patch changes an endpoint. An endpoint that becomes active gets the changes from shortly before then on, since those may
// be committed later.
func (s *Service) Patch(ctx context.Context, by core.Caller, id string, p Patch) (*Endpoint, error) {
	return s.change(ctx, by, id, "patch", func(e *Endpoint, now time.Time) error {
		if p.URL != nil {
			e.URL = *p.URL
		}
		if p.Types != nil {
			e.Types = *p.Types
		}
		if p.State != nil && *p.State != e.State {
			if *p.State != Active && *p.State != Off {
				return contract.InvalidField("state", "must be active or off")
			}
			e.State, e.ScannedTo, e.Replay = *p.State, now.Add(-merchants.FeedOverlap), ""
		}
		return validate(e.URL, e.Types)
	})
}

// Delete deletes an endpoint. What waits for it is not sent.
func (s *Service) Delete(ctx context.Context, by core.Caller, id string) error {
	now, err := s.Queue.Now(ctx)
	if err == nil {
		err = s.refuseDisabled()
	}
	if err != nil {
		return err
	}
	return s.Endpoints.DeleteWebhook(ctx, by.Scope(), id, change(by, now, "delete", nil))
}

// ReplaceSecret gives an endpoint another secret and returns it. The old one signs too for 24 h; of two replacements
// within that time, the first secret ends.
func (s *Service) ReplaceSecret(ctx context.Context, by core.Caller, id string) (*Endpoint, string, error) {
	secret := newSecret()
	e, err := s.change(ctx, by, id, "secret", func(e *Endpoint, now time.Time) error {
		until := now.Add(oldSecretFor)
		e.OldSecret, e.OldUntil, e.Secret = e.Secret, &until, s.seal(e.MerchantID, secret)
		return nil
	})
	return e, secret, err
}

// Replay sends the changes since a time once more, each order in its present state. They keep their ids.
func (s *Service) Replay(ctx context.Context, by core.Caller, id string, since time.Time) (*Endpoint, error) {
	return s.change(ctx, by, id, "replay", func(e *Endpoint, now time.Time) error {
		if since.After(now) || since.Before(now.Add(-keepFor)) {
			return contract.InvalidField("since", "must be a time of the last 30 days")
		}
		if e.State != Active {
			return contract.Refuse(contract.CodeStateConflict, "the webhook is not active")
		}
		e.Replay = replay{Since: since, Until: now}.text()
		return nil
	})
}

// Deliveries returns the deliveries to an endpoint in a state, newest first.
func (s *Service) Deliveries(
	ctx context.Context, in core.Scope, id string, state DeliveryState, p core.Page,
) ([]Delivery, error) {
	e, err := s.Get(ctx, in, id)
	if err != nil {
		return nil, err
	}
	return s.Endpoints.Deliveries(ctx, e.ID, state, p)
}

// Tidy deletes the deliveries of more than 30 days ago, ends those that have waited for 84 h, and seals secrets under the
// present key.
func (s *Service) Tidy(ctx context.Context) error {
	if !s.Enabled() {
		return nil
	}
	now, err := s.Queue.Now(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.Queue.SweepDeliveries(ctx, now.Add(-keepFor)), s.expire(ctx, now), s.sealAgain(ctx, now))
}

// expire ends what has waited for too long.
func (s *Service) expire(ctx context.Context, now time.Time) error {
	list, err := s.Endpoints.ActiveWebhooks(ctx)
	for _, e := range list {
		if err == nil {
			err = s.Queue.ExpireDeliveries(ctx, e.ID, now.Add(-waitsAtMost))
		}
	}
	return err
}

// sealAgain seals secrets under the present key, and deletes old ones that have ended.
func (s *Service) sealAgain(ctx context.Context, now time.Time) error {
	for after := ""; ; {
		stale, err := s.Endpoints.StaleSecrets(ctx, s.Sealer.Current(), after, now)
		if err != nil || len(stale) == 0 {
			return err
		}
		for _, of := range stale {
			err := s.update(ctx, of, func(e *Endpoint) {
				if e.OldUntil != nil && e.OldUntil.Before(now) {
					e.OldSecret, e.OldUntil = "", nil
				}
				for _, sealed := range []*string{&e.Secret, &e.OldSecret} {
					if secret, err := s.open(e.MerchantID, *sealed); err == nil { // else its merchant replaces it
						*sealed = s.seal(e.MerchantID, secret)
					}
				}
			})
			if err != nil {
				return err
			}
			after = of.ID
		}
	}
}

func (s *Service) change(
	ctx context.Context, by core.Caller, id, action string, fn func(e *Endpoint, now time.Time) error,
) (*Endpoint, error) {
	if err := s.refuseDisabled(); err != nil {
		return nil, err
	}
	now, err := s.Queue.Now(ctx)
	if err != nil {
		return nil, err
	}
	c := change(by, now, action, nil)
	return s.Endpoints.ChangeWebhook(ctx, by.Scope(), id, &c, func(e *Endpoint) error {
		err := fn(e, now)
		c.Detail = map[string]any{"url": e.URL, "types": e.Types, "state": e.State}
		return err
	})
}

func change(by core.Caller, now time.Time, action string, detail any) core.Change {
	return core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "webhook." + action, Object: "webhook", Detail: detail,
	}
}

func (s *Service) refuseDisabled() error {
	if s.Enabled() {
		return nil
	}
	return contract.Refuse(contract.CodeStateConflict, "webhooks are not available: the operator has not set WEBHOOK_KEYS")
}

func validate(address string, types []string) error {
	u, err := url.Parse(address)
	if err != nil || len(address) > 500 || u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Contains(address, "#") || strings.ContainsFunc(address, func(r rune) bool {
		return unicode.IsSpace(r) || r > unicode.MaxASCII || r < ' '
	}) {
		return contract.InvalidField("url", "must be an https address of at most 500 ASCII characters, without a user or fragment")
	}
	if len(types) == 0 {
		return contract.InvalidField("types", "must have at least one")
	}
	for i, t := range types {
		if !slices.Contains(Types, t) || slices.Contains(types[:i], t) {
			return contract.InvalidField(fmt.Sprintf("types[%d]", i), "must be one of "+strings.Join(Types, ", ")+", once")
		}
	}
	return nil
}
