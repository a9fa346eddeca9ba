package sim

import (
	"context"
	"strconv"
	"time"
)

// nextDay ends all processes, starts them again 25 h later, and then lets the broker deliver the messages that it kept.
// By then the gates have expired.
func (w *world) nextDay() error {
	w.mu.Lock()
	lives := w.lives
	w.lives = map[string]*process{}
	kept := w.kept
	w.mu.Unlock()
	w.history.note("all", "! end for 25 h")
	for _, p := range lives {
		p.cancel()
		<-p.done
	}
	time.Sleep(25 * time.Hour)
	for _, service := range services {
		for slot := range w.sale.instances {
			if err := w.start(service, slot); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	time.Sleep(2 * time.Second)
	for _, m := range kept {
		w.history.note("broker", "! delivers after 25 h "+m.Topic, m.Body)
		m.DeliverAt = time.Time{}
		if err := w.broker.Publish(context.Background(), m); err != nil {
			return err
		}
		coverage.end("messages after 25 h")
	}
	return nil
}

// checkUnchanged requires that the messages of the day before changed no reservation and no order.
func (w *world) checkUnchanged(f *findings, before books) {
	now, err := w.read()
	if err != nil {
		f.add("", "read: %v", err)
		return
	}
	rows, orders := map[string]ledgerRow{}, map[int64]orderRow{}
	for _, r := range now.ledger {
		rows[r.sn()] = r
	}
	for _, o := range now.orders {
		orders[o.OrderSN] = o
	}
	for _, r := range before.ledger {
		if rows[r.sn()].State != r.State {
			f.add(r.sn(), "reservation %s was %s and is %s a day later", r.sn(), r.State, rows[r.sn()].State)
		}
	}
	for _, o := range before.orders {
		if is := orders[o.OrderSN]; is.State != o.State || is.Tombstone != o.Tombstone {
			f.add(strconv.FormatInt(o.OrderSN, 10), "order %d was %s and is %s a day later", o.OrderSN, o.State, is.State)
		}
	}
}
