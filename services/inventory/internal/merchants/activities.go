package merchants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// Bounds of merchants' requests.
const (
	maxItems      = 100
	maxLimit      = contract.MaxLines * contract.MaxQty // one purchase cannot hold more
	defaultWindow = 900                                 // seconds to pay

	defaultReorders = 2
	maxReorders     = 15 // the gate keeps the latest 16 purchases of a buyer that ended
)

// The texts that merchants write: a title, a name or a reason, a notice, and a description.
var (
	oneLine    = contract.Text{Most: 200}
	noticeLine = contract.Text{Most: 200, Optional: true}
	paragraphs = contract.Text{Most: 5000, Optional: true, Lines: true}
)

// ActivityDraftItem is one SKU of a new activity.
type ActivityDraftItem struct {
	SKUID string
	Price int64
	Stock int64
}

// ActivityDraftRequest is a new activity. Nil fields take their defaults.
type ActivityDraftRequest struct {
	Ref              string // "" for none
	Title            string
	Description      string
	ImageURL         string
	StartsAt, EndsAt time.Time
	PerUserLimit     *int64
	PayWithinS       *int64
	ReorderLimit     *int64
	RoomRate         *int64
	Challenge        ChallengeChange
	Items            []ActivityDraftItem
	Degraded         *core.DegradedSale
	Key              *core.IdempotencyKey // nil for a call without one
}

// ActivityFilter selects and sorts activities. The zero value selects all, newest first.
type ActivityFilter struct {
	Phase string // one of core.Phases; "" for any
	Title string // a part of it, without case; "" for any
	// ByStart sorts by StartsAt and then by id, latest first. From is the StartsAt of the activity that the page's cursor
	// names.
	ByStart bool
	From    time.Time
}

// ActivityPatch changes what is not nil.
type ActivityPatch struct {
	IfVersion *int64 // refuses the patch if the activity has another version

	Ref              *string // "" removes it
	Title            *string
	Description      *string
	ImageURL         *string
	StartsAt, EndsAt *time.Time
	PerUserLimit     *int64
	PayWithinS       *int64
	ReorderLimit     *int64
	RoomRate         *int64
	Challenge        ChallengeChange
	Items            *[]ActivityDraftItem
	SetDegraded      bool // to Degraded; nil switches the degraded sale off
	Degraded         *core.DegradedSale
	Notice           *string // "" removes the notice
}

// ChallengeChange changes what is not nil of an activity's challenge.
type ChallengeChange struct {
	Kind       *contract.ChallengeKind
	Difficulty *int64
}

// Bounds and defaults of a DegradedSale.
const (
	maxDegradedPerSecond   = 100_000
	maxDegradedDrop        = 99
	maxDegradedReserve     = 100
	DefaultDegradedReserve = 1
)

func validateDegraded(d *core.DegradedSale) error {
	switch {
	case d == nil:
	case d.PerSecond < 1 || d.PerSecond > maxDegradedPerSecond:
		return contract.InvalidField("degraded_sale.per_second", "must be 1 to 100000")
	case d.Drop < 0 || d.Drop > maxDegradedDrop:
		return contract.InvalidField("degraded_sale.drop", "must be 0 to 99")
	case d.Reserve < 0 || d.Reserve > maxDegradedReserve:
		return contract.InvalidField("degraded_sale.reserve", "must be 0 to 100")
	}
	return nil
}

func (c ChallengeChange) apply(to *contract.Challenge) {
	set(&to.Kind, c.Kind)
	set(&to.Difficulty, c.Difficulty)
}

// CreateActivity creates a draft. It belongs to the caller's merchant. If an earlier call of the caller had the same
// key, CreateActivity returns the activity of that call as it is now.
func (s *Service) CreateActivity(ctx context.Context, by core.Caller, r ActivityDraftRequest) (*core.Activity, error) {
	owner, err := by.Owner()
	if err != nil {
		return nil, err
	}
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	a := core.Activity{
		MerchantID: owner, State: core.ActivityDraft, Ref: r.Ref, Title: r.Title, Description: r.Description,
		ImageURL: r.ImageURL,
		StartsAt: core.Milliseconds(r.StartsAt), EndsAt: core.Milliseconds(r.EndsAt), PerUserLimit: 1,
		PayWithinS: defaultWindow, ReorderLimit: defaultReorders, Version: 1, CreatedAt: now, UpdatedAt: now, Degraded: r.Degraded,
		Mode:      contract.ModeGate,
		Challenge: contract.Challenge{Kind: contract.ChallengeNone, Difficulty: contract.DefaultChallengeDifficulty},
	}
	set(&a.PerUserLimit, r.PerUserLimit)
	set(&a.PayWithinS, r.PayWithinS)
	set(&a.ReorderLimit, r.ReorderLimit)
	set(&a.RoomRate, r.RoomRate)
	r.Challenge.apply(&a.Challenge)
	if err := validate(&a); err != nil {
		return nil, err
	}
	if err := s.setItems(ctx, &a, r.Items); err != nil {
		return nil, err
	}
	c := core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "activity.create", Object: "activity", Detail: a.Title,
	}
	id, err := s.Deps.Activities.CreateActivity(ctx, r.Key.Of(owner), a, c, func() error {
		return refuseArchived(&a, r.Items)
	})
	if err != nil {
		return nil, err
	}
	return s.Activity(ctx, core.OfMerchant(owner), id)
}

// refuseArchived refuses items of a request whose products are archived.
func refuseArchived(a *core.Activity, items []ActivityDraftItem) error {
	for i, it := range items {
		if a.Item(it.SKUID).Archived {
			return archivedItem(i)
		}
	}
	return nil
}

func archivedItem(i int) error {
	return contract.InvalidField(fmt.Sprintf("items[%d].sku_id", i), "the product of this SKU is archived")
}

// DuplicateActivity creates a draft like an activity, which may be in any state. The draft belongs to the same
// merchant, has no ref, and offers the total units of each SKU. SKUs whose units were all withdrawn are left out.
func (s *Service) DuplicateActivity(
	ctx context.Context, by core.Caller, id string, key *core.IdempotencyKey,
) (*core.Activity, error) {
	source, err := s.Activity(ctx, by.Scope(), id)
	if err != nil {
		return nil, err
	}
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	a := core.Activity{
		MerchantID: source.MerchantID, State: core.ActivityDraft, Title: source.Title, Description: source.Description,
		ImageURL: source.ImageURL, StartsAt: source.StartsAt, EndsAt: source.EndsAt, PerUserLimit: source.PerUserLimit,
		PayWithinS: source.PayWithinS, ReorderLimit: source.ReorderLimit, RoomRate: source.RoomRate,
		Challenge: source.Challenge, Currency: source.Currency, Degraded: source.Degraded, Mode: contract.ModeGate,
		Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	for _, it := range source.Items {
		if it.Total > 0 {
			a.Items = append(a.Items, core.Stock{SKUID: it.SKUID, Price: it.Price, Total: it.Total, Available: it.Total})
		}
	}
	c := core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "activity.create", Object: "activity",
		Detail: map[string]any{"title": a.Title, "duplicate_of": id},
	}
	made, err := s.Deps.Activities.CreateActivity(ctx, key.Of(a.MerchantID), a, c, func() error {
		for i, it := range source.Items {
			if it.Archived && it.Total > 0 {
				return archivedItem(i)
			}
		}
		if len(a.Items) == 0 {
			return contract.Refuse(contract.CodeStateConflict, "all units of the activity were withdrawn")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Activity(ctx, core.OfMerchant(a.MerchantID), made)
}

// DeleteActivity deletes a draft. It refuses with state_conflict (state) in any other state, and if ifVersion is not nil
// and the draft has another version.
func (s *Service) DeleteActivity(ctx context.Context, by core.Caller, id string, ifVersion *int64) error {
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return err
	}
	c := core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "activity.delete", Object: "activity", ObjectID: id,
	}
	return s.Deps.Activities.DeleteActivity(ctx, by.Scope(), id, c, func(a *core.Activity) error {
		if err := requireVersion(ifVersion, a.Version); err != nil {
			return err
		}
		if a.State != core.ActivityDraft {
			phase := a.Phase(now)
			return contract.Refuse(contract.CodeStateConflict, fmt.Sprintf("the activity is %s: only drafts are deleted", phase)).
				With("state", phase)
		}
		return nil
	})
}

// Activity returns one activity, refused with not_found if there is none.
func (s *Service) Activity(ctx context.Context, in core.Scope, id string) (*core.Activity, error) {
	a, err := s.Deps.Activities.Activity(ctx, in, id)
	if err == nil && a == nil {
		err = core.NotFound()
	}
	return a, err
}

// Activities lists activities.
func (s *Service) Activities(
	ctx context.Context, in core.Scope, f ActivityFilter, p core.Page,
) ([]core.Activity, error) {
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.Deps.Activities.Activities(ctx, in, f, now, p)
}

// PatchActivity changes a draft; of a published activity only what buyers read, a later end and the degraded sale. A
// patch of the notice alone does not need the gate.
func (s *Service) PatchActivity(
	ctx context.Context, by core.Caller, id string, p ActivityPatch,
) (*core.Activity, error) {
	var draft *core.Activity
	if p.Items != nil {
		a, err := s.Activity(ctx, by.Scope(), id)
		if err != nil {
			return nil, err
		}
		draft = &core.Activity{MerchantID: a.MerchantID}
		if err := s.setItems(ctx, draft, *p.Items); err != nil {
			return nil, err
		}
		if err := refuseArchived(draft, *p.Items); err != nil {
			return nil, err
		}
	}
	now, err := s.Deps.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	c := core.Change{
		At: now, Who: by.UserID, Role: by.Role(), Action: "activity.patch", Object: "activity", ObjectID: id,
		Detail: p.detail(),
	}
	a, err := s.Deps.Activities.ChangeActivity(ctx, by.Scope(), id, c, Growth{}, func(a *core.Activity) (bool, error) {
		if err := requireVersion(p.IfVersion, a.Version); err != nil {
			return false, err
		}
		if err := p.notice(a, now); err != nil {
			return false, err
		}
		if a.State != core.ActivityDraft {
			if p.StartsAt != nil || p.PerUserLimit != nil || p.PayWithinS != nil ||
				p.ReorderLimit != nil || p.Items != nil {
				return false, contract.Refuse(contract.CodeStateConflict,
					"only ref, title, description, image_url, notice, degraded_sale, captcha, captcha_difficulty, a later ends_at and the rate of a "+
						"waiting room may change once the activity is published")
			}
			if p.RoomRate != nil && (a.RoomRate == 0) != (*p.RoomRate == 0) {
				return false, contract.Refuse(contract.CodeStateConflict,
					"a published activity gets no waiting room and keeps the one that it has")
			}
			if p.EndsAt != nil {
				if _, ended := a.EndedSince(now); ended {
					return false, contract.Refuse(contract.CodeActivityEnded, "the activity has ended")
				}
				if core.Milliseconds(*p.EndsAt).Before(a.EndsAt) {
					return false, contract.Refuse(contract.CodeStateConflict, "ends_at may only become later")
				}
			}
		}
		set(&a.Ref, p.Ref)
		set(&a.Title, p.Title)
		set(&a.Description, p.Description)
		set(&a.ImageURL, p.ImageURL)
		set(&a.PerUserLimit, p.PerUserLimit)
		set(&a.PayWithinS, p.PayWithinS)
		set(&a.ReorderLimit, p.ReorderLimit)
		set(&a.RoomRate, p.RoomRate)
		p.Challenge.apply(&a.Challenge)
		if p.StartsAt != nil {
			a.StartsAt = core.Milliseconds(*p.StartsAt)
		}
		if p.EndsAt != nil {
			a.EndsAt = core.Milliseconds(*p.EndsAt)
		}
		if p.SetDegraded {
			a.Degraded = p.Degraded
		}
		if draft != nil {
			a.Items, a.Currency = draft.Items, draft.Currency
		}
		a.Version++
		a.UpdatedAt = now
		return true, validate(a)
	})
	if err != nil || a.State == core.ActivityDraft {
		return a, err
	}
	if p.onlyNotice() {
		s.showNotice(ctx, a)
		return a, nil
	}
	return a, activityRefusal(s.Gates.SyncActivity(ctx, a), a)
}

// detail returns the new values, by field, for the change log.
func (p ActivityPatch) detail() map[string]any {
	d := map[string]any{}
	add(d, "ref", p.Ref)
	add(d, "title", p.Title)
	add(d, "description", p.Description)
	add(d, "image_url", p.ImageURL)
	add(d, "starts_at", p.StartsAt)
	add(d, "ends_at", p.EndsAt)
	add(d, "per_user_limit", p.PerUserLimit)
	add(d, "pay_within_s", p.PayWithinS)
	add(d, "reorder_limit", p.ReorderLimit)
	add(d, "waiting_room.admit_per_second", p.RoomRate)
	add(d, "captcha", p.Challenge.Kind)
	add(d, "captcha_difficulty", p.Challenge.Difficulty)
	add(d, "notice", p.Notice)
	if p.SetDegraded {
		d["degraded_sale"] = nil
		if s := p.Degraded; s != nil {
			d["degraded_sale"] = map[string]any{"per_second": s.PerSecond, "drop": s.Drop, "reserve": s.Reserve}
		}
	}
	if p.Items != nil {
		items := make([]map[string]any, len(*p.Items))
		for i, it := range *p.Items {
			items[i] = map[string]any{"sku_id": it.SKUID, "price": it.Price, "stock": it.Stock}
		}
		d["items"] = items
	}
	return d
}

// add adds a value that is not nil.
func add[T any](to map[string]any, name string, v *T) {
	if v != nil {
		to[name] = *v
	}
}

func validate(a *core.Activity) error {
	if err := contract.CheckText("title", a.Title, oneLine); err != nil {
		return err
	}
	if err := validateRef("ref", a.Ref); err != nil {
		return err
	}
	switch {
	case a.StartsAt.Year() < 2000 || a.StartsAt.Year() > core.LastYear:
		return contract.InvalidField("starts_at", "is required, from 2000 to 2200")
	case a.EndsAt.Year() < 2000 || a.EndsAt.Year() > core.LastYear:
		return contract.InvalidField("ends_at", "is required, from 2000 to 2200")
	case !a.EndsAt.After(a.StartsAt):
		return contract.InvalidField("ends_at", "must be after starts_at")
	case a.PerUserLimit < 1 || a.PerUserLimit > maxLimit:
		return contract.InvalidField("per_user_limit", "must be 1 to 1600")
	case a.PayWithinS < 1 || a.PayWithinS > contract.MaxPayWithinS:
		return contract.InvalidField("pay_within_s", "must be 1 to 86400")
	case a.ReorderLimit < 0 || a.ReorderLimit > maxReorders:
		return contract.InvalidField("reorder_limit", "must be 0 to 15")
	case a.RoomRate < 0 || a.RoomRate > core.MaxRoomRate:
		return contract.InvalidField("waiting_room.admit_per_second", "must be 0 to 1000000")
	case !slices.Contains(contract.ChallengeKinds, a.Challenge.Kind):
		return contract.InvalidField("captcha", "must be none, pow, click or provider")
	case a.Challenge.Difficulty < 1 || a.Challenge.Difficulty > contract.MaxChallengeDifficulty:
		return contract.InvalidField("captcha_difficulty", "must be 1 to 1000")
	}
	if err := validateDegraded(a.Degraded); err != nil {
		return err
	}
	return validatePresentation(a.Description, a.ImageURL)
}

// setItems sets the items and their currency. Only SKUs of the activity's merchant exist for it.
func (s *Service) setItems(ctx context.Context, a *core.Activity, items []ActivityDraftItem) error {
	if len(items) < 1 || len(items) > maxItems {
		return contract.InvalidField("items", "must have 1 to 100 elements")
	}
	ids, seen := make([]string, len(items)), map[string]bool{}
	for i, it := range items {
		field := fmt.Sprintf("items[%d].", i)
		switch {
		case !contract.ValidID(it.SKUID):
			return contract.InvalidField(field+"sku_id", "not an id")
		case seen[it.SKUID]:
			return contract.InvalidField(field+"sku_id", "duplicate SKU")
		case it.Price < 1 || it.Price > contract.MaxPrice:
			return contract.InvalidField(field+"price", "must be 1 to 100000000000")
		case it.Stock < 1 || it.Stock > contract.MaxStock:
			return contract.InvalidField(field+"stock", "must be 1 to 100000000")
		}
		ids[i], seen[it.SKUID] = it.SKUID, true
	}
	skus, err := s.Deps.Products.SKUs(ctx, core.OfMerchant(a.MerchantID), ids)
	if err != nil {
		return err
	}
	a.Items, a.Currency = nil, ""
	for i, it := range items {
		sku, ok := skus[it.SKUID]
		if !ok {
			return contract.InvalidField(fmt.Sprintf("items[%d].sku_id", i), "no such SKU")
		}
		if a.Currency != "" && a.Currency != sku.Currency {
			return contract.InvalidField(fmt.Sprintf("items[%d].sku_id", i),
				"must have the same currency as the other items")
		}
		a.Currency = sku.Currency
		a.Items = append(a.Items, core.Stock{
			SKUID: it.SKUID, Ref: sku.Ref, Name: sku.Name, Archived: sku.Archived, Price: it.Price, Total: it.Stock, Available: it.Stock,
		})
	}
	slices.SortFunc(a.Items, func(x, y core.Stock) int { return core.CompareIDs(x.SKUID, y.SKUID) })
	return nil
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

// activityRefusal is core.GateRefusal for a change of an activity. The refusal has the version that the change was saved as:
// the If-Match of a repeated call needs that one.
func activityRefusal(err error, a *core.Activity) error {
	var r *contract.Refusal
	if err = core.GateRefusal(err); errors.As(err, &r) && r.Code == contract.CodeGateUnavailable {
		return r.With("version", a.Version)
	}
	return err
}
