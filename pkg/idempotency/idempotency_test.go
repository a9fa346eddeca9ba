package idempotency_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

func migrations(t *testing.T) fstest.MapFS {
	_, rest, ok := strings.Cut(idempotency.Schema, "-- mysql/")
	require.True(t, ok)
	mysql, sqlite, ok := strings.Cut(rest, "-- sqlite/")
	require.True(t, ok)
	more := "\nCREATE TABLE works (id BIGINT NOT NULL PRIMARY KEY);\nINSERT INTO works VALUES (0);"
	return fstest.MapFS{
		"migrations/mysql/00001_keys.sql":  {Data: []byte("-- +goose Up\n" + mysql + more)},
		"migrations/sqlite/00001_keys.sql": {Data: []byte("-- +goose Up\n" + sqlite + more)},
	}
}

func key(value string) idempotency.Key {
	return idempotency.Key{
		Caller: "u1", Method: "POST", Path: "/v1/orders/1/payments", Value: value, BodyHash: idempotency.HashBody([]byte("body")),
	}
}

// request does the work of a handler once per key.
func request(t *testing.T, db *gorm.DB, k idempotency.Key, work func(tx *gorm.DB) error) (stored *idempotency.Stored, err error) {
	err = sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
		stored, err = idempotency.Begin(tx, k)
		if err != nil || stored != nil {
			return err
		}
		if err := work(tx); err != nil {
			return err
		}
		return idempotency.Save(tx, k, 201, []byte(`{"n":1}`))
	})
	return stored, err
}

func count(tx *gorm.DB) error { return tx.Exec("UPDATE works SET id = id + 1").Error }

func works(t *testing.T, db *gorm.DB) (n int) {
	require.NoError(t, db.Raw("SELECT id FROM works").Row().Scan(&n))
	return n
}

func TestReplay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		stored, err := request(t, db, key("k"), count)
		require.NoError(t, err)
		require.Nil(t, stored)
		stored, err = request(t, db, key("k"), count)
		require.NoError(t, err)
		require.Equal(t, &idempotency.Stored{Status: 201, Body: []byte(`{"n":1}`)}, stored)
		require.Equal(t, 1, works(t, db))

		other := key("k")
		other.BodyHash = idempotency.HashBody([]byte("another"))
		_, err = request(t, db, other, count)
		require.Equal(t, contract.CodeIdempotencyConflict, contract.CodeOf(err))

		// A difference in any field of the key, even in case only, makes another request.
		for i, change := range []func(*idempotency.Key){
			func(k *idempotency.Key) { k.Caller = "U1" },
			func(k *idempotency.Key) { k.Method = "PUT" },
			func(k *idempotency.Key) { k.Path = "/v1/orders/2/payments" },
			func(k *idempotency.Key) { k.Value = "K" },
		} {
			k := key("k")
			change(&k)
			stored, err = request(t, db, k, count)
			require.NoError(t, err)
			require.Nil(t, stored)
			require.Equal(t, 2+i, works(t, db))
		}
	})
}

func TestRefusedRequestIsNotStored(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		refusal := contract.Refuse(contract.CodeOrderNotPayable, "no")
		_, err := request(t, db, key("k"), func(*gorm.DB) error { return refusal })
		require.ErrorIs(t, err, refusal)
		other := key("k")
		other.BodyHash = idempotency.HashBody([]byte("another"))
		stored, err := request(t, db, other, count)
		require.NoError(t, err, "not even its body")
		require.Nil(t, stored)
	})
}

func TestConcurrentRequestsDoTheWorkOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		const callers = 8
		for round, firstFails := range []bool{false, true} {
			k := key("k" + string(rune('0'+round)))
			before := works(t, db)
			var wg sync.WaitGroup
			var mu sync.Mutex
			did, replayed, failed := 0, 0, 0
			boom := errors.New("boom")
			for range callers {
				wg.Go(func() {
					stored, err := request(t, db, k, func(tx *gorm.DB) error {
						mu.Lock()
						fail := firstFails && failed == 0
						if fail {
							failed++
						}
						mu.Unlock()
						if fail {
							return boom // the next waiting request does the work
						}
						return count(tx)
					})
					mu.Lock()
					defer mu.Unlock()
					switch {
					case errors.Is(err, boom):
					case err != nil:
						t.Error(err)
					case stored == nil:
						did++
					default:
						replayed++
					}
				})
			}
			wg.Wait()
			require.Equal(t, 1, did)
			require.Equal(t, callers-1-failed, replayed)
			require.Equal(t, before+1, works(t, db))
		}
	})
}

func TestSweepAndExpiredKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		for _, v := range []string{"old", "older", "new"} {
			_, err := request(t, db, key(v), count)
			require.NoError(t, err)
		}
		past := time.Now().Add(-idempotency.KeptFor - time.Second)
		require.NoError(t, db.Exec("UPDATE idempotency_keys SET created_at = ? WHERE idem_key <> 'new'", past).Error)

		// An expired key that is not yet deleted: another body is no conflict, and the response is not replayed.
		other := key("old")
		other.BodyHash = idempotency.HashBody([]byte("another"))
		stored, err := request(t, db, other, count)
		require.NoError(t, err)
		require.Nil(t, stored)
		stored, err = request(t, db, other, count)
		require.NoError(t, err)
		require.NotNil(t, stored)

		n, err := idempotency.Sweep(t.Context(), db)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		stored, err = request(t, db, key("new"), count)
		require.NoError(t, err)
		require.NotNil(t, stored)
		n, err = idempotency.Sweep(t.Context(), db)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestMalformedKeysAndMisuse(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t, migrations(t))
	for _, v := range []string{"", strings.Repeat("k", 65), "a\nb", "ü"} {
		_, err := request(t, db, key(v), count)
		require.Equal(t, contract.CodeInvalidRequest, contract.CodeOf(err), "%q", v)
	}
	_, err := request(t, db, key(strings.Repeat("k", 64)), count)
	require.NoError(t, err)
	long := key("k")
	long.Path = "/" + strings.Repeat("x", 255)
	_, err = request(t, db, long, count)
	require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
	_, err = idempotency.Begin(db, key("k2"))
	require.Error(t, err, "outside of a transaction")
	require.Error(t, idempotency.Save(db, key("k2"), 200, nil))
	require.Error(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error { return idempotency.Save(tx, key("k2"), 200, nil) }), "without Begin")
}
