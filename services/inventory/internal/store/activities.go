package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

type activityRow struct {
	ID                  int64 `gorm:"primaryKey"`
	MerchantID          string
	Title               string
	Description         string
	ImageURL            string
	State               string
	StartsAt            time.Time
	EndsAt              time.Time
	EndedAt             *time.Time
	PerUserLimit        int64
	PayWithinS          int64
	ReorderLimit        int64
	RoomRate            int64
	Challenge           string
	ChallengeDifficulty int64
	Currency            string
	Version             int64
	CreatedAt           time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt           time.Time `gorm:"autoUpdateTime:false"`
	Notice              string
	NoticeAt            *time.Time
	Ref                 *string

	DegradedPerSecond int64
	DegradedDrop      int64
	DegradedReserve   int64
	Mode              string
	Outage            int64
	ModeChangedAt     *time.Time
	GateLacksSince    *time.Time
}

func (activityRow) TableName() string { return "activities" }

var activityColumns = []string{
	"id", "merchant_id", "title", "description", "image_url", "state", "starts_at", "ends_at", "ended_at",
	"per_user_limit", "pay_within_s", "reorder_limit", "room_rate", "challenge", "challenge_difficulty",
	"currency", "version", "created_at", "updated_at", "notice", "notice_at", "ref",
	"degraded_per_second", "degraded_drop", "degraded_reserve", "mode", "outage", "mode_changed_at",
	"gate_lacks_since",
}

// changedActivityColumns are those that a merchant's change writes: an activity never changes its owner, and only
// ChangeMode writes modeColumns.
var (
	changedActivityColumns = activityColumns[2 : len(activityColumns)-4]
	modeColumns            = activityColumns[len(activityColumns)-4:]
)

type stockRow struct {
	ActivityID int64 `gorm:"primaryKey;autoIncrement:false"`
	SKUID      int64 `gorm:"column:sku_id;primaryKey;autoIncrement:false"`
	Price      int64
	Total      int64
	Available  int64
	Reserved   int64
	Sold       int64
}

func (stockRow) TableName() string { return "stocks" }

var stockColumns = []string{"activity_id", "sku_id", "price", "total", "available", "reserved", "sold"}

func toActivity(r activityRow, items []core.Stock) *core.Activity {
	a := &core.Activity{
		ID: text(r.ID), MerchantID: r.MerchantID, Ref: valueOf(r.Ref), Title: r.Title, Description: r.Description,
		ImageURL: r.ImageURL, State: core.ActivityState(r.State), StartsAt: r.StartsAt.UTC(), EndsAt: r.EndsAt.UTC(), EndedAt: utc(r.EndedAt),
		PerUserLimit: r.PerUserLimit, PayWithinS: r.PayWithinS, ReorderLimit: r.ReorderLimit, RoomRate: r.RoomRate,
		Challenge: contract.Challenge{Kind: contract.ChallengeKind(r.Challenge), Difficulty: r.ChallengeDifficulty},
		Currency:  r.Currency, Version: r.Version, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), Items: items,
		Mode: contract.SaleMode(r.Mode), Outage: r.Outage, ModeChangedAt: utc(r.ModeChangedAt),
		GateLacksSince: utc(r.GateLacksSince),
	}
	if r.DegradedPerSecond > 0 {
		a.Degraded = &core.DegradedSale{PerSecond: r.DegradedPerSecond, Drop: r.DegradedDrop, Reserve: r.DegradedReserve}
	}
	if r.NoticeAt != nil {
		a.Notice = &core.Notice{Text: r.Notice, At: r.NoticeAt.UTC()}
	}
	return a
}

func fromActivity(a core.Activity) activityRow {
	row := activityRow{
		ID: number(a.ID), MerchantID: a.MerchantID, Ref: orNull(a.Ref), Title: a.Title, Description: a.Description,
		ImageURL: a.ImageURL, State: string(a.State), StartsAt: a.StartsAt, EndsAt: a.EndsAt, EndedAt: a.EndedAt,
		PerUserLimit: a.PerUserLimit, PayWithinS: a.PayWithinS, ReorderLimit: a.ReorderLimit, RoomRate: a.RoomRate,
		Challenge: string(a.Challenge.Kind), ChallengeDifficulty: a.Challenge.Difficulty,
		Currency: a.Currency, Version: a.Version, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		Mode: cmp.Or(string(a.Mode), string(contract.ModeGate)), Outage: a.Outage, ModeChangedAt: a.ModeChangedAt,
		GateLacksSince: a.GateLacksSince,
	}
	if d := a.Degraded; d != nil {
		row.DegradedPerSecond, row.DegradedDrop, row.DegradedReserve = d.PerSecond, d.Drop, d.Reserve
	}
	if n := a.Notice; n != nil {
		row.Notice, row.NoticeAt = n.Text, &n.At
	}
	return row
}

// itemsOf reads an activity's stock rows in the order of their key. If lock is true it locks them.
func itemsOf(tx *gorm.DB, activityID int64, lock bool) ([]core.Stock, error) {
	list, err := stocksOf(tx, activityID, lock)
	if err != nil {
		return nil, err
	}
	return toItems(tx, list)
}

// lockStocks locks and reads an activity's stock rows, without the names of their SKUs.
func lockStocks(tx *gorm.DB, activityID int64) ([]core.Stock, error) {
	list, err := stocksOf(tx, activityID, true)
	items := make([]core.Stock, len(list))
	for i, r := range list {
		items[i] = r.stock()
	}
	return items, err
}

func stocksOf(tx *gorm.DB, activityID int64, lock bool) (list []stockRow, err error) {
	q := tx
	if lock {
		q = sqldb.ForUpdate(tx)
	}
	err = q.Select(stockColumns).Where("activity_id = ?", activityID).Order("activity_id, sku_id").Find(&list).Error
	return list, err
}

func (r stockRow) stock() core.Stock {
	return core.Stock{
		SKUID: text(r.SKUID), Price: r.Price, Total: r.Total, Available: r.Available, Reserved: r.Reserved, Sold: r.Sold,
	}
}

func toItems(tx *gorm.DB, list []stockRow) ([]core.Stock, error) {
	ids := make([]int64, len(list))
	for i, r := range list {
		ids[i] = r.SKUID
	}
	about, err := aboutSKUs(tx, ids)
	if err != nil {
		return nil, err
	}
	items := make([]core.Stock, len(list))
	for i, r := range list {
		sku := about[r.SKUID]
		items[i] = r.stock()
		items[i].Name, items[i].ImageURL, items[i].ListPrice = sku.Name, sku.ImageURL, sku.ListPrice
		items[i].Ref = valueOf(sku.Ref)
		items[i].Archived = sku.Archived
	}
	return items, nil
}

// aboutSKU is what buyers see of a SKU.
type aboutSKU struct {
	ID        int64
	Ref       *string
	Name      string
	ListPrice int64
	ImageURL  string // of its product
	Archived  bool   // its product is
}

func aboutSKUs(tx *gorm.DB, ids []int64) (map[int64]aboutSKU, error) {
	about := make(map[int64]aboutSKU, len(ids))
	err := chunked(ids, func(c []int64) error {
		var list []aboutSKU
		err := tx.Table("skus").Select("skus.id", "skus.ref", "skus.name", "skus.list_price", "products.image_url", "products.archived").
			Joins("JOIN products ON products.id = skus.product_id").Where("skus.id IN ?", c).Find(&list).Error
		for _, r := range list {
			about[r.ID] = r
		}
		return err
	})
	return about, err
}

// activityOf reads an activity without its items. Callers that serve the API pass a query within a scope.
func activityOf(tx *gorm.DB, id int64, items []core.Stock) (*core.Activity, error) {
	var list []activityRow
	if err := tx.Select(activityColumns).Where("id = ?", id).Limit(1).Find(&list).Error; err != nil || len(list) == 0 {
		return nil, err
	}
	return toActivity(list[0], items), nil
}

// datedActivityRow is an activity with the time of the database at the beginning of the statement that reads it.
type datedActivityRow struct {
	Activity activityRow `gorm:"embedded"`
	ReadAt   time.Time
}

func (datedActivityRow) TableName() string { return "activities" }

// datedActivityOf is activityOf with the time of the database, before the activity is read. It needs no further
// statement. The time is zero if there is no such activity.
func datedActivityOf(
	tx *gorm.DB, id int64, items []core.Stock, clock func() time.Time,
) (a *core.Activity, at time.Time, err error) {
	if clock != nil || sqldb.IsSQLite(tx) {
		if at, err = sqldb.Now(tx, clock); err != nil {
			return nil, at, err
		}
		a, err = activityOf(tx, id, items)
		return a, at, err
	}
	var list []datedActivityRow
	err = tx.Select(append(slices.Clip(activityColumns), sqldb.NowColumn+" AS read_at")).Where("id = ?", id).Limit(1).
		Find(&list).Error
	if err != nil || len(list) == 0 {
		return nil, at, err
	}
	return toActivity(list[0].Activity, items), list[0].ReadAt.UTC(), nil
}

// Activity implements merchants.Activities.
func (s *Store) Activity(ctx context.Context, in core.Scope, id string) (*core.Activity, error) {
	a, err := activityOf(within(s.read(ctx), in), number(id), nil)
	if err != nil || a == nil {
		return nil, err
	}
	if a.Items, err = itemsOf(s.read(ctx), number(id), false); err != nil {
		return nil, err
	}
	return a, addSellers(s.read(ctx), a)
}

// AnyActivity implements gates.Activities and reconcile.Activities.
func (s *Store) AnyActivity(ctx context.Context, id string) (*core.Activity, error) {
	return s.Activity(ctx, core.AllMerchants(), id)
}

// DatedActivity implements core.Store.
func (s *Store) DatedActivity(ctx context.Context, id string) (a *core.Activity, at time.Time, err error) {
	a, at, err = datedActivityOf(s.read(ctx), number(id), nil, s.clock)
	if err != nil || a == nil {
		return nil, at, err
	}
	a.Items, err = itemsOf(s.read(ctx), number(id), false)
	return a, at, err
}

// Activities implements merchants.Activities.
func (s *Store) Activities(
	ctx context.Context, in core.Scope, f merchants.ActivityFilter, now time.Time, p core.Page,
) ([]core.Activity, error) {
	q := within(s.read(ctx), in).Select(activityColumns)
	if f.Phase != "" {
		q = inPhase(q, f.Phase, now)
	}
	if f.Title != "" {
		condition, value := contains(q, "title", f.Title)
		q = q.Where(condition, value)
	}
	order := "id DESC"
	if f.ByStart {
		order = "starts_at DESC, id DESC"
	}
	switch {
	case p.Cursor == "":
	case f.ByStart:
		q = q.Where("(starts_at < ? OR starts_at = ? AND id < ?)", f.From, f.From, number(p.Cursor))
	default:
		q = q.Where("id < ?", number(p.Cursor))
	}
	var list []activityRow
	if err := q.Order(order).Limit(p.Limit).Find(&list).Error; err != nil {
		return nil, err
	}
	return s.withItems(ctx, list)
}

// inPhase adds the condition under which core.Activity.Phase returns the phase.
func inPhase(q *gorm.DB, phase string, now time.Time) *gorm.DB {
	published, paused := string(core.ActivityPublished), string(core.ActivityPaused)
	switch phase {
	case "draft":
		return q.Where("state = ?", string(core.ActivityDraft))
	case "scheduled":
		return q.Where("state = ? AND ends_at > ? AND starts_at > ?", published, now, now)
	case "open":
		return q.Where("state = ? AND ends_at > ? AND starts_at <= ?", published, now, now)
	case "paused":
		return q.Where("state = ? AND ends_at > ?", paused, now)
	}
	return q.Where("(state = ? OR state IN ? AND ends_at <= ?)", string(core.ActivityEnded), []string{published, paused}, now)
}

// NextStart returns the start of the published sale that starts next; the zero time if there is none.
func (s *Store) NextStart(ctx context.Context) (time.Time, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var next []activityRow
	err = s.read(ctx).Select("starts_at").
		Where("state = ? AND ends_at > ? AND starts_at > ?", string(core.ActivityPublished), now, now).
		Order("starts_at").Limit(1).Find(&next).Error
	if err != nil || len(next) == 0 {
		return time.Time{}, err
	}
	return next[0].StartsAt, nil
}

// GateActivities implements gates.Activities.
func (s *Store) GateActivities(ctx context.Context, now time.Time) ([]core.Activity, error) {
	var list []activityRow
	err := s.read(ctx).Select(activityColumns).
		Where("state <> ? AND (ends_at > ? OR "+
			"EXISTS (SELECT 1 FROM stocks WHERE stocks.activity_id = activities.id AND stocks.reserved > 0))",
			string(core.ActivityDraft), now.Add(-ledger.GateKept)).
		Order("id").Find(&list).Error
	if err != nil {
		return nil, err
	}
	all, err := s.withItems(ctx, list)
	if err != nil {
		return nil, err
	}
	due := all[:0]
	for _, a := range all {
		if a.GateDue(now) {
			due = append(due, a)
		}
	}
	return due, nil
}

// HoldingActivities implements sweep.Holdings.
func (s *Store) HoldingActivities(ctx context.Context) ([]core.Activity, error) {
	var list []activityRow
	err := s.read(ctx).Select(activityColumns).Where("id IN (SELECT activity_id FROM stocks WHERE reserved > 0)").
		Order("id").Find(&list).Error
	activities := make([]core.Activity, len(list))
	for i, r := range list {
		activities[i] = *toActivity(r, nil)
	}
	return activities, err
}

func (s *Store) withItems(ctx context.Context, list []activityRow) ([]core.Activity, error) {
	ids := make([]int64, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	items := map[int64][]core.Stock{}
	err := chunked(ids, func(c []int64) error {
		var stocks []stockRow
		err := s.read(ctx).Select(stockColumns).Where("activity_id IN ?", c).Order("activity_id, sku_id").
			Find(&stocks).Error
		if err != nil {
			return err
		}
		named, err := toItems(s.read(ctx), stocks)
		for i, it := range named {
			items[stocks[i].ActivityID] = append(items[stocks[i].ActivityID], it)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	activities, named := make([]core.Activity, len(list)), make([]*core.Activity, len(list))
	for i, r := range list {
		activities[i] = *toActivity(r, items[r.ID])
		named[i] = &activities[i]
	}
	return activities, addSellers(s.read(ctx), named...)
}
