// Package stockgate is the Redis gate of a flash sale. It decides in memory, within microseconds, which purchase gets
// units. It owns every key and every script of a gate; no other code reads or writes them.
//
// A gate holds the state of one activity: how many units of each SKU are left, which order_sn holds which
// units for which buyer, and the status of each purchase. The script that takes the units also appends the reservation
// to the journal. An accepted purchase is therefore never lost between Redis and the message broker.
//
// Invariant for each SKU: left + held + sold = total. Held counts the units of queued and created purchases, sold
// those of paid ones. Only Reserve enforces the stock and the per-user limit. Settle applies what the ledger has
// committed and may take left below 0 or a buyer over the limit.
//
// Every call may be repeated: a purchase is identified by its order_sn, an adjustment by its id, a configuration by its
// version. After ErrUnavailable the outcome is unknown, and the caller repeats the call. If the gate does not exist, a
// call fails with ErrNoGate and changes nothing. Ack, ReadJournal, Unacked and JournalLen need no gate, because
// journaled reservations can be published without one; PutSale and ReplaceSale write what buyers see without one.
//
// The package works on Redis 7 and later, single or Cluster (the keys of one gate share a slot), and on miniredis.
package stockgate
