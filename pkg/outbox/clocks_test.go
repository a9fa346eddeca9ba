package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/outbox"
	"flashsale.internal/pkg/sqldb/dbtest"
)

// claimed marks all rows as claimed by another relay until the given time.
func claimed(t *testing.T, db *gorm.DB, until time.Time) {
	t.Helper()
	require.NoError(t, db.Exec("UPDATE outbox SET claimed_until = ?, claimed_by = 'other'", until).Error)
}

// until returns the end of the claim of the only row.
func until(t *testing.T, db *gorm.DB) time.Time {
	t.Helper()
	var list []time.Time
	require.NoError(t, db.Table("outbox").Pluck("claimed_until", &list).Error)
	require.Len(t, list, 1)
	return list[0]
}

// The processes' clocks are 5 min ahead of the database, or behind it: a claim lasts until the database reaches its end.
func TestAClaimEndsByTheTimeOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
				clock := func() time.Time { return time.Now().Add(-ahead) }
				passes := make(chan struct{}, 1)
				seen := func() time.Time {
					select {
					case passes <- struct{}{}:
					default:
					}
					return clock()
				}
				b := &broker{}
				add(t, db, "t", 0, 10)
				claimed(t, db, clock().Add(time.Minute)) // of a relay that is alive
				stop := run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(time.Millisecond), outbox.Clock(seen)))
				for range 5 {
					select {
					case <-passes:
					case <-time.After(time.Minute):
						require.Fail(t, "the relay does not read the time of the database")
					}
				}
				stop()
				require.Empty(t, b.seen(t), "claimed by another relay")

				claimed(t, db, clock().Add(-time.Second)) // of a relay that was killed
				run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(time.Millisecond), outbox.Clock(clock)))
				empty(t, db)
				require.Len(t, b.seen(t), 10)
			})
		})
	}
}

// A row that is put off returns after its pause by the time of the database.
func TestARowIsPutOffByTheTimeOfTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		clock := func() time.Time { return time.Now().Add(-5 * time.Minute) }
		add(t, db, "t", 0, 1)
		require.NoError(t, db.Exec("UPDATE outbox SET item = 'not json'").Error)
		run(t, outbox.NewRelay(db, &broker{}, quiet(), outbox.Poll(time.Millisecond), outbox.Clock(clock)))
		require.Eventually(t, func() bool { return until(t, db).After(clock().Add(31 * time.Minute)) }, // a claim is shorter
			30*time.Second, time.Millisecond)
		require.WithinDuration(t, clock().Add(time.Hour), until(t, db), time.Minute)
	})
}

// A relay whose process must not decide by time claims nothing, and goes on as soon as it may.
func TestARelayWithAWrongClockClaimsNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		var wrong atomic.Bool
		wrong.Store(true)
		checks := make(chan struct{}, 1)
		check := func(context.Context) error {
			select {
			case checks <- struct{}{}:
			default:
			}
			if wrong.Load() {
				return errors.New("clock offset over 2 s")
			}
			return nil
		}
		b := &broker{}
		add(t, db, "t", 0, 10)
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(time.Millisecond), outbox.CheckClocks(check)))
		for range 5 {
			<-checks
		}
		require.Empty(t, b.seen(t))
		require.Equal(t, int64(10), unclaimed(t, db))
		wrong.Store(false)
		empty(t, db)
		require.Len(t, b.seen(t), 10)
	})
}

// unclaimed returns the number of rows that no relay has claimed.
func unclaimed(t *testing.T, db *gorm.DB) (n int64) {
	t.Helper()
	require.NoError(t, db.Table("outbox").Where("claimed_by = ''").Count(&n).Error)
	return n
}
