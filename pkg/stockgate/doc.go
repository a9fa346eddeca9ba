// Package stockgate is the Redis gate of a flash sale: the one place that decides, in memory and in microseconds, who
// gets a piece. It owns every key and every script of a gate; nobody else touches them.
//
// A gate knows, for one bucket of one activity, how many pieces of each SKU are left, which order_sn holds which pieces
// for which buyer, and how far each of them has come. It journals what it accepts in the same script that takes the
// pieces, so that an accepted purchase is never lost between Redis and the message broker.
//
// For each SKU, always: left + held + sold = total. Held are the pieces of queued and created purchases, sold those of
// paid ones. Only Reserve enforces the stock and the buyers' limit; Settle repeats what the ledger says and may take left
// below 0 or a buyer over the limit.
//
// Everything may be repeated: a purchase is known by its order_sn, an adjustment by its id, a configuration by its
// version. A call that fails with ErrUnavailable has an unknown outcome and is made again. A call that meets no gate fails
// with ErrNoGate and changes nothing (Ack and ReadJournal excepted: what is journaled can be published without a gate).
//
// The package works on Redis 7 and later, single or Cluster (the keys of one gate share a slot), and on miniredis.
package stockgate
