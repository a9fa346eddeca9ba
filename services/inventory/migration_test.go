package inventory

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
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
	turn                 sync.Mutex // held during a round
	rounds               atomic.Int64
	products, activities []int64
	spans                []span
}

// span is the time of a round.
type span struct{ began, ended time.Time }

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

// fill writes at least so many rows into each table that the migration changes.
func (p *oldPod) fill(t *testing.T, rows int) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	for _, q := range []struct {
		table, columns string
		values         []any
	}{
		{"products", "name, description, image_url, created_at, updated_at", []any{"p", "", "", now, now}},
		{
			"activities", "title, state, starts_at, ends_at, per_user_limit, pay_within_s, currency, version, created_at, updated_at",
			[]any{"a", "published", now, now.Add(time.Hour), 1, 900, "EUR", 1, now, now},
		},
		{"changes", "at, who, action, object, object_id, detail", []any{now, "m", "limit.put", "limit", 0, ""}},
	} {
		places := strings.TrimSuffix(strings.Repeat("?, ", len(q.values)), ", ")
		insert := "INSERT INTO " + q.table + " (" + q.columns + ") "
		require.NoError(t, p.db.Exec(insert+"VALUES ("+places+")", q.values...).Error)
		for n := 1; n < rows; n *= 2 {
			require.NoError(t, p.db.Exec(insert+"SELECT "+q.columns+" FROM "+q.table).Error)
		}
	}
}

// round creates a product and an activity, publishes and adjusts it, lands a purchase, stores a dead letter, and reads
// the lists.
func (p *oldPod) round(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	began := time.Now()
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
		_, err = p.insert(tx, "INSERT INTO changes (at, who, action, object, object_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
			now, "m", "activity.publish", "activity", activity, "")
		return err
	})
	if err != nil {
		return err
	}
	err = sqldb.InTx(ctx, p.db, func(tx *gorm.DB) error {
		var skus []int64
		err := sqldb.ForUpdate(tx.Table("stocks")).Where("activity_id = ?", activity).Order("activity_id, sku_id").Pluck("sku_id", &skus).Error
		if err != nil {
			return err
		}
		_, err = p.insert(tx, "INSERT INTO reservations (order_sn, activity_id, user_id, bucket, line_items, state, reason, reserved_at, "+
			"landed_at, order_created_at, expires_at, changed_at, republish_at, republish_attempt, traceparent) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			activity, activity, "u", 0, fmt.Sprintf(`[{"sku_id":"%d","qty":1}]`, skus[0]), "reserved", "", now, now, nil, nil, now, now, 0, "")
		if err != nil {
			return err
		}
		if _, err = p.insert(tx, "INSERT INTO allowances (activity_id, user_id, held) VALUES (?, ?, ?)", activity, "u", 1); err != nil {
			return err
		}
		_, err = p.insert(tx, "UPDATE stocks SET available = available - 1, reserved = reserved + 1 WHERE activity_id = ? AND sku_id = ?",
			activity, skus[0])
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
	p.spans = append(p.spans, span{began, time.Now()})
	p.products, p.activities = append(p.products, product), append(p.activities, activity)
	p.rounds.Add(1)
	return nil
}

// The migration works while pods of the previous release write: none of their calls fails, and all that they write
// belongs to the default merchant.
func TestMerchantsAreAddedWhileOldPodsWrite(t *testing.T) {
	t.Parallel()
	t.Run("mariadb", func(t *testing.T) { migrateUnderOldPods(t, dbtest.MariaDBDSN(t), 50_000) })
	// Nothing runs during the migration, so it need not last.
	t.Run("sqlite", func(t *testing.T) {
		migrateUnderOldPods(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"), 500)
	})
}

// migrateUnderOldPods migrates a database with at least so many rows in each table that the migration changes.
func migrateUnderOldPods(t *testing.T, dsn string, rows int) {
	open := func() *gorm.DB {
		db, err := sqldb.Open(dsn, sqldb.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sqldb.Close(db) })
		return db
	}
	db, discard := open(), slog.New(slog.DiscardHandler)
	require.NoError(t, sqldb.Migrate(t.Context(), db, migrationsBefore(t), discard))
	old := &oldPod{db: open()}
	old.fill(t, rows)
	filled := map[string]int64{}
	for _, table := range []string{"products", "activities"} {
		var last int64
		require.NoError(t, db.Table(table).Select("MAX(id)").Scan(&last).Error)
		filled[table] = last
	}
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
	if sqldb.IsSQLite(db) { // one process owns the file, so no old pod runs meanwhile
		old.turn.Lock()
	}
	began := time.Now()
	require.NoError(t, sqldb.Migrate(t.Context(), db, Migrations, discard))
	ended := time.Now()
	if sqldb.IsSQLite(db) {
		old.turn.Unlock()
	}
	migrated := old.rounds.Load()
	rounds(migrated + 30)
	stop()
	require.NoError(t, <-failed, "a call of an old pod was refused")

	during := 0
	for _, s := range old.spans {
		if s.began.After(began) && s.ended.Before(ended) {
			during++
		}
	}
	if !sqldb.IsSQLite(db) {
		require.Positive(t, during, "no round began and ended during the migration")
	}

	// All rows are there, and all belong to the default merchant.
	for table, ids := range map[string][]int64{"products": old.products, "activities": old.activities} {
		var stored []int64
		require.NoError(t, db.Table(table).Where("id > ? AND merchant_id = ?", filled[table], contract.DefaultMerchant).Order("id").Pluck("id", &stored).Error)
		require.Equal(t, ids, stored, table)
		var foreign int64
		require.NoError(t, db.Table(table).Where("merchant_id <> ?", contract.DefaultMerchant).Count(&foreign).Error)
		require.Zero(t, foreign, table)
	}
	var versions []int64
	require.NoError(t, db.Table("products").Distinct().Pluck("version", &versions).Error)
	require.Equal(t, []int64{1}, versions)
	var presented int64
	require.NoError(t, db.Table("activities").Where("description <> '' OR image_url <> ''").Count(&presented).Error)
	require.Zero(t, presented)
	var owned int64
	require.NoError(t, db.Table("changes").Where("merchant_id <> ''").Count(&owned).Error)
	require.Zero(t, owned, "the previous release records no owner")

	// The new service shows them to the default merchant only.
	s := newShopOn(t, db)
	other, operator := s.mintFor("other", "clerk", auth.Merchant), s.mintFor("other", "op", auth.Operator)
	last := fmt.Sprint(old.activities[len(old.activities)-1])
	first := fmt.Sprint(old.activities[0])
	for _, id := range []string{first, last} {
		require.Equal(t, 200, s.do("GET", "/v1/merchant/activities/"+id, "").status)
		require.Equal(t, 404, s.as(other, "GET", "/v1/merchant/activities/"+id, "").status)
	}
	require.JSONEq(t, `{"items":[]}`, string(s.as(other, "GET", "/v1/merchant/products", "").body))
	var deadLetters struct {
		Items []struct {
			ActivityID string `json:"activity_id"`
			MerchantID string `json:"merchant_id"`
		}
	}
	s.as(operator, "GET", "/v1/merchant/dead-letters?limit=1&merchant_id=default", "").into(t, &deadLetters)
	require.Len(t, deadLetters.Items, 1)
	require.Equal(t, last, deadLetters.Items[0].ActivityID)
	require.Equal(t, contract.DefaultMerchant, deadLetters.Items[0].MerchantID)
	t.Logf("%d rounds of an old pod, %d during the %s of the migration; 0 failed", old.rounds.Load(), during, ended.Sub(began))
}

func TestMigrationsCanBeRepeated(t *testing.T) { dbtest.RepeatMigrations(t, Migrations) }
