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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

const claimAfter = 15 * time.Second // the default of the timer seckill.claim_after

// fullJournal runs while the broker is down. A second seckill process, whose journal bound is reached, responds
// journal_full and takes nothing; the first one, with a larger bound, goes on. The bound counts purchases: the journal
// has fewer entries, because purchases of a burst share some. Then the second process is killed while it holds entries,
// which the first must claim.
func fullJournal(t *testing.T, s *scene) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), anyWithin)
	defer cancel()
	s.burst(ctx, t)
	gate := stockgate.New(s.r.Redis(t), stockgate.Options{})
	purchases, err := gate.JournalLen(ctx, s.sale.ActivityID)
	require.NoError(t, err)
	require.GreaterOrEqual(t, purchases, int64(sceneBurst), "purchases wait in the journal")
	tight := s.r.Seckill.Twin(t, "seckill-tight")
	tight.Set("JOURNAL_MAX", strconv.FormatInt(purchases, 10))
	tight.Start(t)
	tight.WaitReady(t)
	tight.WaitStatus(t, tight.URL+"/v1/activities", http.StatusOK, anyWithin)

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

	var read map[string][]stockgate.JournalEntry
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		var err error
		read, err = gate.Unacked(ctx, s.sale.ActivityID)
		return len(read) == 2, err
	}), "both relays hold entries")
	var held []string
	ids := map[string]bool{} // of their entries
	for _, entries := range read {
		for _, e := range entries {
			require.NoError(t, e.Err)
			held = append(held, e.OrderSN)
			ids[e.ID] = true
		}
	}
	length, err := gate.JournalLen(ctx, s.sale.ActivityID)
	require.NoError(t, err)
	unread := int(length) - len(held) // an entry of the journal has one purchase at least
	assert.Less(t, len(ids)+unread, int(purchases), "entries of the journal: the bound counted purchases")
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
		t.Logf("two relays held %d purchases in %d entries when one was killed; all were in the ledger %s after the broker was usable",
			len(held), len(ids), last.Sub(s.back).Round(time.Second))
		assert.Less(t, last.Sub(s.back), claimAfter+30*time.Second, "another relay claims what a killed one held")
	}
}
