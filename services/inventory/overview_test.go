package inventory

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

type overviewItem struct {
	What, State string
	Count       int64
	Since       *time.Time
}

type overview struct {
	Verdict string
	Items   []overviewItem
	AsOf    time.Time `json:"as_of"`
}

func (o overview) of(what string) (item overviewItem) {
	for _, item = range o.Items {
		if item.What == what {
			return item
		}
	}
	return overviewItem{}
}

// The overview has one verdict, of its worst item: what cannot be read is not good.
func TestTheOverviewHasTheWorstFirst(t *testing.T) {
	t.Parallel()
	s, orders := newRefundShop(t)
	op := s.mint("op", auth.Operator)
	get := func() (o overview) {
		t.Helper()
		got := s.as(op, "GET", "/v1/merchant/overview", "")
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		got.into(t, &o)
		require.Len(t, o.Items, 7)
		require.Equal(t, o.Items[0].State, o.Verdict)
		return o
	}
	require.Equal(t, "forbidden", s.do("GET", "/v1/merchant/overview", "").code())

	// Without a Redis of limits no process is known.
	o := get()
	require.Equal(t, "unknown", o.Verdict)
	require.Equal(t, "unknown", o.of("processes").State)
	require.Equal(t, overviewItem{What: "dead_letters", State: "good"}, o.of("dead_letters"))

	s.withLimits(admission.Settings{})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.svc.presence.Component().Run(ctx) })
	defer wg.Wait()
	defer stop()
	require.Eventually(t, func() bool { return get().of("processes").Count == 2 }, 30*time.Second, 10*time.Millisecond,
		"seckill and order do not report here")
	o = get()
	require.Equal(t, "bad", o.Verdict)
	require.Equal(t, "processes", o.Items[0].What)

	// Refunds are counted over pages, up to a bound: the service here always has another page.
	orders.take()
	refunds := get().of("refunds")
	require.Equal(t, "warning", refunds.State)
	require.EqualValues(t, 10, refunds.Count)
	require.Equal(t, "2026-11-21T10:05:00Z", refunds.Since.Format(time.RFC3339))
	require.Len(t, orders.take(), 10)
	orders.set(http.StatusServiceUnavailable, `{"code":"unavailable","detail":"d"}`)
	require.Equal(t, "unknown", get().of("refunds").State)

	// Dead letters wait for an operator until they are decided.
	sn := newSN()
	failed := s.svc.deps.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	require.NoError(t, s.svc.core.AddDeadLetters(t.Context(), []contract.DeadLetter{{
		Where: contract.GroupInventoryOrderEvents, Topic: contract.TopicOrderEvents, OrderSN: sn, Why: "w",
		Item: []byte(`{"order_sn":"` + sn + `"}`), At: failed,
	}}))
	letters := get().of("dead_letters")
	require.EqualValues(t, 1, letters.Count)
	require.Equal(t, "warning", letters.State)
	require.WithinDuration(t, failed, *letters.Since, time.Second)
	var id string
	require.NoError(t, s.db.Table("dead_letters").Where("order_sn = ?", sn).Pluck("id", &id).Error)
	require.Equal(t, http.StatusOK, s.as(op, "POST", "/v1/merchant/dead-letters/"+id+"/reject", "").status)
	require.Equal(t, overviewItem{What: "dead_letters", State: "good"}, get().of("dead_letters"))

	// A sale without its gate, and a restore that is not complete.
	a := s.draft(s.product("EUR")[0], 5)
	require.NoError(t, s.db.Exec("UPDATE activities SET mode = 'direct' WHERE id = ?", a).Error)
	require.Equal(t, overviewItem{What: "redisless_sales", State: "warning", Count: 1}, get().of("redisless_sales"))
	drawn := s.svc.deps.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	require.NoError(t, s.db.Exec("INSERT INTO epochs (epoch, since, cause, drawn_at) VALUES ('e2', ?, 'test', ?)", drawn, drawn).Error)
	require.NoError(t, s.db.Exec("INSERT INTO imports (epoch_id, activity_id, step, position, counts, updated_at) "+
		"SELECT MAX(id), 0, 'paid', '', '{}', ? FROM epochs", drawn).Error)
	restore := get().of("restore")
	require.Equal(t, "bad", restore.State)
	require.EqualValues(t, 1, restore.Count)
	require.WithinDuration(t, drawn, *restore.Since, time.Second)
	require.NoError(t, s.db.Exec("UPDATE imports SET step = 'done'").Error)
	require.Equal(t, overviewItem{What: "restore", State: "good"}, get().of("restore"))
}
