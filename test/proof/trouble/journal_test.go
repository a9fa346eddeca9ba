package trouble

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

const (
	journalBound = 20               // of a second seckill process
	claimAfter   = 15 * time.Second // the default of JOURNAL_CLAIM_AFTER
)

// fullJournal runs while the broker is down. A second seckill process with a small journal bound responds journal_full
// and takes nothing; the first one, with a larger bound, goes on. Then the second is killed while it holds entries,
// which the first must claim.
func fullJournal(t *testing.T, s *scene) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	tight := s.r.Seckill.Twin(t, "seckill-tight")
	tight.Set("JOURNAL_MAX", strconv.Itoa(journalBound))
	tight.Start(t)
	tight.WaitReady(t)
	tight.WaitStatus(t, tight.URL+"/v1/activities", http.StatusOK, anyWithin)
	journal := newJournal(t, s.r, s.sale)
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		n, err := journal.rdb.XLen(ctx, journal.key).Result()
		return n > journalBound, err
	}), "purchases wait in the journal")

	origins := s.once.Origins()
	origins.Seckill = tight.URL
	second := client.New(origins, client.Options{Secret: rig.TokenSecret, Attempts: 1})
	t.Cleanup(second.Close)
	for range 5 {
		p, err := take(s, &s.permits)
		require.NoError(t, err)
		token, err := second.Token(ctx, p.UserID)
		require.NoError(t, err)
		s.mu.Lock()
		s.open = append(s.open, p) // its buyer retries later
		s.mu.Unlock()
		buyer, full := second.As(token), (*client.Problem)(nil)
		require.NoError(t, shop.Poll(ctx, func() (bool, error) { // the gate may be slow for a moment
			_, err := buyer.Reserve(ctx, s.sale.ActivityID, p.path.Path, s.sale.Lines())
			full = client.AsProblem(err)
			return full != nil &&
				full.Code == contract.CodeJournalFull, fmt.Errorf("a purchase for a full journal: %w", err)
		}))
		assert.Equal(t, http.StatusServiceUnavailable, full.Status)
		assert.Positive(t, full.RetryAfter)
		require.NoError(t, shop.Poll(ctx, func() (bool, error) {
			_, err := buyer.Reservation(ctx, s.sale.ActivityID, p.path.OrderSN)
			return client.CodeOf(err) == contract.CodeNotFound, fmt.Errorf("nothing is to be taken then: %w", err)
		}))
	}

	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		relays, err := journal.rdb.XInfoConsumers(ctx, journal.key, journal.group(ctx, t)).Result()
		return err == nil && len(relays) == 2 && relays[0].Pending > 0 && relays[1].Pending > 0, err
	}), "both relays hold entries")
	held := journal.held(ctx, t)
	tight.Kill(t)
	s.after = func(t *testing.T) {
		var last time.Time
		shop.Query(t, s.r.Dependencies.InventoryDSN,
			"SELECT MAX(landed_at), COUNT(*) FROM reservations WHERE order_sn IN ("+strings.Join(held, ",")+")",
			func(rows *sql.Rows) {
				var at sql.RawBytes
				var n int
				require.NoError(t, rows.Scan(&at, &n))
				require.Len(t, held, n)
				var err error
				last, err = time.Parse("2006-01-02 15:04:05", string(at[:19]))
				require.NoError(t, err)
			})
		t.Logf("two relays held %d entries when one was killed; all were in the ledger %s after the broker was usable",
			len(held), last.Sub(s.back).Round(time.Second))
		assert.Less(t, last.Sub(s.back), claimAfter+30*time.Second, "another relay claims what a killed one held")
	}
}

// journal is the journal of a sale's gate, read from Redis.
type journal struct {
	rdb *redis.Client
	key string
}

func newJournal(t *testing.T, r *rig.Rig, sale shop.Sale) journal {
	t.Helper()
	return journal{r.Redis(t), "fs:{" + sale.ActivityID + ":0}:journal"}
}

func (j journal) group(ctx context.Context, t *testing.T) string {
	t.Helper()
	groups, err := j.rdb.XInfoGroups(ctx, j.key).Result()
	require.NoError(t, err)
	require.Len(t, groups, 1)
	return groups[0].Name
}

// held returns the order_sns of entries that relays have read and not acknowledged.
func (j journal) held(ctx context.Context, t *testing.T) (orderSNs []string) {
	t.Helper()
	pending, err := j.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: j.key, Group: j.group(ctx, t), Start: "-", End: "+", Count: 1000,
	}).Result()
	require.NoError(t, err)
	for _, p := range pending {
		entries, err := j.rdb.XRange(ctx, j.key, p.ID, p.ID).Result()
		require.NoError(t, err)
		for _, e := range entries {
			for _, v := range e.Values {
				if sn, _, ok := strings.Cut(v.(string), "|"); ok {
					orderSNs = append(orderSNs, sn)
				}
			}
		}
	}
	return orderSNs
}
