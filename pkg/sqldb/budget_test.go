package sqldb_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

// When all transactions conflict, only as many as the budget allows are repeated; the others fail after one attempt.
// Each new transaction adds half a repeat.
func TestRepeatsShareABudget(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t, migrations)
	lost := errors.New("lost")
	run := func() (runs int, err error) {
		err = sqldb.InTx(t.Context(), db, func(*gorm.DB) error {
			runs++
			return sqldb.Race(lost)
		})
		return runs, err
	}
	all := sqldb.RepeatsLeft(db)
	require.Positive(t, all)
	runs, err := run()
	require.ErrorIs(t, err, lost)
	require.Equal(t, 5, runs)
	require.Equal(t, all-4, sqldb.RepeatsLeft(db))

	var wg sync.WaitGroup
	var sum atomic.Int64
	const many = 1000
	for range many {
		wg.Go(func() {
			runs, err := run()
			if !sqldb.IsTransient(err) {
				t.Error(err)
			}
			sum.Add(int64(runs - 1))
		})
	}
	wg.Wait()
	require.LessOrEqual(t, sum.Load(), all+many/2)
	for sqldb.RepeatsLeft(db) > 0 {
		_, _ = run()
	}
	runs, err = run()
	require.LessOrEqual(t, runs, 2)
	require.True(t, sqldb.IsTransient(err), "the caller may retry")
	for range 2 * all {
		require.NoError(t, sqldb.InTx(t.Context(), db, func(*gorm.DB) error { return nil }))
	}
	require.Equal(t, all, sqldb.RepeatsLeft(db), "the budget is bounded")
	runs, _ = run()
	require.Equal(t, 5, runs)
}
