package merchants_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// The bounds of what the model promises: a feed begins a minute before the one before it.
const (
	longestCommit = 30 * time.Second // from the stamp of a row to its commit
	backwards     = 25 * time.Second // by which the clock of the database goes back
)

// activitiesPort is embedded under a name that hides none of its methods.
type activitiesPort = merchants.Activities

// feedModel is a ledger whose transactions commit late and out of order, and a client that follows its feed.
type feedModel struct {
	activitiesPort
	ctx context.Context
	r   *rapid.T

	elapsed time.Duration // the true time since the beginning
	offset  time.Duration // of the clock of the database, 0 or less
	rows    map[string]ledger.Row
	open    []pendingChange
	next    int
	quiet   bool // nothing happens any more

	known map[string]ledger.Row // the client's
	since time.Time
	from  merchants.FeedPlace
}

// pendingChange is a transaction that has stamped its row and not committed.
type pendingChange struct {
	row     ledger.Row
	stamped time.Duration // the true time
}

var modelBegan = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func (m *feedModel) Now(context.Context) (time.Time, error) { return m.clock(), nil }

func (m *feedModel) clock() time.Time { return modelBegan.Add(m.elapsed + m.offset) }

// advance lets time pass. A transaction that is open for too long commits before.
func (m *feedModel) advance(d time.Duration) {
	m.elapsed += d
	for i := 0; i < len(m.open); {
		if m.elapsed-m.open[i].stamped > longestCommit {
			m.commit(i)
		} else {
			i++
		}
	}
}

func (m *feedModel) commit(i int) {
	m.rows[m.open[i].row.OrderSN] = m.open[i].row
	m.open = slices.Delete(m.open, i, i+1)
}

// begin stamps a new row, or the next state of a row that no open transaction changes.
func (m *feedModel) begin() {
	var free []string
	for sn := range m.rows {
		if !slices.ContainsFunc(m.open, func(p pendingChange) bool { return p.row.OrderSN == sn }) {
			free = append(free, sn)
		}
	}
	slices.Sort(free)
	if len(free) == 0 || rapid.Bool().Draw(m.r, "new row") {
		m.next++
		p := contract.Reservation{
			OrderSN: strconv.Itoa(m.next), ActivityID: strconv.Itoa(rapid.IntRange(1, 9).Draw(m.r, "activity")), UserID: "u",
			Lines: []contract.Line{{SKUID: "1", Qty: 1}},
		}
		row := ledger.New(p, m.clock())
		if rapid.IntRange(0, 4).Draw(m.r, "rejected") == 0 {
			row = row.Rejected(ledger.ReasonSoldOut)
		}
		m.open = append(m.open, pendingChange{row, m.elapsed})
		return
	}
	before := m.rows[rapid.SampledFrom(free).Draw(m.r, "row")]
	step := ledger.Step{Order: rapid.SampledFrom([]contract.OrderEventType{
		contract.OrderCreated, contract.OrderPaid, contract.OrderClosed, contract.OrderRefunded,
	}).Draw(m.r, "step"), At: m.clock(), Reason: "expired"}
	moves := ledger.NewMoves()
	if after, changed := moves.Rewrite(before, moves.Apply(before, step, m.clock()), m.clock()); changed {
		m.open = append(m.open, pendingChange{after, m.elapsed})
	}
}

// happens lets some things happen between two statements of a page, or between two pages.
func (m *feedModel) happens() {
	if m.quiet {
		return
	}
	for range rapid.IntRange(0, 3).Draw(m.r, "events") {
		switch rapid.SampledFrom([]string{"begin", "begin", "commit", "time", "clock"}).Draw(m.r, "event") {
		case "begin":
			m.begin()
		case "commit":
			if len(m.open) > 0 {
				m.commit(rapid.IntRange(0, len(m.open)-1).Draw(m.r, "transaction"))
			}
		case "time": // often none, so that rows share a time
			m.advance(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second}).Draw(m.r, "time"))
		case "clock":
			m.offset = rapid.SampledFrom([]time.Duration{0, 0, -time.Second, -backwards}).Draw(m.r, "offset")
		}
	}
}

// ChangedActivities reads fewer activities in a call than the store, so that groups end.
func (m *feedModel) ChangedActivities(
	_ context.Context, _ core.Scope, after string, since, _ time.Time,
) (ids []string, end string, err error) {
	m.happens()
	for id := 1; id <= 9; id++ {
		if core.CompareIDs(strconv.Itoa(id), after) <= 0 {
			continue
		}
		end = strconv.Itoa(id)
		for _, r := range m.rows {
			if r.ActivityID == end && !r.ChangedAt.Before(since) {
				ids = append(ids, end)
				break
			}
		}
		if len(ids) == 3 {
			return ids, end, nil
		}
	}
	return ids, "", nil
}

func (m *feedModel) Changes(
	_ context.Context, streams []merchants.ChangeStream, after core.ReservationPlace, until time.Time, limit int,
) (map[merchants.ChangeStream][]core.ReservationPlace, error) {
	read := map[merchants.ChangeStream][]core.ReservationPlace{}
	for _, stream := range streams {
		m.happens()
		for _, r := range m.rows {
			p := core.ReservationPlace{ChangedAt: r.ChangedAt, OrderSN: r.OrderSN}
			if r.ActivityID == stream.ActivityID && r.State == stream.State && p.Compare(after) > 0 && !p.ChangedAt.After(until) {
				read[stream] = append(read[stream], p)
			}
		}
		slices.SortFunc(read[stream], core.ReservationPlace.Compare)
		read[stream] = read[stream][:min(limit, len(read[stream]))]
	}
	return read, nil
}

func (m *feedModel) ReadableReservations(_ context.Context, sns []string) (map[string]ledger.Row, []ledger.Row, error) {
	m.happens()
	rows := map[string]ledger.Row{}
	for _, sn := range sns {
		rows[sn] = m.rows[sn]
	}
	return rows, nil, nil
}

func (m *feedModel) ActivitiesByID(_ context.Context, ids []string) (map[string]core.Activity, error) {
	activities := map[string]core.Activity{}
	for _, id := range ids {
		activities[id] = core.Activity{ID: id, Items: []core.Stock{{SKUID: "1", Price: 5}}}
	}
	return activities, nil
}

// page is one call of the client's loop. last is true after the last page.
func (m *feedModel) page(s *merchants.Service, activity string, limit int) (last bool) {
	page, err := s.Feed(m.ctx, merchants.FeedRequest{ActivityID: activity, Since: m.since, Limit: limit, From: m.from})
	require.NoError(m.r, err)
	require.LessOrEqual(m.r, len(page.Rows), limit)
	for i, row := range page.Rows {
		require.False(m.r, row.ChangedAt.Before(m.since.Truncate(time.Millisecond)))
		require.True(m.r, i == 0 || place(page.Rows[i-1].Row).Compare(place(row.Row)) < 0, "oldest change first")
		if known, ok := m.known[row.OrderSN]; !ok || row.ChangedAt.After(known.ChangedAt) {
			m.known[row.OrderSN] = row.Row
		}
	}
	if page.Next != nil {
		m.from = *page.Next
		return false
	}
	m.from, m.since = merchants.FeedPlace{}, page.NextSince
	return true
}

func place(r ledger.Row) core.ReservationPlace {
	return core.ReservationPlace{ChangedAt: r.ChangedAt, OrderSN: r.OrderSN}
}

// Whatever happens between the pages and within them, a client that follows the loop of the documentation has the latest
// state of each order in the end.
func TestAClientThatFollowsTheFeedMissesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &feedModel{ctx: t.Context(), r: r, rows: map[string]ledger.Row{}, known: map[string]ledger.Row{}, since: modelBegan.Add(-time.Hour)}
		s := merchants.New(merchants.Deps{Activities: m, Changed: m, Now: time.Now})
		activity := rapid.SampledFrom([]string{"", "", "3"}).Draw(r, "feed")
		limit := rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(r, "limit")
		for range rapid.IntRange(0, 60).Draw(r, "pages") {
			m.happens()
			m.page(s, activity, limit)
		}
		for len(m.open) > 0 {
			m.commit(0)
		}
		m.offset = 0
		m.advance(backwards + time.Second) // until the clock has passed each stamp
		m.quiet = true
		for passes := 0; passes < 2; {
			if m.page(s, activity, limit) {
				passes++
			}
		}
		want := map[string]ledger.Row{}
		for sn, row := range m.rows {
			if activity == "" || row.ActivityID == activity {
				want[sn] = row
			}
		}
		require.Equal(r, want, m.known)
	})
}
