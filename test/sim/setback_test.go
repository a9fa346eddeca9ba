package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/order"
)

// setback is a restore of databases from a backup that was made during the sale. It follows the steps of
// docs/operations.md.
type setback struct {
	of        string        // inventory, order or both; "" for none
	backup    time.Duration // after the start of the sale
	restore   time.Duration // after the start of the sale
	callbacks bool          // none of the payment provider arrives between them
}

// databases returns the services whose databases are restored.
func (s setback) databases() []string {
	if s.of == "both" {
		return []string{"order", "inventory"}
	}
	return []string{s.of}
}

const commitsLost = "database restored" // key of happened

// runSetback makes the backup, restores it later and brings back what was lost, as an operator does.
func (w *world) runSetback() {
	s := w.sale.setback
	began := time.Now()
	time.Sleep(s.backup)
	since := time.Now().Add(-5 * time.Minute)
	if err := w.backUp(); err != nil {
		w.fail("backup: %v", err)
		return
	}
	if s.callbacks {
		w.plan.fail("order: http POST /v1/payments/callbacks", time.Until(began.Add(s.restore)))
	}
	time.Sleep(time.Until(began.Add(s.restore)))
	stopped, proceed := w.stopForRestore()
	err := w.restoreBackup(since)
	proceed()
	if err != nil {
		w.fail("restore: %v", err)
		return
	}
	for _, p := range stopped {
		if err := w.start(p.service, p.slot); err != nil {
			w.fail("start after the restore: %v", err)
		}
	}
	w.finishRestore(since)
}

// backUp copies the databases at one moment, between transactions.
func (w *world) backUp() error {
	defer w.lockWriters()()
	w.history.note("operator", "! makes a backup")
	for _, service := range w.sale.setback.databases() {
		if err := w.books[service].Exec("VACUUM INTO ?", w.backupOf(service)).Error; err != nil {
			return err
		}
	}
	return nil
}

func (w *world) backupOf(service string) string { return filepath.Join(w.dir, service+"-backup.db") }

// lockWriters waits for the transactions in progress, and lets none begin until the returned function is called.
func (w *world) lockWriters() (unlock func()) {
	for _, service := range []string{"order", "inventory"} {
		w.writers[service] <- struct{}{}
	}
	return func() {
		for _, service := range []string{"order", "inventory"} {
			<-w.writers[service]
		}
	}
}

// stopForRestore stops all processes of order and inventory, and keeps others from starting until proceed is called. It
// returns the processes that it stopped.
func (w *world) stopForRestore() (stopped []*process, proceed func()) {
	w.starting <- struct{}{}
	w.mu.Lock()
	started := slices.Clone(w.started)
	for _, p := range w.lives {
		if p.service != "seckill" && p.dead.CompareAndSwap(false, true) {
			stopped = append(stopped, p)
		}
	}
	for _, p := range stopped {
		delete(w.lives, p.name())
	}
	w.mu.Unlock()
	slices.SortFunc(stopped, func(a, b *process) int { return strings.Compare(a.name(), b.name()) })
	for _, p := range stopped {
		w.history.note(p.name(), "! is stopped for a restore")
		p.thaw()
		p.cancel()
	}
	for _, p := range started { // those that died before, too
		if p.dead.Load() {
			<-p.done
		}
	}
	return stopped, func() { <-w.starting }
}

// restoreBackup puts the backup back and notes what that lost. The payments since then are recorded in a restored order
// database, and inventory gets a new epoch.
func (w *world) restoreBackup(since time.Time) error {
	defer w.lockWriters()()
	before, err := w.read()
	if err != nil {
		return err
	}
	for _, service := range w.sale.setback.databases() {
		if err := putBack(w.books[service], w.backupOf(service)); err != nil {
			return err
		}
	}
	after, err := w.read()
	if err != nil {
		return err
	}
	w.noteSetback(before, after)
	if w.sale.setback.of != "inventory" {
		if _, err := w.reconcilePayments(since, true); err != nil {
			return err
		}
	}
	return inventory.NewEpoch(context.Background(), w.books["inventory"], since, io.Discard)
}

// putBack replaces the rows of all tables by those of the backup. The book of the payment provider, which is in the
// order database here, is never restored.
func putBack(db *gorm.DB, backup string) error {
	return db.Connection(func(c *gorm.DB) error {
		if err := c.Exec("ATTACH DATABASE ? AS backup", backup).Error; err != nil {
			return err
		}
		err := c.Transaction(func(tx *gorm.DB) error {
			var tables []string
			err := tx.Raw("SELECT name FROM backup.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sandbox!_%' ESCAPE '!' " +
				"AND (name NOT LIKE 'sqlite!_%' ESCAPE '!' OR name = 'sqlite_sequence')").Scan(&tables).Error
			if err != nil {
				return err
			}
			for _, table := range tables {
				if err := tx.Exec("DELETE FROM main." + table).Error; err != nil {
					return err
				}
				if err := tx.Exec("INSERT INTO main." + table + " SELECT * FROM backup." + table).Error; err != nil {
					return err
				}
			}
			return nil
		})
		if e := c.Exec("DETACH DATABASE backup").Error; err == nil {
			err = e
		}
		return err
	})
}

// noteSetback records the purchases of whose row or order the databases lost a commit.
func (w *world) noteSetback(before, after books) {
	rows, orders := map[string]ledgerRow{}, map[string]orderRow{}
	for _, r := range after.ledger {
		rows[r.sn()] = r
	}
	for _, o := range after.orders {
		orders[strconv.FormatInt(o.OrderSN, 10)] = o
	}
	w.mu.Lock()
	for _, r := range before.ledger {
		if now, kept := rows[r.sn()]; !kept || now.State != r.State || (now.OrderCreatedAt == nil) != (r.OrderCreatedAt == nil) {
			w.setBack[r.sn()] = true
			coverage.end(strings.TrimSpace("commit lost: reservation " + r.State))
		}
	}
	for _, o := range before.orders {
		sn := strconv.FormatInt(o.OrderSN, 10)
		if now, kept := orders[sn]; !kept || now.State != o.State {
			w.setBack[sn] = true
			w.lostOrders[sn] = true
			coverage.end("commit lost: order " + o.State)
		}
	}
	w.happened[commitsLost] = true
	n := len(w.setBack)
	w.mu.Unlock()
	if taken(before) > taken(after) {
		coverage.end("commit lost: adjustment")
	}
	w.history.note("operator", "! restores "+w.sale.setback.of, n)
	point := "database: a restore of " + w.sale.setback.of
	coverage.pass(point)
	coverage.add(point, happens)
}

func taken(b books) (n int) {
	for _, a := range b.adjustments {
		if a.Decision == "taken" {
			n++
		}
	}
	return n
}

var keptCharges = regexp.MustCompile(`charges since .*kept=([0-9]+)`)

// reconcilePayments runs `order payments reconcile`, and returns the number of charges that were kept for later.
func (w *world) reconcilePayments(since time.Time, keep bool) (kept int, err error) {
	var out strings.Builder
	err = order.ReconcilePayments(context.Background(), order.Payments{Payments: settings.Payments{Providers: []string{settings.Sandbox}}},
		order.Deps{DB: w.books["order"], Telemetry: telemetry.Discard(nil), Now: time.Now, DatabaseNow: time.Now}, since, keep, &out)
	w.history.note("operator", "! reconciles payments", keep, out.String())
	if m := keptCharges.FindStringSubmatch(out.String()); m != nil {
		kept, _ = strconv.Atoi(m[1])
	}
	return kept, err
}

// importing reports whether an import after a restore is not complete.
func (w *world) importing() bool {
	var n int64
	if err := w.books["inventory"].Raw("SELECT COUNT(*) FROM imports " +
		"WHERE epoch_id = (SELECT MAX(id) FROM epochs) AND step <> 'done'").Scan(&n).Error; err != nil {
		w.fail("imports: %v", err)
	}
	return n > 0
}

// longestImport bounds an import, on the simulated clock. Its waits are those of publishing and landing again.
const longestImport = 15 * time.Minute

// finishRestore waits for the import and then brings the payments into agreement, as an operator does.
func (w *world) finishRestore(since time.Time) {
	deadline := time.Now().Add(longestImport)
	for w.importing() {
		if _, err := w.reconcileBeside(since, true); err != nil { // orders that come back are paid before they expire anew
			w.fail("reconcile payments: %v", err)
			return
		}
		if time.Now().After(deadline) {
			w.fail("the import after the restore is not complete after %v: %s", longestImport, w.importSteps())
			return
		}
		time.Sleep(time.Second)
	}
	w.history.note("operator", "! the import is complete")
	least, fell := -1, time.Now()
	for {
		kept, err := w.reconcileBeside(since, true)
		if err != nil {
			w.fail("reconcile payments: %v", err)
			return
		}
		if least < 0 || kept < least {
			least, fell = kept, time.Now()
		}
		if kept == 0 || time.Since(fell) > 2*time.Minute {
			break
		}
		time.Sleep(10 * time.Second)
	}
	if _, err := w.reconcileBeside(since, false); err != nil {
		w.fail("reconcile payments: %v", err)
	}
}

// reconcileBeside reconciles the payments while order runs.
func (w *world) reconcileBeside(since time.Time, keep bool) (int, error) {
	w.writers["order"] <- struct{}{}
	defer func() { <-w.writers["order"] }()
	return w.reconcilePayments(since, keep)
}

func (w *world) importSteps() string {
	var list []struct {
		ActivityID     int64
		Step, Position string
	}
	_ = w.books["inventory"].Raw("SELECT activity_id, step, position FROM imports " +
		"WHERE epoch_id = (SELECT MAX(id) FROM epochs)").Scan(&list).Error
	return fmt.Sprintf("%+v", list)
}

// isSetBack reports whether a restored database lost a commit of the purchase.
func (w *world) isSetBack(orderSN string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setBack[orderSN]
}

// mayTurn reports whether a final stage may become another one. After a restore: a paid order is refunded if no unit was
// left for it, or if the lost order expired anew before its charge was found; an order whose closing was lost is paid by
// a charge that would have been refunded; and an order whose tombstone was lost is created by a deduction from before the
// restore, and its buyer pays before the import closes it. A review refunds a paid order, too.
func (w *world) mayTurn(orderSN, from, to string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return from == "p" && to == "x" && (w.setBack[orderSN] || w.reviewed[orderSN] != "") || (from == "x" || from == "f") && to == "p" && w.lostOrders[orderSN]
}

// drawSetback draws the times of a restore.
func (s *sale) drawSetback(of string, r *rand.Rand) {
	backup := 1500*time.Millisecond + time.Duration(r.Int64N(int64(s.window)))
	lost := 500*time.Millisecond + time.Duration(r.Int64N(int64(s.window/2+s.payWithin)))
	s.addSetback(of, backup, backup+lost)
	s.pauses = s.pauses || r.IntN(2) == 0
}

// addSetback adds the restore. The sale has no other loss of the same facts: an import needs the gates, and an operator
// decides about dead letters.
func (s *sale) addSetback(of string, at, until time.Duration) {
	s.setback = setback{of: of, backup: at, restore: until}
	s.losses, s.failover, s.damages, s.acquires, s.greedy = nil, 0, nil, false, false
	s.garbles, s.forges, s.twin = false, 0, false
}
