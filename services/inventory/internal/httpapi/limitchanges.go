package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// limitChange returns the rules in Redis as a call changes them. now is the rule in force, nil if there is none. It is
// called again after a conflict with another change.
type limitChange func(set rules.Set, now *rules.Rule) (rules.Set, error)

// PutLimit implements api.ServerInterface.
func (m *Merchant) PutLimit(w http.ResponseWriter, r *http.Request, name string, _ api.PutLimitParams) {
	body, version, ok := m.limitBody(w, r, name)
	if !ok {
		return
	}
	rule, err := limitRule(name, body)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	m.changeLimit(w, r, "limit.put", name, version, func(set rules.Set, _ *rules.Rule) (rules.Set, error) {
		return set.With(rule), nil
	})
}

// PatchLimit implements api.ServerInterface.
func (m *Merchant) PatchLimit(w http.ResponseWriter, r *http.Request, name string, _ api.PatchLimitParams) {
	body, version, ok := m.limitBody(w, r, name)
	if !ok {
		return
	}
	var patch map[string]httpserver.Nullable[json.RawMessage]
	err := httpserver.Decode(body, &patch)
	if err == nil && len(patch) == 0 {
		err = contract.InvalidField("body", "names no field")
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	m.changeLimit(w, r, "limit.put", name, version, func(set rules.Set, now *rules.Rule) (rules.Set, error) {
		merged, err := mergeRule(now, patch)
		if err != nil {
			return rules.Set{}, err
		}
		rule, err := limitRule(name, merged)
		return set.With(rule), err
	})
}

// mergeRule returns a rule as JSON with the fields of a patch in place of its own, without those that are null there
// (RFC 7396).
func mergeRule(now *rules.Rule, patch map[string]httpserver.Nullable[json.RawMessage]) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if now != nil {
		text, err := json.Marshal(now)
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			return nil, err
		}
	}
	for name, field := range patch {
		if field.Value == nil {
			delete(fields, name)
		} else {
			fields[name] = *field.Value
		}
	}
	return json.Marshal(fields)
}

// limitRule decodes a whole rule.
func limitRule(name string, body []byte) (rules.Rule, error) {
	var rule rules.Rule
	if err := httpserver.Decode(body, &rule); err != nil {
		return rules.Rule{}, err
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return rules.Rule{}, err
	}
	var wrong *rules.FieldError
	if errors.As(rules.CheckFields(fields), &wrong) {
		return rules.Rule{}, contract.InvalidField(wrong.Field, wrong.Message)
	}
	if rule.Name != "" && rule.Name != name {
		return rules.Rule{}, contract.InvalidField("name", "is not that of the URL")
	}
	rule.Name = name
	if err := rule.Validate(); err != nil {
		return rules.Rule{}, contract.InvalidField("rule", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return rule, nil
}

// limitBody returns the body of a call that changes a known limit, and the version that it requires.
func (m *Merchant) limitBody(w http.ResponseWriter, r *http.Request, name string) (body []byte, version *int64, ok bool) {
	if !m.knownLimit(w, r, name) {
		return nil, nil, false
	}
	if version, ok = m.ifMatch(w, r); !ok {
		return nil, nil, false
	}
	body, err := httpserver.ReadJSON(w, r)
	if err != nil {
		m.refuse(w, r, err)
		return nil, nil, false
	}
	return body, version, true
}

// DeleteLimit implements api.ServerInterface.
func (m *Merchant) DeleteLimit(w http.ResponseWriter, r *http.Request, name string) {
	if !m.knownLimit(w, r, name) {
		return
	}
	m.changeLimit(w, r, "limit.delete", name, nil, func(set rules.Set, _ *rules.Rule) (rules.Set, error) {
		return set.Without(name), nil
	})
}

// RevertLimit implements api.ServerInterface.
func (m *Merchant) RevertLimit(w http.ResponseWriter, r *http.Request, name string) {
	if !m.knownLimit(w, r, name) || !m.requireNoFields(w, r) {
		return
	}
	m.changeLimit(w, r, "limit.revert", name, nil, func(set rules.Set, _ *rules.Rule) (rules.Set, error) {
		return set.Reverted(name), nil
	})
}

// changeLimit makes a change if the rules in Redis have the version, and records it.
func (m *Merchant) changeLimit(
	w http.ResponseWriter, r *http.Request, action, name string, version *int64, change limitChange,
) {
	next, err := m.storeLimit(r.Context(), caller(r).UserID, action, name, version, change)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	setETag(w, next)
	httpserver.WriteJSON(w, http.StatusOK, api.LimitChange{Name: name, Version: next})
}

// limitRules are the rules in force before and after a change, nil for none.
type limitRules struct{ before, after *rules.Rule }

func (a limitRules) equal(b limitRules) bool {
	same := func(x, y *rules.Rule) bool { return x == y || x != nil && y != nil && *x == *y }
	return same(a.before, b.before) && same(a.after, b.after)
}

// limitAttempts bounds the repetitions of a change that conflicts with others.
const limitAttempts = 10

// storeLimit records a change, with the rule in force before and after it, and makes it. The two are in different
// stores: a change that cannot be recorded is not made, and a recorded change that failed was an attempt. After a
// conflict with a change of another limit the record is still right, and is made once. It returns the new version of the
// rules in Redis.
func (m *Merchant) storeLimit(
	ctx context.Context, who, action, name string, version *int64, change limitChange,
) (int64, error) {
	if m.limits.Store == nil {
		return 0, limitsUnavailable(errNoLimitStore)
	}
	var recorded *limitRules
	for range limitAttempts {
		set, now, err := m.limits.Store.Get(ctx)
		switch {
		case err != nil:
			return 0, limitsUnavailable(err)
		case version != nil && *version != now:
			return 0, staleLimits().With("version", now)
		}
		before := m.limits.Under(set, name)
		if set, err = change(set, before); err != nil {
			return 0, err
		}
		made := limitRules{before, m.limits.Under(set, name)}
		if recorded == nil || !recorded.equal(made) {
			record := merchants.LimitRecord{Name: name, Before: made.before, After: made.after}
			if err := m.merchants.RecordLimit(ctx, who, action, record); err != nil {
				return 0, err
			}
			recorded = &made
		}
		next, err := m.limits.Store.Put(ctx, set, now)
		switch {
		case err == nil:
			return next, nil
		case !errors.Is(err, rules.ErrConflict):
			return 0, limitsUnavailable(err)
		}
	}
	return 0, limitsUnavailable(rules.ErrConflict)
}

func staleLimits() *contract.Refusal {
	return contract.Refuse(contract.CodeStateConflict, "the limits were changed meanwhile: read them again").
		FailedPrecondition()
}

// ListLimitChanges implements api.ServerInterface.
func (m *Merchant) ListLimitChanges(w http.ResponseWriter, r *http.Request, name string, _ api.ListLimitChangesParams) {
	if !m.knownLimit(w, r, name) {
		return
	}
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	list, err := m.merchants.History.ChangesOfLimit(r.Context(), name, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(c core.PastChange) string { return c.ID })
	httpserver.WriteJSON(w, http.StatusOK, api.ChangeList{Items: views(list, changeView), NextCursor: next})
}
