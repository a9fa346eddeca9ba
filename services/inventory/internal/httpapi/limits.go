package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"time"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/ratelimit/httpfield"
	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/services/inventory/api"
)

// These routes show and change the limits of all services. All processes read the same rules, from their file and from
// Redis, and each process writes the counts of its limits to Redis.

// limitView is api.LimitState with the rule as package rules encodes it.
type limitView struct {
	Name     string               `json:"name"`
	Source   api.LimitStateSource `json:"source"`
	Rule     *rules.Rule          `json:"rule,omitempty"`
	Allowed  int64                `json:"allowed"`
	Waited   int64                `json:"waited"`
	Refused  int64                `json:"refused"`
	Shadowed int64                `json:"shadowed"`
	Failed   int64                `json:"failed"`
	Limited  []rules.Caller       `json:"limited"`
}

// limitViews are all limits, sorted by name, with the rules that are in force in this process.
type limitViews struct {
	views     []limitView
	version   int64
	processes int
}

func (m *Merchant) limitViews(ctx context.Context) (limitViews, error) {
	if m.limits.Store == nil {
		return limitViews{}, limitsUnavailable(errNoLimitStore)
	}
	set, version, err := m.limits.Store.Get(ctx)
	if err != nil {
		return limitViews{}, limitsUnavailable(err)
	}
	counts, processes, err := m.limits.Store.Overview(ctx)
	if err != nil {
		return limitViews{}, limitsUnavailable(err)
	}
	inForce := m.limits.Rules()
	names := admission.Names()
	for _, r := range inForce {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	out := limitViews{version: version, processes: processes}
	for _, name := range slices.Compact(names) {
		s := counts[name]
		v := limitView{
			Name: name, Source: api.LimitStateSourceNone, Allowed: s.Allowed, Waited: s.Waited, Refused: s.Refused,
			Shadowed: s.Shadowed, Failed: s.Failed, Limited: s.Limited,
		}
		named := func(r rules.Rule) bool { return r.Name == name }
		if i := slices.IndexFunc(inForce, named); i >= 0 {
			v.Rule, v.Source = &inForce[i], api.LimitStateSourceFile
			if slices.ContainsFunc(set.Rules, named) {
				v.Source = api.LimitStateSourceRedis
			}
		} else if slices.Contains(set.Deleted, name) {
			v.Source = api.LimitStateSourceRedis
		}
		if v.Limited == nil {
			v.Limited = []rules.Caller{}
		}
		out.views = append(out.views, v)
	}
	return out, nil
}

var errNoLimitStore = errors.New("no Redis is configured for limits")

func limitsUnavailable(err error) error {
	return contract.Refuse(contract.CodeUnavailable,
		"The limits are temporarily unavailable. The outcome may be unknown; try again.").
		Because(err).After(time.Second)
}

// ListLimits implements api.ServerInterface.
func (m *Merchant) ListLimits(w http.ResponseWriter, r *http.Request, _ api.ListLimitsParams) {
	p, err := httpserver.PageOf(r)
	after := ""
	if err == nil && r.URL.Query().Has("cursor") {
		raw, derr := base64.RawURLEncoding.DecodeString(p.Cursor)
		if after = string(raw); derr != nil || after == "" {
			err = contract.InvalidField("cursor", "is not valid")
		}
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	all, err := m.limitViews(r.Context())
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	views := slices.DeleteFunc(all.views, func(v limitView) bool { return v.Name <= after })
	var next *string
	if len(views) > p.Limit {
		views = views[:p.Limit]
		cursor := base64.RawURLEncoding.EncodeToString([]byte(views[p.Limit-1].Name))
		next = &cursor
	}
	for i := range views {
		views[i].Limited = []rules.Caller{}
	}
	setETag(w, all.version)
	httpserver.WriteJSON(w, http.StatusOK, struct {
		Items      []limitView `json:"items"`
		Version    int64       `json:"version"`
		Processes  int         `json:"processes"`
		NextCursor *string     `json:"next_cursor,omitempty"`
	}{views, all.version, all.processes, next})
}

// GetLimit implements api.ServerInterface.
func (m *Merchant) GetLimit(w http.ResponseWriter, r *http.Request, name string) {
	all, err := m.limitViews(r.Context())
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	for _, v := range all.views {
		if v.Name == name {
			setETag(w, all.version)
			httpserver.WriteJSON(w, http.StatusOK, v)
			return
		}
	}
	m.refuse(w, r, noSuchLimit())
}

func noSuchLimit() error { return contract.Refuse(contract.CodeNotFound, "no such limit") }

// knownLimit responds with 404 and returns false for a name that neither a route nor a rule has. A rule of that name
// would limit no request.
func (m *Merchant) knownLimit(w http.ResponseWriter, r *http.Request, name string) bool {
	hasRule := func() bool {
		return slices.ContainsFunc(m.limits.Rules(), func(rule rules.Rule) bool { return rule.Name == name })
	}
	if slices.Contains(admission.Names(), name) || hasRule() {
		return true
	}
	m.refuse(w, r, noSuchLimit())
	return false
}

// maxLimitKey is the largest length of a key in bytes; the API description has the same figure.
const maxLimitKey = 512

// TryLimit implements api.ServerInterface.
func (m *Merchant) TryLimit(w http.ResponseWriter, r *http.Request, name string) {
	var body struct {
		Key *string `json:"key"`
	}
	err := httpserver.DecodeJSON(w, r, &body)
	switch {
	case err != nil:
	case body.Key == nil:
		err = contract.InvalidField("key", "is required")
	case len(*body.Key) > maxLimitKey:
		err = contract.InvalidField("key", "is too long")
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	inForce := m.limits.Rules()
	i := slices.IndexFunc(inForce, func(rule rules.Rule) bool { return rule.Name == name })
	switch {
	case i < 0:
		m.refuse(w, r, noSuchLimit())
		return
	case m.limits.Store == nil || inForce[i].Where == "local":
		m.refuse(w, r, contract.Refuse(contract.CodeStateConflict,
			"each process has its own counts of this limit, so it cannot be tried; GET lists the refused callers"))
		return
	}
	res, err := m.limits.Try(r.Context(), name, *body.Key)
	switch {
	case errors.Is(err, rules.ErrUnknownRule): // deleted since it was found
		m.refuse(w, r, noSuchLimit())
	case errors.Is(err, ratelimit.ErrUnavailable) || err == nil && res.Source == ratelimit.SourceFallback:
		m.refuse(w, r, limitsUnavailable(err))
	case err != nil:
		m.refuse(w, r, contract.Refuse(contract.CodeStateConflict, "a limit on concurrent requests cannot be tried"))
	default:
		view := api.LimitDecision{Allowed: res.Allowed, Remaining: max(0, res.Remaining)}
		if !res.Allowed && res.RetryAfter > 0 {
			seconds := httpfield.Seconds(res.RetryAfter)
			view.RetryAfterS = &seconds
		}
		httpserver.WriteJSON(w, http.StatusOK, view)
	}
}
