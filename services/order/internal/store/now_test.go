package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

func TestTheTimeIsThatOfTheDatabase(t *testing.T) {
	t.Parallel()
	ordertest.Each(t, func(t *testing.T, db *gorm.DB) {
		times := func(s *store.Store) []time.Time {
			outside, err := s.Now(t.Context())
			require.NoError(t, err)
			var inside time.Time
			require.NoError(t, s.InTx(t.Context(), "test", func(tx core.Tx) (err error) {
				inside, err = tx.Now()
				return err
			}))
			return []time.Time{outside, inside}
		}
		began := time.Now().Truncate(time.Millisecond)
		for _, now := range times(store.New(db, telemetry.Discard(t), nil)) { // the server is on this machine
			require.False(t, now.Before(began))
			require.False(t, now.After(time.Now()))
			require.Equal(t, time.UTC, now.Location())
		}
		fixed := time.Date(2026, 11, 21, 10, 0, 0, 1_500_000, time.UTC)
		clock := store.WithClock(func() time.Time { return fixed })
		for _, now := range times(store.New(db, telemetry.Discard(t), nil, clock)) {
			require.Equal(t, fixed.Truncate(time.Millisecond), now, "in the precision of the tables")
		}
	})
}
