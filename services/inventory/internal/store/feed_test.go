package store_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/store"
)

var feedStates = []ledger.State{ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected}

// insertChanged inserts rows of an activity that hold nothing, one for each time, with order_sns from first on.
func insertChanged(t *testing.T, s *store.Store, a *core.Activity, first int, state ledger.State, times ...time.Time) {
	t.Helper()
	var rows []ledger.Row
	for i, at := range times {
		r := reservation(a, strconv.Itoa(first+i), "u")
		r.State, r.ChangedAt, r.RepublishAt = state, at, nil
		rows = append(rows, r)
	}
	for part := range slices.Chunk(rows, 400) {
		require.NoError(t, s.Ledger(t.Context(), []string{a.ID}, func(tx core.LedgerTx) error {
			return tx.Apply(&ledger.Moves{Insert: part})
		}))
	}
}

func TestChangesAreReadByPlace(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		at := time.Now().UTC().Truncate(time.Millisecond)
		ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
		var same []time.Time
		for range 30 { // more than a page with one time
			same = append(same, ms(2))
		}
		insertChanged(t, s, a, 100, ledger.StateSold, same...)
		insertChanged(t, s, a, 200, ledger.StateSold, ms(1), ms(3), ms(0))
		insertChanged(t, s, a, 300, ledger.StateReleased, ms(2), ms(9))
		sold, released := merchants.ChangeStream{ActivityID: a.ID, State: ledger.StateSold}, merchants.ChangeStream{ActivityID: a.ID, State: ledger.StateReleased}
		none := merchants.ChangeStream{ActivityID: a.ID, State: ledger.StateRejected}
		for limit := 1; limit <= 40; limit += 3 {
			var got []string
			place := core.ReservationPlace{ChangedAt: ms(1), OrderSN: "0"}
			for {
				read, err := s.Changes(t.Context(), []merchants.ChangeStream{sold, none}, place, ms(3), limit)
				require.NoError(t, err)
				require.Empty(t, read[none])
				for _, p := range read[sold] {
					got = append(got, p.OrderSN)
				}
				if len(read[sold]) < limit {
					break
				}
				place = read[sold][limit-1]
			}
			require.Len(t, got, 32)
			require.Equal(t, []string{"200", "100", "129", "201"}, []string{got[0], got[1], got[30], got[31]}, "pages of %d", limit)
		}
		read, err := s.Changes(t.Context(), []merchants.ChangeStream{sold, released}, core.ReservationPlace{OrderSN: "0"}, ms(8), 5)
		require.NoError(t, err)
		require.Len(t, read[sold], 5)
		require.Equal(t, []core.ReservationPlace{{ChangedAt: ms(2), OrderSN: "300"}}, read[released])
	})
}

// More activities than one page merges are found in groups, each once.
func TestChangedActivitiesComeInGroups(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		var ids []string
		for i := range 2*merchants.FeedSales + 30 {
			id := addActivity(t, s, fmt.Sprint("sale ", i), now)
			if i%9 == 0 {
				continue // without a change
			}
			old := i%9 == 1
			at := now
			if old {
				at = now.Add(-time.Hour)
			} else {
				ids = append(ids, id)
			}
			require.NoError(t, db.Exec("INSERT INTO reservations (order_sn, activity_id, user_id, line_items, state, reason, reserved_at, landed_at, "+
				"changed_at, republish_attempt, traceparent) VALUES (?, ?, 'u', '[]', ?, '', ?, ?, ?, 0, '')",
				i+1, id, string(feedStates[i%4]), now, now, at).Error)
		}
		require.Greater(t, len(ids), merchants.FeedSales)
		var found []string
		for after := ""; ; {
			part, end, err := s.ChangedActivities(ctx, core.OfMerchant("m1"), after, now.Add(-time.Minute), time.Time{})
			require.NoError(t, err)
			require.LessOrEqual(t, len(part), merchants.FeedSales)
			found = append(found, part...)
			if end == "" {
				break
			}
			after = end
		}
		require.Equal(t, ids, found)
		for _, in := range []core.Scope{core.OfMerchant("m2"), {}} {
			part, end, err := s.ChangedActivities(ctx, in, "", time.Time{}, time.Time{})
			require.NoError(t, err)
			require.Empty(t, part)
			require.Empty(t, end)
		}
		all, err := s.ActivitiesByID(ctx, []string{a.ID, ids[0], "4242"})
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, "K", all[a.ID].Items[0].Ref)
	})
}

// readsFew checks how many rows a call reads, on one connection of MariaDB.
func readsFew(t *testing.T, one *gorm.DB, name string, most int64, fn func() error) {
	t.Helper()
	require.NoError(t, one.Exec("FLUSH STATUS").Error)
	require.NoError(t, fn())
	var counters []struct {
		VariableName string `gorm:"column:Variable_name"`
		Value        int64  `gorm:"column:Value"`
	}
	require.NoError(t, one.Raw("SHOW SESSION STATUS LIKE 'Handler_read%'").Scan(&counters).Error)
	var n int64
	for _, c := range counters {
		n += c.Value
	}
	require.LessOrEqual(t, n, most, "%s: %+v", name, counters)
}

// A page of a feed reads the index by activity, state and time of change from its place on, however many rows are before
// it and after it.
func TestAPageOfAFeedReadsFewRows(t *testing.T) {
	const rows = 8000
	now := time.Now().UTC().Truncate(time.Second)
	fill := func(t *testing.T, s *store.Store, a *core.Activity) (middle core.ReservationPlace) {
		for i, state := range feedStates[1:3] {
			var times []time.Time
			for n := range rows {
				times = append(times, now.Add(time.Duration(n/20)*time.Millisecond)) // twenty rows share a time
			}
			insertChanged(t, s, a, 1+i*rows, state, times...)
		}
		return core.ReservationPlace{ChangedAt: now.Add(rows / 40 * time.Millisecond), OrderSN: "5"}
	}
	t.Run("mariadb", func(t *testing.T) {
		db := dbtest.MariaDB(t, inventory.Migrations)
		require.NoError(t, db.Connection(func(one *gorm.DB) error {
			s := store.New(one)
			p := addProduct(t, s, "p", "k")
			a, err := s.AnyActivity(t.Context(), addActivity(t, s, "t", now, core.Stock{SKUID: p.SKUs[0].ID, Price: 1, Total: 1, Available: 1}))
			require.NoError(t, err)
			middle := fill(t, s, a)
			require.NoError(t, one.Exec("ANALYZE TABLE reservations").Error)
			read := func(name string, most int64, fn func() error) { readsFew(t, one, name, most, fn) }
			var streams []merchants.ChangeStream
			for _, state := range feedStates {
				streams = append(streams, merchants.ChangeStream{ActivityID: a.ID, State: state})
			}
			for name, since := range map[string]time.Time{"none": now.Add(time.Hour), "all": now.Add(-time.Hour)} {
				read("changed activities, "+name, 40, func() error {
					ids, _, err := s.ChangedActivities(t.Context(), core.OfMerchant("m1"), "", since, time.Time{})
					require.Equal(t, name == "all", len(ids) == 1)
					return err
				})
			}
			// Of each row the index, the part of the union, and the whole union, which is sorted.
			for name, place := range map[string]core.ReservationPlace{"first": {ChangedAt: now, OrderSN: "0"}, "middle": middle} {
				read(name, 2*5*101+100, func() error {
					got, err := s.Changes(t.Context(), streams, place, now.Add(time.Hour), 101)
					require.Len(t, got, 2)
					return err
				})
			}
			return nil
		}))
	})
	t.Run("sqlite", func(t *testing.T) {
		db := dbtest.SQLite(t, inventory.Migrations)
		for name, query := range store.FeedQueries() {
			args := make([]any, strings.Count(query, "?"))
			for i := range args {
				args[i] = 1
			}
			var plan []struct{ Detail string }
			require.NoError(t, db.Raw("EXPLAIN QUERY PLAN "+query, args...).Scan(&plan).Error)
			text := fmt.Sprint(plan)
			require.Contains(t, text, "INDEX reservations_changed (activity_id=? AND state=?", name)
			require.NotContains(t, text, "SCAN reservations", name)
			require.NotContains(t, text, "SCAN r", name)
		}
	})
}
