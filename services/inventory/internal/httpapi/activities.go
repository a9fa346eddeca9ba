package httpapi

import (
	"context"
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

func (m *Merchant) activityView(a core.Activity) api.Activity {
	var degraded *api.DegradedSale
	if d := a.Degraded; d != nil {
		degraded = &api.DegradedSale{PerSecond: d.PerSecond, Drop: d.Drop, Reserve: d.Reserve}
	}
	totals := a.Totals()
	var notice *api.Notice
	if n := a.Notice; n != nil {
		notice = &api.Notice{Text: n.Text, At: n.At}
	}
	return api.Activity{
		PaymentsTakeS: m.merchants.Payments.Take(totals.Units),
		Totals: api.ActivityTotals{
			Units: totals.Units, Left: totals.Left, Sold: totals.Sold, Revenue: totals.Revenue,
		},
		Notice: notice, DegradedSale: degraded, Mode: api.SaleMode(a.Mode),
		ActivityId: a.ID, MerchantId: a.MerchantID, Ref: optional(a.Ref), Title: a.Title,
		Description: a.Description, ImageUrl: a.ImageURL, State: api.ActivityState(a.Phase(m.now())),
		StartsAt: a.StartsAt, EndsAt: a.EndsAt, EndedAt: a.EndedAt, PerUserLimit: a.PerUserLimit, PayWithinS: a.PayWithinS,
		ReorderLimit: a.ReorderLimit, WaitingRoom: waitingRoom(a),
		Captcha: api.CaptchaKind(a.Challenge.Kind), CaptchaDifficulty: a.Challenge.Difficulty, Currency: a.Currency,
		CurrencyDigits: contract.CurrencyDigits(a.Currency), Version: a.Version,
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		Items: views(a.Items, func(it core.Stock) api.ActivityItem {
			return api.ActivityItem{
				SkuId: it.SKUID, Ref: optional(it.Ref), Name: it.Name, ListPrice: it.ListPrice, Price: it.Price, Stock: it.Total,
			}
		}),
	}
}

// waitingRoom returns the waiting room of an activity, nil without one.
func waitingRoom(a core.Activity) *api.WaitingRoom {
	if a.RoomRate == 0 {
		return nil
	}
	return &api.WaitingRoom{AdmitPerSecond: a.RoomRate}
}

func roomRate(room *api.WaitingRoom) *int64 {
	if room == nil {
		return nil
	}
	return &room.AdmitPerSecond
}

func challenge(kind *api.CaptchaKind, difficulty *int64) merchants.ChallengeChange {
	c := merchants.ChallengeChange{Difficulty: difficulty}
	if kind != nil {
		k := contract.ChallengeKind(*kind)
		c.Kind = &k
	}
	return c
}

func draftItems(items []api.NewActivityItem) []merchants.ActivityDraftItem {
	return views(items, func(it api.NewActivityItem) merchants.ActivityDraftItem {
		return merchants.ActivityDraftItem{SKUID: it.SkuId, Price: it.Price, Stock: it.Stock}
	})
}

func degradedSale(s *api.NewDegradedSale) *core.DegradedSale {
	if s == nil {
		return nil
	}
	d := &core.DegradedSale{PerSecond: s.PerSecond, Reserve: merchants.DefaultDegradedReserve}
	if s.Drop != nil {
		d.Drop = *s.Drop
	}
	if s.Reserve != nil {
		d.Reserve = *s.Reserve
	}
	return d
}

// CreateActivity implements api.ServerInterface.
func (m *Merchant) CreateActivity(w http.ResponseWriter, r *http.Request, params api.CreateActivityParams) {
	var body api.NewActivity
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	key, ok := m.creationKey(w, r, params.IdempotencyKey, body)
	if !ok {
		return
	}
	draft := merchants.ActivityDraftRequest{
		Ref: given(body.Ref), Title: body.Title, Description: given(body.Description), ImageURL: given(body.ImageUrl),
		StartsAt: body.StartsAt.Time, EndsAt: body.EndsAt.Time, PerUserLimit: body.PerUserLimit,
		PayWithinS: body.PayWithinS, ReorderLimit: body.ReorderLimit, RoomRate: roomRate(body.WaitingRoom),
		Challenge: challenge(body.Captcha, body.CaptchaDifficulty), Items: draftItems(body.Items), Degraded: degradedSale(body.DegradedSale), Key: key,
	}
	a, err := m.merchants.CreateActivity(r.Context(), caller(r), draft)
	m.respondDraft(w, r, a, err)
}

// DuplicateActivity implements api.ServerInterface.
func (m *Merchant) DuplicateActivity(
	w http.ResponseWriter, r *http.Request, id string, params api.DuplicateActivityParams,
) {
	if !m.validID(w, r, id) || !m.requireNoFields(w, r) {
		return
	}
	key, ok := m.creationKey(w, r, params.IdempotencyKey, struct{}{})
	if !ok {
		return
	}
	a, err := m.merchants.DuplicateActivity(r.Context(), caller(r), id, key)
	m.respondDraft(w, r, a, err)
}

// respondDraft responds to a call that created a draft.
func (m *Merchant) respondDraft(w http.ResponseWriter, r *http.Request, a *core.Activity, err error) {
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/merchant/activities/"+a.ID)
	setETag(w, a.Version)
	httpserver.WriteJSON(w, http.StatusCreated, m.activityView(*a))
}

// DeleteActivity implements api.ServerInterface.
func (m *Merchant) DeleteActivity(w http.ResponseWriter, r *http.Request, id string, _ api.DeleteActivityParams) {
	if !m.validID(w, r, id) {
		return
	}
	version, ok := m.ifMatch(w, r)
	if !ok {
		return
	}
	if err := m.merchants.DeleteActivity(r.Context(), caller(r), id, version); err != nil {
		m.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// ListActivities implements api.ServerInterface.
func (m *Merchant) ListActivities(w http.ResponseWriter, r *http.Request, _ api.ListActivitiesParams) {
	filter, p, ok := m.activityFilter(w, r)
	if !ok {
		return
	}
	in, ok := m.listed(w, r)
	if !ok {
		return
	}
	list, err := m.merchants.Activities(r.Context(), in, filter, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	place := func(a core.Activity) string { return a.ID }
	if filter.ByStart {
		place = startPlace
	}
	list, next := cutPage(list, p, place)
	httpserver.WriteJSON(w, http.StatusOK, api.ActivityList{Items: views(list, m.activityView), NextCursor: next})
}

// GetActivity implements api.ServerInterface.
func (m *Merchant) GetActivity(w http.ResponseWriter, r *http.Request, id string) {
	if m.validID(w, r, id) {
		a, err := m.merchants.Activity(r.Context(), caller(r).Scope(), id)
		m.respondActivity(w, r, a, err)
	}
}

// PatchActivity implements api.ServerInterface.
func (m *Merchant) PatchActivity(w http.ResponseWriter, r *http.Request, id string, _ api.PatchActivityParams) {
	if !m.validID(w, r, id) {
		return
	}
	version, ok := m.ifMatch(w, r)
	if !ok {
		return
	}
	var body api.ActivityPatch
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	patch := merchants.ActivityPatch{
		IfVersion: version, Ref: body.Ref, Title: body.Title, Description: body.Description, ImageURL: body.ImageUrl,
		StartsAt: body.StartsAt.Moment(), EndsAt: body.EndsAt.Moment(), PerUserLimit: body.PerUserLimit,
		PayWithinS: body.PayWithinS, ReorderLimit: body.ReorderLimit, RoomRate: roomRate(body.WaitingRoom),
		Challenge:   challenge(body.Captcha, body.CaptchaDifficulty),
		SetDegraded: body.DegradedSale.Set, Degraded: degradedSale(body.DegradedSale.Value), Notice: body.Notice,
	}
	if body.Items != nil {
		items := draftItems(*body.Items)
		patch.Items = &items
	}
	a, err := m.merchants.PatchActivity(r.Context(), caller(r), id, patch)
	m.respondActivity(w, r, a, err)
}

// PublishActivity implements api.ServerInterface.
func (m *Merchant) PublishActivity(w http.ResponseWriter, r *http.Request, id string) {
	m.step(w, r, id, m.merchants.Publish)
}

// PauseActivity implements api.ServerInterface.
func (m *Merchant) PauseActivity(w http.ResponseWriter, r *http.Request, id string) {
	m.step(w, r, id, m.merchants.Pause)
}

// ResumeActivity implements api.ServerInterface.
func (m *Merchant) ResumeActivity(w http.ResponseWriter, r *http.Request, id string) {
	m.step(w, r, id, m.merchants.Resume)
}

// EndActivity implements api.ServerInterface.
func (m *Merchant) EndActivity(w http.ResponseWriter, r *http.Request, id string) {
	m.step(w, r, id, m.merchants.End)
}

func (m *Merchant) step(
	w http.ResponseWriter, r *http.Request, id string,
	do func(ctx context.Context, by core.Caller, id string) (*core.Activity, error),
) {
	if m.validID(w, r, id) && m.requireNoFields(w, r) {
		a, err := do(r.Context(), caller(r), id)
		m.respondActivity(w, r, a, err)
	}
}

func (m *Merchant) respondActivity(w http.ResponseWriter, r *http.Request, a *core.Activity, err error) {
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	setETag(w, a.Version)
	httpserver.WriteJSON(w, http.StatusOK, m.activityView(*a))
}
