package inventory

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

// migrationsBefore returns the migrations of the release before merchants.
func migrationsBefore(t *testing.T) fs.FS {
	before := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(Migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() >= "00003_" {
			return err
		}
		text, err := Migrations.ReadFile(path)
		before[path] = &fstest.MapFile{Data: text}
		return err
	}))
	return before
}

// oldPod writes and reads as a pod of the previous release, with its statements.
type oldPod struct {
	db                   *gorm.DB
	rounds               atomic.Int64
	products, activities []int64
}

func (p *oldPod) insert(tx *gorm.DB, statement string, values ...any) (id int64, err error) {
	if err := tx.Exec(statement, values...).Error; err != nil {
		return 0, fmt.Errorf("%s: %w", statement, err)
	}
	last := "SELECT LAST_INSERT_ID()"
	if sqldb.IsSQLite(tx) {
		last = "SELECT LAST_INSERT_ROWID()"
	}
	return id, tx.Raw(last).Scan(&id).Error
}

// round creates a product and an activity, publishes and adjusts it, stores a dead letter, and reads the lists.
func (p *oldPod) round(ctx context.Context) error {
	now := time.Now().UTC().Truncate(time.Millisecond)
	n := p.rounds.Load()
	var product, activity int64
	err := sqldb.InTx(ctx, p.db, func(tx *gorm.DB) (err error) {
		product, err = p.insert(tx, "INSERT INTO products (name, description, image_url, created_at, updated_at) VALUES (?, ?, ?, ?, ?)",
			fmt.Sprint("p", n), "", "", now, now)
		if err != nil {
			return err
		}
		sku, err := p.insert(tx, "INSERT INTO skus (product_id, name, list_price, currency, created_at) VALUES (?, ?, ?, ?, ?)",
			product, "k", 1, "EUR", now)
		if err != nil {
			return err
		}
		activity, err = p.insert(tx, "INSERT INTO activities (title, state, starts_at, ends_at, ended_at, per_user_limit, pay_within_s, "+
			"currency, version, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			fmt.Sprint("a", n), "draft", now, now.Add(time.Hour), nil, 1, 900, "EUR", 1, now, now)
		if err != nil {
			return err
		}
		if _, err = p.insert(tx, "INSERT INTO stocks (activity_id, sku_id, price, total, available, reserved, sold) VALUES (?, ?, ?, ?, ?, ?, ?)",
			activity, sku, 1, 5, 5, 0, 0); err != nil {
			return err
		}
		_, err = p.insert(tx, "INSERT INTO changes (at, who, action, object, object_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
			now, "m", "activity.create", "activity", activity, "")
		if err != nil {
			return err
		}
		_, err = p.insert(tx, "INSERT INTO adjustments (activity_id, sku_id, delta, reason, state, decision, created_by, created_at, updated_at) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", activity, sku, 1, "r", "applied", "taken", "m", now, now)
		return err
	})
	if err != nil {
		return err
	}
	err = sqldb.InTx(ctx, p.db, func(tx *gorm.DB) error {
		var state string
		if err := sqldb.ForUpdate(tx.Table("activities")).Select("state").Where("id = ?", activity).Scan(&state).Error; err != nil {
			return err
		}
		_, err := p.insert(tx, "UPDATE activities SET title = ?, state = ?, version = version + 1, updated_at = ? WHERE id = ?",
			fmt.Sprint("a", n), "published", now, activity)
		if err != nil {
			return err
		}
		_, err = p.insert(tx, "INSERT INTO dead_letters (fingerprint, origin, topic, order_sn, activity_id, why, item, failed_at, traceparent, "+
			"state, rejecting, occurrences, decided_by, decided_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			fmt.Sprintf("%064d", activity), "g", "t", activity, activity, "w", []byte("{}"), now, "", "open", false, 1, "", nil)
		return err
	})
	if err != nil {
		return err
	}
	var names []string
	if err := p.db.WithContext(ctx).Table("products").Order("id DESC").Limit(20).Pluck("name", &names).Error; err != nil {
		return err
	}
	if err := p.db.WithContext(ctx).Table("activities").Order("id DESC").Limit(20).Pluck("title", &names).Error; err != nil {
		return err
	}
	p.products, p.activities = append(p.products, product), append(p.activities, activity)
	p.rounds.Add(1)
	return nil
}

// The migration works while pods of the previous release write: none of their calls fails, and all that they write
// belongs to the default merchant.
func TestMerchantsAreAddedWhileOldPodsWrite(t *testing.T) {
	for name, dsn := range map[string]func() string{
		"mariadb": func() string { return dbtest.MariaDBDSN(t) },
		"sqlite":  func() string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") },
	} {
		t.Run(name, func(t *testing.T) { migrateUnderOldPods(t, dsn()) })
	}
}

func migrateUnderOldPods(t *testing.T, dsn string) {
	open := func() *gorm.DB {
		db, err := sqldb.Open(dsn, sqldb.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sqldb.Close(db) })
		return db
	}
	db, discard := open(), slog.New(slog.DiscardHandler)
	require.NoError(t, sqldb.Migrate(t.Context(), db, migrationsBefore(t), discard))
	old := &oldPod{db: open()}
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := old.round(context.WithoutCancel(ctx)); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	rounds := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return old.rounds.Load() >= n || len(failed) > 0 }, time.Minute, time.Millisecond)
	}
	rounds(30)
	require.NoError(t, sqldb.Migrate(t.Context(), db, Migrations, discard))
	migrated := old.rounds.Load()
	rounds(migrated + 30)
	stop()
	require.NoError(t, <-failed, "a call of an old pod was refused")

	// All rows are there, and all belong to the default merchant.
	for table, ids := range map[string][]int64{"products": old.products, "activities": old.activities} {
		var stored []int64
		require.NoError(t, db.Table(table).Where("merchant_id = ?", contract.DefaultMerchant).Order("id").Pluck("id", &stored).Error)
		require.Equal(t, ids, stored, table)
		var all int64
		require.NoError(t, db.Table(table).Count(&all).Error)
		require.EqualValues(t, len(ids), all, table)
	}
	var owned int64
	require.NoError(t, db.Table("changes").Where("merchant_id <> ''").Count(&owned).Error)
	require.Zero(t, owned, "the previous release records no owner")

	// The new service shows them to the default merchant only.
	s := newShop(t, db)
	other, operator := s.mintFor("other", "clerk", auth.Merchant), s.mintFor("other", "op", auth.Operator)
	last := fmt.Sprint(old.activities[len(old.activities)-1])
	first := fmt.Sprint(old.activities[0])
	for _, id := range []string{first, last} {
		require.Equal(t, 200, s.do("GET", "/v1/merchant/activities/"+id, "").status)
		require.Equal(t, 404, s.as(other, "GET", "/v1/merchant/activities/"+id, "").status)
	}
	require.JSONEq(t, `{"items":[]}`, string(s.as(other, "GET", "/v1/merchant/products", "").body))
	var letters struct {
		Items []struct {
			ActivityID string `json:"activity_id"`
			MerchantID string `json:"merchant_id"`
		}
	}
	s.as(operator, "GET", "/v1/merchant/dead-letters?limit=1&merchant_id=default", "").into(t, &letters)
	require.Len(t, letters.Items, 1)
	require.Equal(t, last, letters.Items[0].ActivityID)
	require.Equal(t, contract.DefaultMerchant, letters.Items[0].MerchantID)
	t.Logf("%d rounds of an old pod, %d of them before the end of the migration; 0 failed", old.rounds.Load(), migrated)
}
