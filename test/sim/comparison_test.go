package sim

import "time"

// loseSuccess lets the payment provider take the money of a payment, 0 for all of it, and lose its callback for good: the
// comparison of order must find it. A payment that a restored database has lost is not taken.
func (w *world) loseSuccess(payment string, amount int64) {
	w.writers["order"] <- struct{}{}
	defer func() { <-w.writers["order"] }()
	res := w.books["order"].Exec("INSERT INTO sandbox_charges (payment_id, order_sn, user_id, amount, currency, created_at) "+
		"SELECT payment_id, order_sn, user_id, CASE WHEN ? = 0 THEN amount ELSE ? END, currency, ? FROM payments "+
		"WHERE payment_id = ? ON CONFLICT (payment_id) DO NOTHING", amount, amount, time.Now().UTC(), payment)
	if res.Error != nil {
		w.fail("lose the success of %s: %v", payment, res.Error)
	}
	if res.RowsAffected == 0 {
		return
	}
	w.history.note("provider", "! takes a payment and loses its callback", payment)
	w.mu.Lock()
	w.played[payment] = amount
	w.mu.Unlock()
	coverage.pass(successLost)
	coverage.add(successLost, happens)
}

const successLost = "provider: a success is lost"
