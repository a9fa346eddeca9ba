package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
)

var errKilled = errors.New("killed")

// version1 migrates a database to the 16 tables of version 1.
func version1(t *testing.T, dsn string) *gorm.DB {
	t.Helper()
	db, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	require.NoError(t, sqldb.Migrate(t.Context(), db, os.DirFS("../.."), slog.New(slog.DiscardHandler)))
	return db
}

var movedAt = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func movedOrder(n int) core.Order {
	user := fmt.Sprintf("u%d", n%50)
	sn := ordersn.SN{Time: movedAt.Add(time.Duration(n) * time.Millisecond), Gene: ordersn.Gene(user)}
	return core.Order{
		OrderSN: sn.String(), UserID: user, ActivityID: "7", State: core.Pending, Amount: 300, Currency: "EUR",
		Lines:     []contract.PricedLine{{SKUID: "9", Qty: 1, Price: 100}, {SKUID: "3", Qty: 2, Price: 100}},
		CreatedAt: movedAt, ExpiresAt: movedAt.Add(time.Minute), Traceparent: "00-a-b-01",
	}
}

// fill inserts orders in all states, and tombstones.
func fill(t *testing.T, s *Store, n int) (sns []string) {
	t.Helper()
	require.NoError(t, s.InTx(t.Context(), "test", func(tx core.Tx) error {
		sns = nil
		var all []core.Order
		for i := range n {
			all = append(all, movedOrder(i))
			sns = append(sns, all[i].OrderSN)
		}
		if err := tx.InsertOrders(all); err != nil {
			return err
		}
		for i, sn := range sns {
			switch i % 4 {
			case 1:
				if _, err := tx.Pay(sn, "55", movedAt); err != nil {
					return err
				}
			case 2:
				if _, err := tx.Close([]string{sn}, core.ReasonCancelled, movedAt); err != nil {
					return err
				}
			}
		}
		return tx.InsertTombstones([]string{"1", "257"}, movedAt)
	}))
	return sns
}

// orders reads orders and tombstones by order_sn.
func ordersOf(t *testing.T, db *gorm.DB, sns []string) map[string]core.Order {
	t.Helper()
	found := map[string]core.Order{}
	s := New(db, telemetry.Discard(t), nil)
	require.NoError(t, s.InTx(t.Context(), "test", func(tx core.Tx) (err error) {
		found, err = tx.LockOrders(append(sns, "1", "257"))
		return err
	}))
	return found
}

func TestAMoveContinuesAfterAKillAtAnyStep(t *testing.T) {
	t.Parallel()
	dbs := map[string]func(t *testing.T) *gorm.DB{
		"mariadb": func(t *testing.T) *gorm.DB { return version1(t, dbtest.MariaDBDSN(t)) },
		"sqlite":  func(t *testing.T) *gorm.DB { return version1(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db")) },
	}
	for name, open := range dbs {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			s := New(db, telemetry.Discard(t), nil)
			sns := fill(t, s, 20)
			want := ordersOf(t, db, sns)
			require.Len(t, want, 22)
			for _, tables := range []int{4, 1} { // from version 1, and within version 2
				kills := 0
				for skip := 0; ; skip++ {
					m := newMove(t.Context(), db, slog.New(slog.DiscardHandler), io.Discard)
					m.page = 3
					left := skip
					m.step = func(string) error {
						if left--; left < 0 {
							return errKilled
						}
						return nil
					}
					// A write between two attempts is copied, too, except while writers must wait.
					if l, err := readLayout(db); err == nil && l.State == copying && kills%5 == 0 {
						sn := sns[kills%len(sns)]
						require.NoError(t, s.InTx(t.Context(), "test", func(tx core.Tx) error {
							_, err := tx.PostponeClosingCheck([]string{sn}, want[sn].CloseResends,
								movedAt.Add(time.Duration(kills)*time.Second))
							return err
						}))
						want = ordersOf(t, db, sns)
					}
					err := m.start(tables)
					if err == nil {
						break
					}
					require.ErrorIs(t, err, errKilled)
					kills++
				}
				require.Greater(t, kills, 10)
				require.Equal(t, want, ordersOf(t, db, sns), "%d tables", tables)
				l, err := readLayout(db)
				require.NoError(t, err)
				require.Equal(t, steady, l.State)
				require.Equal(t, 2, l.Version)
				if name == "mariadb" {
					require.Len(t, l.tables(), tables)
				}
				overdue, err := s.OverdueOrders(t.Context(), movedAt.Add(time.Hour), 100)
				require.NoError(t, err)
				require.Len(t, overdue, 10, "the sweep finds every pending order")
				dropped, err := DropOldTables(t.Context(), db, slog.New(slog.DiscardHandler))
				require.NoError(t, err)
				require.NotEmpty(t, dropped)
				if name == "sqlite" {
					break // one table
				}
			}
		})
	}
}

// A move detects a row that differs although no writer recorded it.
func TestAMoveEndsIfAnOrderDiffers(t *testing.T) {
	t.Parallel()
	db := version1(t, dbtest.MariaDBDSN(t))
	fill(t, New(db, telemetry.Discard(t), nil), 8)
	m := newMove(t.Context(), db, slog.New(slog.DiscardHandler), io.Discard)
	m.step = func(name string) error {
		if name == "compare a page" {
			return db.Exec("UPDATE orders_1_00 SET amount = 7").Error
		}
		return nil
	}
	require.ErrorContains(t, m.start(1), "orders differ between the old and the new tables")
	require.NoError(t, newMove(t.Context(), db, slog.New(slog.DiscardHandler), io.Discard).start(1), "a repeated move copies again")
}

// one returns an error unless a statement has changed one row.
func one(n int, err error) error {
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows", n)
	}
	return err
}

// Buyers order, pay and cancel while the orders move twice.
func TestASaleDuringAMove(t *testing.T) {
	t.Parallel()
	db := version1(t, dbtest.MariaDBDSN(t))
	fill(t, New(db, telemetry.Discard(t), nil), 200)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		model = map[string]core.State{}
		fails []error
	)
	for worker := range 4 {
		// Each as a process of its own.
		s := New(db, telemetry.Discard(t), nil, WithClock(func() time.Time { return movedAt }))
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for n := 1000 * (worker + 1); ctx.Err() == nil; n++ {
				o := movedOrder(n)
				steps := []func(tx core.Tx) (core.State, error){func(tx core.Tx) (core.State, error) {
					return core.Pending, tx.InsertOrders([]core.Order{o})
				}}
				switch r.IntN(4) {
				case 0:
					pid := text(int64(n)<<8 | int64(ordersn.Gene(o.UserID)))
					steps = append(steps, func(tx core.Tx) (core.State, error) {
						n, err := tx.BeginPayment(core.Payment{
							PaymentID: pid, OrderSN: o.OrderSN, UserID: o.UserID, State: core.PaymentStarted,
						}, 1)
						return core.Pending, one(n, err)
					}, func(tx core.Tx) (core.State, error) {
						_, read, _, err := tx.PaymentWithOrder(pid)
						if err == nil && read.OrderSN != o.OrderSN {
							err = fmt.Errorf("payment %s has order %q", pid, read.OrderSN)
						}
						if err != nil {
							return "", err
						}
						return core.Paid, one(tx.Pay(o.OrderSN, pid, movedAt))
					}, func(tx core.Tx) (core.State, error) {
						_, err := tx.Refund(o.OrderSN, movedAt)
						return core.Refunded, err
					})
				case 1, 2:
					steps = append(steps, func(tx core.Tx) (core.State, error) {
						_, err := tx.HoldForPayment(o.OrderSN, movedAt.Add(time.Hour))
						return core.Pending, err
					}, func(tx core.Tx) (core.State, error) {
						_, err := tx.Close([]string{o.OrderSN}, core.ReasonCancelled, movedAt)
						return core.Closed, err
					})
				}
				for _, step := range steps {
					var state core.State
					err := s.InTx(context.WithoutCancel(ctx), "test", func(tx core.Tx) (err error) {
						state, err = step(tx)
						return err
					})
					mu.Lock()
					if err != nil {
						fails = append(fails, fmt.Errorf("%s: %w", o.OrderSN, err))
					} else {
						model[o.OrderSN] = state
					}
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for _, tables := range []int{4, 1} {
		m := newMove(t.Context(), db, slog.New(slog.DiscardHandler), io.Discard)
		m.page = 40
		require.NoError(t, m.start(tables), "%d tables", tables)
	}
	stop()
	wg.Wait()
	require.Empty(t, fails)
	require.Greater(t, len(model), 50)
	s := New(db, telemetry.Discard(t), nil)
	for sn, state := range model {
		o, found, err := s.Order(t.Context(), sn)
		require.NoError(t, err)
		require.True(t, found, sn)
		require.Equal(t, state, o.State, sn)
		require.Len(t, o.Lines, 2, sn)
	}
	var n int64
	require.NoError(t, db.Table("orders_2_00").Count(&n).Error)
	require.EqualValues(t, len(model)+202, n)
}
