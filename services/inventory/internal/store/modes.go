package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/redisless"
)

// DegradedActivities implements redisless.Sales.
func (s *Store) DegradedActivities(ctx context.Context, now time.Time) ([]core.Activity, error) {
	var list []activityRow
	err := s.read(ctx).Select(activityColumns).
		Where("degraded_per_second > 0 AND state IN ? AND ends_at > ? OR mode <> ?",
			[]string{string(core.ActivityPublished), string(core.ActivityPaused)}, now, string(contract.ModeGate)).
		Order("id").Find(&list).Error
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return s.withItems(ctx, list)
}

type redislessSaleRow struct {
	ActivityID int64 `gorm:"primaryKey;autoIncrement:false"`
	SeenAt     time.Time
	FiguresAt  time.Time
	NotedAt    time.Time
	Unlanded   string
	HeldBack   string
	Reserve    string
	SoldSecond int64
	SoldCount  int64
}

func (redislessSaleRow) TableName() string { return "redisless_sales" }

func (r redislessSaleRow) figures() (core.RedislessSale, error) {
	sale := core.RedislessSale{FiguresAt: r.FiguresAt.UTC(), NotedAt: r.NotedAt.UTC(), SoldSecond: r.SoldSecond, SoldCount: r.SoldCount}
	if r.SeenAt.After(unconfirmed) {
		sale.SeenAt = r.SeenAt.UTC()
	}
	err := errors.Join(json.Unmarshal([]byte(r.Unlanded), &sale.Unlanded), json.Unmarshal([]byte(r.HeldBack), &sale.HeldBack),
		json.Unmarshal([]byte(r.Reserve), &sale.Reserve))
	if err != nil {
		return sale, fmt.Errorf("figures of redisless sale %d: %w", r.ActivityID, err)
	}
	return sale, nil
}

// figuresJSON encodes units by SKU. Its keys are sorted.
func figuresJSON(units map[string]int64) (string, error) {
	if units == nil {
		units = map[string]int64{}
	}
	raw, err := json.Marshal(units)
	return string(raw), err
}

// redislessSaleOf reads the figures of one activity; without a row they are zero.
func redislessSaleOf(tx *gorm.DB, activityID int64) (core.RedislessSale, error) {
	var list []redislessSaleRow
	if err := tx.Where("activity_id = ?", activityID).Limit(1).Find(&list).Error; err != nil || len(list) == 0 {
		return core.RedislessSale{HeldBack: map[string]int64{}, Reserve: map[string]int64{}}, err
	}
	return list[0].figures()
}

// putRedislessSale writes the figures that sales and changes of the mode change. The row exists, or nothing was sold.
func putRedislessSale(tx *gorm.DB, activityID int64, sale core.RedislessSale) error {
	held, err := figuresJSON(sale.HeldBack)
	if err != nil {
		return err
	}
	reserve, err := figuresJSON(sale.Reserve)
	if err != nil {
		return err
	}
	return tx.Exec("UPDATE redisless_sales SET held_back = ?, reserve = ?, sold_second = ?, sold_count = ? WHERE activity_id = ?",
		held, reserve, sale.SoldSecond, sale.SoldCount, activityID).Error
}

// RedislessSales implements redisless.Sales.
func (s *Store) RedislessSales(ctx context.Context, activityIDs []string) (map[string]core.RedislessSale, error) {
	found := make(map[string]core.RedislessSale, len(activityIDs))
	err := chunked(activityIDs, func(c []string) error {
		var list []redislessSaleRow
		if err := s.read(ctx).Where("activity_id IN ?", numbers(c)).Find(&list).Error; err != nil {
			return err
		}
		for _, r := range list {
			figures, err := r.figures()
			if err != nil {
				return err
			}
			found[text(r.ActivityID)] = figures
		}
		return nil
	})
	return found, err
}

// RedislessSale implements core.LedgerTx.
func (l *ledgerTx) RedislessSale(
	activityID string, userIDs []string, since time.Time,
) (s core.RedislessSale, lost map[string]core.LostOrders, err error) {
	if s, err = redislessSaleOf(l.tx, number(activityID)); err == nil {
		lost, err = lostOrders(l.tx, activityID, userIDs, since)
	}
	return s, lost, err
}

// lostOrders returns, by user, the orders that were cancelled or expired since then.
func lostOrders(
	tx *gorm.DB, activityID string, userIDs []string, since time.Time,
) (map[string]core.LostOrders, error) {
	lost := map[string]core.LostOrders{}
	err := chunked(userIDs, func(c []string) error {
		var rows []struct {
			UserID    string
			ChangedAt time.Time
		}
		err := tx.Model(&reservationRow{}).Select("user_id, changed_at").
			Where("activity_id = ? AND user_id IN ? AND state = ? AND reason IN ? AND changed_at >= ?", number(activityID), c,
				ledger.StateReleased, []string{ledger.ReasonCancelled, ledger.ReasonExpired}, since).
			Find(&rows).Error
		for _, r := range rows {
			was := lost[r.UserID]
			if was.Count++; r.ChangedAt.After(was.Last) {
				was.Last = r.ChangedAt.UTC()
			}
			lost[r.UserID] = was
		}
		return err
	})
	return lost, err
}

// PutRedislessSale implements core.LedgerTx.
func (l *ledgerTx) PutRedislessSale(activityID string, sale core.RedislessSale) error {
	return putRedislessSale(l.tx, number(activityID), sale)
}

// ChangeMode implements redisless.Sales.
func (s *Store) ChangeMode(
	ctx context.Context, activityID string, fn func(a *core.Activity, figures *core.RedislessSale, now time.Time) (bool, error),
) (*core.Activity, error) {
	var out *core.Activity
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		a, err := lockActivity(tx, core.AllMerchants(), activityID)
		if err != nil {
			return err
		}
		if a.Items, err = itemsOf(tx, number(activityID), true); err != nil {
			return err
		}
		out = a
		figures, err := redislessSaleOf(tx, number(activityID))
		if err != nil {
			return err
		}
		now, err := sqldb.Now(tx, s.clock)
		if err != nil {
			return err
		}
		write, err := fn(a, &figures, now)
		if err != nil || !write {
			return err
		}
		row := fromActivity(*a)
		if err := tx.Model(&activityRow{}).Where("id = ?", row.ID).Select(modeColumns).Updates(&row).Error; err != nil {
			return err
		}
		return putRedislessSale(tx, row.ID, figures)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// NoteGates implements redisless.WatchedSales. The figures stay while a sale is redisless: what is held back refers to
// them.
func (s *Store) NoteGates(ctx context.Context, seen, figuresAt time.Time, unlanded map[string]map[string]int64) error {
	if len(unlanded) == 0 {
		return nil
	}
	seen, figuresAt = seen.UTC(), figuresAt.UTC()
	ids := slices.Sorted(maps.Keys(unlanded))
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		noted, err := sqldb.Now(tx, s.clock)
		if err != nil {
			return err
		}
		return chunked(ids, func(c []string) error {
			rows := make([]redislessSaleRow, len(c))
			for i, id := range c {
				figures, err := figuresJSON(unlanded[id])
				if err != nil {
					return err
				}
				rows[i] = redislessSaleRow{
					ActivityID: number(id), SeenAt: seen, FiguresAt: figuresAt, NotedAt: noted, Unlanded: figures, HeldBack: "{}", Reserve: "{}",
				}
			}
			return noteGates(tx, rows)
		})
	})
}

// clockMargin is more than the clocks of Redis and the database may differ.
const clockMargin = 5 * time.Second

// firstReading is the reading of the gate of an activity that is published now: it has no purchases yet. So the sale can
// go on without its gate also if Redis fails before the gate is read.
func firstReading(activityID int64, now time.Time) redislessSaleRow {
	return redislessSaleRow{
		ActivityID: activityID, SeenAt: now.UTC(), NotedAt: now.UTC(), FiguresAt: now.UTC().Add(-clockMargin),
		Unlanded: "{}", HeldBack: "{}", Reserve: "{}",
	}
}

// noteGates writes readings of one time. The row of a new activity is inserted.
func noteGates(tx *gorm.DB, rows []redislessSaleRow) error {
	const redisless = "(SELECT mode FROM activities WHERE activities.id = redisless_sales.activity_id) = '" +
		string(contract.ModeRedisless) + "'"
	args := []any{rows[0].SeenAt, rows[0].NotedAt, rows[0].FiguresAt}
	for _, r := range rows {
		args = append(args, r.ActivityID, r.Unlanded)
	}
	for _, r := range rows {
		args = append(args, r.ActivityID)
	}
	changed, err := sqldb.Exec(tx, "UPDATE redisless_sales SET seen_at = ?, noted_at = ?, "+
		"figures_at = CASE WHEN "+redisless+" THEN figures_at ELSE ? END, "+
		"unlanded = CASE WHEN "+redisless+" THEN unlanded ELSE CASE activity_id "+strings.Repeat("WHEN ? THEN ? ", len(rows))+"END END "+
		"WHERE activity_id IN "+sqldb.List(len(rows))+" AND seen_at < ?", append(args, rows[0].SeenAt)...)
	if err != nil || changed == int64(len(rows)) {
		return err
	}
	return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error
}

// NoteLacking implements the store of core.Guard.
func (s *Store) NoteLacking(ctx context.Context, activityID string, since time.Time) (redisless bool, err error) {
	var list []activityRow
	err = s.read(ctx).Select(activityColumns).Where("id = ?", number(activityID)).Limit(1).Find(&list).Error
	if err != nil || len(list) == 0 || list[0].Mode != string(contract.ModeRedisless) {
		return false, err
	}
	if at := list[0].GateLacksSince; at != nil && !since.Before(at.UTC()) {
		return true, nil
	}
	err = sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		changed, err := sqldb.Exec(tx, "UPDATE activities SET gate_lacks_since = ? WHERE id = ? AND mode = ? AND outage = ? "+
			"AND gate_lacks_since > ?", since.UTC(), number(activityID), string(contract.ModeRedisless), list[0].Outage,
			since.UTC())
		redisless = changed > 0
		return err
	})
	return redisless, err
}

type workerLeaseRow struct {
	Worker int `gorm:"primaryKey;autoIncrement:false"`
	Owner  string
	FromMS int64 `gorm:"column:from_ms"`
	HighMS int64 `gorm:"column:high_ms"`
}

func (workerLeaseRow) TableName() string { return "worker_leases" }

// LeaseWorker implements redisless.Sales. A new owner may issue only after the present time and one term, and after the
// high-water mark of the last owner.
func (s *Store) LeaseWorker(
	ctx context.Context, ids redisless.WorkerLeases, r contract.WorkerLease,
) (out contract.LeasedWorker, err error) {
	err = sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		// The locked rows stay as they are read. Two transactions that insert the same id are a race: one repeats.
		var rows []workerLeaseRow
		if err := sqldb.ForUpdate(tx).Order("worker").Find(&rows).Error; err != nil {
			return err
		}
		now, err := sqldb.Now(tx, s.clock)
		if err != nil {
			return err
		}
		lease := leaseWorker(rows, ids, r, now.UnixMilli())
		out = contract.LeasedWorker{Worker: -1, Now: now.UnixMilli()}
		for _, row := range rows {
			if row.HighMS >= out.Now && (lease == nil || row.Worker != lease.Worker) {
				out.Holders++
			}
		}
		if lease == nil {
			return nil
		}
		if slices.ContainsFunc(rows, func(row workerLeaseRow) bool { return row.Worker == lease.Worker }) {
			err = tx.Exec("UPDATE worker_leases SET owner = ?, from_ms = ?, high_ms = ? WHERE worker = ?", lease.Owner,
				lease.FromMS, lease.HighMS, lease.Worker).Error
		} else {
			err = tx.Create(lease).Error
		}
		out.Worker, out.From, out.High = lease.Worker, lease.FromMS, lease.HighMS
		out.Holders++
		return err
	}, sqldb.RetryDuplicates())
	return out, err
}

// leaseWorker returns the lease that the request gets, nil for none.
func leaseWorker(rows []workerLeaseRow, ids redisless.WorkerLeases, r contract.WorkerLease, now int64) *workerLeaseRow {
	term := ids.Term.Milliseconds()
	byID := make(map[int]workerLeaseRow, len(rows))
	for _, row := range rows {
		byID[row.Worker] = row
		if row.Owner == r.Owner && (!r.Renew || row.Worker == r.Worker) {
			if r.Renew {
				row.HighMS = max(row.HighMS, now+term)
			}
			return &row
		}
	}
	if r.Renew {
		return nil
	}
	for id := ids.First; id < ids.End; id++ {
		row, used := byID[id]
		if used && row.HighMS+term >= now {
			continue
		}
		return &workerLeaseRow{
			Worker: id, Owner: r.Owner, FromMS: max(now+term, r.Seen, row.HighMS) + 1, HighMS: now + term,
		}
	}
	return nil
}
