// Package reconcile compares the gate, the ledger and the allowances of each activity while purchases go on, and
// repairs what disagrees. It repairs purchases by order_sn, and counters by adding what they lack. It leaves alone
// what is in flight: the messages, calls and sweeps of core complete that.
//
// It imports core, the standard library and the contract only.
package reconcile
