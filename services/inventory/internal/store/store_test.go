package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs fn on both databases, with an activity of 5 units and a limit of 2 units per user.
func each(t *testing.T, fn func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity)) {
	dbtest.Each(t, inventory.Migrations, func(t *testing.T, db *gorm.DB) {
		s := store.New(db)
		now := time.Now().UTC().Truncate(time.Millisecond)
		p, err := s.CreateProduct(t.Context(), nil, merchants.Product{MerchantID: "m1", Ref: "P", Name: "p", SKUs: []merchants.SKU{{Ref: "K", Name: "k", ListPrice: 1, Currency: "EUR"}}, CreatedAt: now, UpdatedAt: now}, core.Change{At: now, Who: "m"}, merchants.Growth{})
		require.NoError(t, err)
		id, err := s.CreateActivity(t.Context(), nil, core.Activity{
			MerchantID: "m1", Title: "t", State: core.ActivityPublished, StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 2, PayWithinS: 9, Currency: "EUR", Version: 1,
			CreatedAt: now, UpdatedAt: now, Items: []core.Stock{{SKUID: p.SKUs[0].ID, Price: 1, Total: 5, Available: 5}},
		}, core.Change{At: now, Who: "m"}, allowed)
		require.NoError(t, err)
		a, err := s.AnyActivity(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "k", a.Items[0].Name)
		fn(t, db, s, a)
	})
}

func allowed() error { return nil }

// reservation returns a reserved row of one unit.
func reservation(a *core.Activity, sn, user string) ledger.Row {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return ledger.Row{OrderSN: sn, ActivityID: a.ID, UserID: user, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}, State: ledger.StateReserved, ReservedAt: now, LandedAt: now, ChangedAt: now, RepublishAt: &now}
}

func TestTheTablesRefuseInvalidRows(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, _ *store.Store, a *core.Activity) {
		for _, statement := range []string{
			"UPDATE stocks SET available = available - 1 WHERE activity_id = ?",
			"UPDATE stocks SET available = -1, reserved = 6 WHERE activity_id = ?",
			"UPDATE stocks SET reserved = -1, available = 6 WHERE activity_id = ?",
			"UPDATE stocks SET sold = -1, available = 6 WHERE activity_id = ?",
			"UPDATE activities SET state = 'open' WHERE id = ?",
			"INSERT INTO allowances (activity_id, user_id, held) VALUES (?, 'u', -1)",
		} {
			err := db.Exec(statement, a.ID).Error
			require.Error(t, err, statement)
			require.False(t, sqldb.IsTransient(err), statement)
		}
	})
}

func TestAnInvalidMoveIsRolledBackCompletely(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		shelf, buyer := ledger.Shelf{ActivityID: a.ID, SKUID: a.Items[0].SKUID}, ledger.Buyer{ActivityID: a.ID, UserID: "u"}
		good := reservation(a, "1", "u")
		require.NoError(t, s.Ledger(t.Context(), []string{a.ID}, func(tx core.LedgerTx) error {
			return tx.Apply(&ledger.Moves{Insert: []ledger.Row{good}, Allowances: map[ledger.Buyer]int64{buyer: 1}, Stocks: map[ledger.Shelf]ledger.StockDelta{shelf: {Available: -1, Reserved: 1}}})
		}))
		sold := good
		sold.State = ledger.StateSold
		for name, m := range map[string]*ledger.Moves{
			"more than available":       {Insert: []ledger.Row{reservation(a, "2", "v")}, Stocks: map[ledger.Shelf]ledger.StockDelta{shelf: {Available: -5, Reserved: 5}}},
			"above the limit":           {Insert: []ledger.Row{reservation(a, "3", "u")}, Allowances: map[ledger.Buyer]int64{buyer: 2}},
			"first row above the limit": {Insert: []ledger.Row{reservation(a, "4", "w")}, Allowances: map[ledger.Buyer]int64{{ActivityID: a.ID, UserID: "w"}: 3}},
			"releases too much":         {Insert: []ledger.Row{reservation(a, "5", "v")}, Allowances: map[ledger.Buyer]int64{buyer: -2}},
			"from another state":        {Insert: []ledger.Row{reservation(a, "6", "v")}, Update: []ledger.Update{{From: ledger.StateReleased, To: sold}}},
			"no such stock row":         {Insert: []ledger.Row{reservation(a, "7", "v")}, Stocks: map[ledger.Shelf]ledger.StockDelta{{ActivityID: a.ID, SKUID: "999"}: {Available: 1}}},
			"the same row again":        {Insert: []ledger.Row{good}},
		} {
			err := s.Ledger(t.Context(), []string{a.ID}, func(tx core.LedgerTx) error { return tx.Apply(m) })
			require.Error(t, err, name)
			require.True(t, sqldb.IsTransient(err), "%s: %v", name, err)
		}
		rows, err := s.Reservations(t.Context(), []string{"1", "2", "3", "4", "5", "6", "7"})
		require.NoError(t, err)
		require.Equal(t, map[string]ledger.Row{"1": good}, rows)
		var held int64
		require.NoError(t, db.Table("allowances").Where("user_id = 'u'").Pluck("held", &held).Error)
		require.Equal(t, int64(1), held)
	})
}

func TestUsersDifferByCase(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		require.NoError(t, s.Ledger(t.Context(), []string{a.ID}, func(tx core.LedgerTx) error {
			return tx.Apply(&ledger.Moves{Insert: []ledger.Row{reservation(a, "1", "anna")}, Allowances: map[ledger.Buyer]int64{{ActivityID: a.ID, UserID: "anna"}: 1}})
		}))
		require.NoError(t, s.Ledger(t.Context(), []string{a.ID}, func(tx core.LedgerTx) error {
			held, err := tx.Allowances(a.ID, []string{"Anna", "anna"})
			require.Equal(t, map[string]int64{"anna": 1}, held)
			return err
		}))
		rows, err := s.ReservationsOfActivity(t.Context(), core.AllMerchants(), a.ID, core.ReservationFilter{UserID: "Anna"}, core.Page{Limit: 9})
		require.NoError(t, err)
		require.Empty(t, rows)
	})
}

func TestARebuildReadsUnderTheLocks(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		latest, err := s.LatestChange(ctx, a.ID)
		require.NoError(t, err)
		require.Zero(t, latest)
		long, short := reservation(a, "2", "v"), reservation(a, "3", "w")
		long.State, long.RepublishAt, long.ChangedAt = ledger.StateRejected, nil, now.Add(-25*time.Hour)
		short.State, short.RepublishAt, short.ChangedAt = ledger.StateRejected, nil, now.Add(-time.Hour)
		held := reservation(a, "1", "u")
		held.ChangedAt = now
		require.NoError(t, s.Ledger(ctx, []string{a.ID}, func(tx core.LedgerTx) error {
			return tx.Apply(&ledger.Moves{Insert: []ledger.Row{held, long, short}, Stocks: map[ledger.Shelf]ledger.StockDelta{{ActivityID: a.ID, SKUID: a.Items[0].SKUID}: {Available: -1, Reserved: 1}}})
		}))
		kept := now.Add(-24 * time.Hour)
		rows, next, err := s.GateRows(ctx, a.ID, kept, "", 9)
		require.NoError(t, err)
		require.Empty(t, next)
		require.Equal(t, []string{"1", "3"}, numbersOf(rows), "reservations that ended more than a day ago are left out")
		ended, err := s.CountEnded(ctx, a.ID, kept)
		require.NoError(t, err)
		require.Equal(t, int64(1), ended, "and counted")
		rows, next, err = s.GateRows(ctx, a.ID, kept, "1", 1)
		require.NoError(t, err)
		require.Equal(t, "2", next)
		require.Empty(t, rows)
		rows, _, err = s.GateRows(ctx, a.ID, kept, next, 1)
		require.NoError(t, err)
		require.Equal(t, []string{"3"}, numbersOf(rows))
		latest, err = s.LatestChange(ctx, a.ID)
		require.NoError(t, err)
		require.Equal(t, now, latest)
		versions, err := s.RowVersions(ctx, a.ID, ledger.StateRejected, time.Time{}, nil, 1)
		require.NoError(t, err)
		require.Equal(t, []core.RowVersion{{OrderSN: "2", State: ledger.StateRejected, ChangedAt: long.ChangedAt}}, versions)
		versions, err = s.RowVersions(ctx, a.ID, ledger.StateRejected, time.Time{}, &core.ReservationPlace{ChangedAt: long.ChangedAt, OrderSN: "2"}, 9)
		require.NoError(t, err)
		require.Equal(t, []core.RowVersion{{OrderSN: "3", State: ledger.StateRejected, ChangedAt: short.ChangedAt}}, versions)

		require.NoError(t, s.Rebuild(ctx, a.ID, func(tx gates.RebuildTx) error {
			require.Equal(t, int64(4), tx.Activity().Items[0].Available)
			changed, err := tx.Changed(ctx, now.Add(-2*time.Hour), 9)
			require.NoError(t, err)
			require.ElementsMatch(t, []core.RowVersion{{OrderSN: "1", State: ledger.StateReserved, ChangedAt: now}, {OrderSN: "3", State: ledger.StateRejected, ChangedAt: short.ChangedAt}}, changed)
			changed, err = tx.Changed(ctx, time.Time{}, 2)
			require.NoError(t, err)
			require.Len(t, changed, 2)
			rows, err := tx.Reservations(ctx, []string{"1", "4242"})
			require.NoError(t, err)
			require.Equal(t, []string{"1"}, numbersOf(rows))
			return nil
		}))
		stop := errors.New("stop")
		require.ErrorIs(t, s.Rebuild(ctx, a.ID, func(gates.RebuildTx) error { return stop }), stop)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(s.Rebuild(ctx, "4242", nil)))
	})
}

func TestTotalsAddUpTheTables(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		empty, err := s.Totals(t.Context(), a.ID)
		require.NoError(t, err)
		require.Empty(t, empty.Rows)
		require.Zero(t, empty.Allowances)
		sku := a.Items[0].SKUID
		sold, rejected := reservation(a, "2", "v"), reservation(a, "3", "w")
		sold.State, sold.RepublishAt = ledger.StateSold, nil
		rejected.State, rejected.RepublishAt = ledger.StateRejected, nil
		require.NoError(t, s.Ledger(t.Context(), []string{a.ID}, func(tx core.LedgerTx) error {
			return tx.Apply(&ledger.Moves{
				Insert:     []ledger.Row{reservation(a, "1", "u"), sold, rejected},
				Stocks:     map[ledger.Shelf]ledger.StockDelta{{ActivityID: a.ID, SKUID: sku}: {Available: -2, Reserved: 1, Sold: 1}},
				Allowances: map[ledger.Buyer]int64{{ActivityID: a.ID, UserID: "u"}: 1, {ActivityID: a.ID, UserID: "v"}: 1},
			})
		}))
		totals, err := s.Totals(t.Context(), a.ID)
		require.NoError(t, err)
		total := a.Items[0].Total
		require.Equal(t, reconcile.Totals{
			Stock:      map[string]core.Stock{sku: {SKUID: sku, Total: total, Available: total - 2, Reserved: 1, Sold: 1}},
			Rows:       map[ledger.State]int64{ledger.StateReserved: 1, ledger.StateSold: 1, ledger.StateRejected: 1},
			Allowances: 2,
		}, totals)
		other, err := s.Totals(t.Context(), "4242")
		require.NoError(t, err)
		require.Empty(t, other.Stock)
	})
}

func numbersOf(rows []ledger.Row) []string {
	sns := make([]string, len(rows))
	for i, r := range rows {
		sns[i] = r.OrderSN
	}
	return sns
}

func TestAnAdjustmentIsDecidedOnce(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		adj, err := s.BeginAdjustment(t.Context(), core.AllMerchants(), core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/p", Value: "k"}, core.Adjustment{
			ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: -3, Reason: "r", State: core.AdjustmentIntent, CreatedBy: "m", CreatedAt: now, UpdatedAt: now,
		}, core.Change{At: now, Who: "m"}, func(*core.Activity) error { return nil })
		require.NoError(t, err)
		_, err = s.FinishAdjustment(t.Context(), adj.ID, now)
		require.Error(t, err, "not decided yet")
		for _, refuse := range []bool{false, true, false} {
			got, err := s.DecideAdjustment(t.Context(), adj.ID, refuse, now)
			require.NoError(t, err)
			require.Equal(t, core.DecisionTaken, got.Decision)
		}
		after, err := s.AnyActivity(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, []int64{2, 2}, []int64{after.Items[0].Total, after.Items[0].Available})
	})
}

func TestADecisionThatChangesNothingIsNotRecorded(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, _ *core.Activity) {
		failed := contract.DeadLetter{Where: "g", Topic: "t", Why: "w", Item: []byte("{}"), At: time.Now()}
		require.NoError(t, s.AddDeadLetters(t.Context(), []contract.DeadLetter{failed}))
		list, err := s.DeadLetters(t.Context(), core.AllMerchants(), core.DeadLetterOpen, core.Page{Limit: 9})
		require.NoError(t, err)
		require.Len(t, list, 1)
		decide := func(d core.DeadLetter, state, wantState string, wantChanges int64) core.DeadLetter {
			t.Helper()
			got, err := s.DecideDeadLetter(t.Context(), d, state, core.Change{
				At: time.Now().UTC().Truncate(time.Millisecond), Who: "op", Action: "a", Object: "dead_letter", ObjectID: d.ID,
			})
			require.NoError(t, err)
			require.Equal(t, wantState, got.State)
			var changes int64
			require.NoError(t, db.Table("changes").Where("object = 'dead_letter'").Count(&changes).Error)
			require.Equal(t, wantChanges, changes)
			return *got
		}
		require.NoError(t, s.AddDeadLetters(t.Context(), []contract.DeadLetter{failed}))
		decide(list[0], core.DeadLetterReplayed, core.DeadLetterOpen, 0) // it has failed again since it was read
		again, err := s.DeadLetter(t.Context(), core.AllMerchants(), list[0].ID)
		require.NoError(t, err)
		replayed := decide(*again, core.DeadLetterReplayed, core.DeadLetterReplayed, 1)
		require.NoError(t, s.BeginRejection(t.Context(), replayed.ID))
		decide(replayed, core.DeadLetterReplayed, core.DeadLetterOpen, 1) // its rejection has begun
		decide(replayed, core.DeadLetterRejected, core.DeadLetterRejected, 2)
		decide(replayed, core.DeadLetterRejected, core.DeadLetterRejected, 2) // it is rejected already
	})
}

// Each query of the API returns what the scope contains: nothing of the activity of m1 to m2 or to the zero scope.
func TestAScopeContainsOneMerchant(t *testing.T) {
	each(t, func(t *testing.T, _ *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now, all := t.Context(), time.Now().UTC().Truncate(time.Millisecond), core.Page{Limit: 9}
		require.NoError(t, s.Ledger(ctx, []string{a.ID}, func(tx core.LedgerTx) error {
			return tx.Apply(&ledger.Moves{Insert: []ledger.Row{reservation(a, "1", "u")}})
		}))
		require.NoError(t, s.AddDeadLetters(ctx, []contract.DeadLetter{
			{Where: "g", Topic: "t", OrderSN: "1", ActivityID: a.ID, Why: "w", Item: []byte("{}"), At: now},
			{Where: "g", Topic: "t", Why: "of no activity", Item: []byte("[]"), At: now},
		}))
		deadLetters, err := s.DeadLetters(ctx, core.AllMerchants(), "", all)
		require.NoError(t, err)
		require.Equal(t, []string{"", "m1"}, []string{deadLetters[0].MerchantID, deadLetters[1].MerchantID})
		product, err := s.Products(ctx, core.AllMerchants(), merchants.ProductFilter{}, all)
		require.NoError(t, err)
		change := core.Change{At: now, Who: "m"}
		for _, past := range []core.Change{
			{At: now, Who: "m", Action: "activity.pause", Object: "activity", ObjectID: a.ID},
			{At: now, Who: core.Reconciler, Action: core.ActionReconcile, Object: "activity", ObjectID: a.ID, Detail: map[string]any{}},
			{At: now, Who: "m", Action: "product.patch", Object: "product", ObjectID: a.ID},
			{At: now, Who: "m", Action: "dead_letter.replay", Object: "dead_letter", ObjectID: deadLetters[1].ID},
		} {
			require.NoError(t, s.Record(ctx, past))
		}
		_, err = s.BeginAdjustment(ctx, core.AllMerchants(), core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/p", Value: "first"}, core.Adjustment{
			ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 1, Reason: "r", State: core.AdjustmentIntent, CreatedBy: "m", CreatedAt: now, UpdatedAt: now,
		}, core.Change{At: now, Who: "m"}, func(*core.Activity) error { return nil })
		require.NoError(t, err)
		n := func(found bool) int {
			if found {
				return 1
			}
			return 0
		}
		for _, c := range []struct {
			name                string
			in                  core.Scope
			objects, deadLetter int
		}{
			{"all", core.AllMerchants(), 1, 2},
			{"the owner", core.OfMerchant("m1"), 1, 1},
			{"another merchant", core.OfMerchant("m2"), 0, 0},
			{"the owner in capitals", core.OfMerchant("M1"), 0, 0},
			{"no merchant", core.Scope{}, 0, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				counts := map[string]int{}
				products, err := s.Products(ctx, c.in, merchants.ProductFilter{}, all)
				require.NoError(t, err)
				counts["Products"] = len(products)
				p, err := s.Product(ctx, c.in, product[0].ID)
				require.NoError(t, err)
				counts["Product"] = n(p != nil)
				byRef, err := s.ProductByRef(ctx, c.in, "P")
				require.NoError(t, err)
				counts["ProductByRef"] = n(byRef != nil)
				skus, err := s.SKUs(ctx, c.in, []string{a.Items[0].SKUID})
				require.NoError(t, err)
				counts["SKUs"] = len(skus)
				activities, err := s.Activities(ctx, c.in, merchants.ActivityFilter{}, now, all)
				require.NoError(t, err)
				counts["Activities"] = len(activities)
				one, err := s.Activity(ctx, c.in, a.ID)
				require.NoError(t, err)
				counts["Activity"] = n(one != nil)
				rows, err := s.ReservationsOfActivity(ctx, c.in, a.ID, core.ReservationFilter{}, all)
				require.NoError(t, err)
				counts["ReservationsOfActivity"] = len(rows)
				fed, _, err := s.ChangedActivities(ctx, c.in, "", now.Add(-time.Hour), time.Time{})
				require.NoError(t, err)
				counts["ChangedActivities"] = len(fed)
				counted, err := s.CountReservations(ctx, c.in, a.ID)
				require.NoError(t, err)
				counts["CountReservations"] = int(counted.Reserved)
				changed, err := s.ChangesOfActivity(ctx, c.in, a.ID, all)
				require.NoError(t, err)
				counts["ChangesOfActivity"] = len(changed)
				reconciled, err := s.ReconciliationsOfActivity(ctx, c.in, a.ID, all)
				require.NoError(t, err)
				counts["ReconciliationsOfActivity"] = len(reconciled)
				ofOrder, err := s.ChangesOfOrder(ctx, c.in, a.ID, "1", 9)
				require.NoError(t, err)
				counts["ChangesOfOrder"] = len(ofOrder)
				adjusted, err := s.AdjustmentsOfActivity(ctx, c.in, a.ID, core.Page{Limit: 1})
				require.NoError(t, err)
				counts["AdjustmentsOfActivity"] = len(adjusted)
				deadLetter, err := s.DeadLetter(ctx, c.in, deadLetters[1].ID)
				require.NoError(t, err)
				counts["DeadLetter"] = n(deadLetter != nil)
				_, err = s.ChangeProduct(ctx, c.in, product[0].ID, change, merchants.Growth{}, func(*merchants.Product) (bool, error) { return true, nil })
				counts["ChangeProduct"] = n(err == nil)
				_, err = s.ChangeActivity(ctx, c.in, a.ID, change, merchants.Growth{}, func(*core.Activity) (bool, error) { return false, nil })
				counts["ChangeActivity"] = n(err == nil)
				kept := errors.New("kept")
				err = s.DeleteActivity(ctx, c.in, a.ID, change, func(*core.Activity) error { return kept })
				counts["DeleteActivity"] = n(errors.Is(err, kept))
				_, err = s.BeginAdjustment(ctx, c.in, core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/p", Value: c.name}, core.Adjustment{
					ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: 1, Reason: "r", State: core.AdjustmentIntent, CreatedBy: "m", CreatedAt: now, UpdatedAt: now,
				}, change, func(*core.Activity) error { return nil })
				counts["BeginAdjustment"] = n(err == nil)
				for name, found := range counts {
					require.Equal(t, c.objects, found, name)
				}
				require.Len(t, counts, 18)
				list, err := s.DeadLetters(ctx, c.in, "", all)
				require.NoError(t, err)
				require.Len(t, list, c.deadLetter)
			})
		}
	})
}

// A profile belongs to its merchant alone, and each activity of the merchant is read with it.
func TestActivitiesAreReadWithTheProfileOfTheirMerchant(t *testing.T) {
	each(t, func(t *testing.T, db *gorm.DB, s *store.Store, a *core.Activity) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		require.Nil(t, a.Seller)
		none, err := s.Profile(ctx, "m1")
		require.NoError(t, err)
		require.Equal(t, merchants.Profile{MerchantID: "m1"}, none)
		put := func(merchantID string, seller core.Seller) merchants.Profile {
			p, err := s.ChangeProfile(ctx, merchantID, core.Change{At: now, Who: "m", Object: "profile"}, func(p *merchants.Profile) error {
				p.Seller = seller
				p.Version++
				return nil
			})
			require.NoError(t, err)
			return p
		}
		acme := core.Seller{Name: "Acme", TermsURL: "https://acme.example", Delivery: "Ships\nsoon"}
		put("M1", core.Seller{Name: "in capitals"})
		require.Equal(t, merchants.Profile{MerchantID: "m1", Seller: acme, Version: 1, UpdatedAt: &now}, put("m1", acme))
		refused := errors.New("refused")
		_, err = s.ChangeProfile(ctx, "m1", core.Change{At: now}, func(*merchants.Profile) error { return refused })
		require.ErrorIs(t, err, refused)
		kept, err := s.Profile(ctx, "m1")
		require.NoError(t, err)
		require.Equal(t, int64(1), kept.Version)
		var changes int64
		require.NoError(t, db.Table("changes").Where("object = 'profile' AND merchant_id = 'm1'").Count(&changes).Error)
		require.Equal(t, int64(1), changes)

		notice := core.Notice{Text: "n", At: now}
		changed, err := s.ChangeActivity(ctx, core.OfMerchant("m1"), a.ID, core.Change{At: now, Who: "m"}, merchants.Growth{},
			func(a *core.Activity) (bool, error) { a.Notice = &notice; return true, nil })
		require.NoError(t, err)
		one, err := s.AnyActivity(ctx, a.ID)
		require.NoError(t, err)
		list, err := s.Activities(ctx, core.AllMerchants(), merchants.ActivityFilter{}, now, core.Page{Limit: 9})
		require.NoError(t, err)
		due, err := s.GateActivities(ctx, now)
		require.NoError(t, err)
		var built core.Activity
		require.NoError(t, s.Rebuild(ctx, a.ID, func(tx gates.RebuildTx) error { built = tx.Activity(); return nil }))
		for name, read := range map[string]*core.Activity{
			"changed": changed, "one": one, "list": &list[0], "due": &due[0], "built": &built,
		} {
			require.Equal(t, &acme, read.Seller, name)
			require.Equal(t, &notice, read.Notice, name)
		}

		_, err = s.ChangeActivity(ctx, core.OfMerchant("m1"), a.ID, core.Change{At: now, Who: "m"}, merchants.Growth{},
			func(a *core.Activity) (bool, error) { a.Notice = nil; return true, nil })
		require.NoError(t, err)
		one, err = s.AnyActivity(ctx, a.ID)
		require.NoError(t, err)
		require.Nil(t, one.Notice)
	})
}
