// Package reconcile compares the gate, the ledger and the allowances of each activity while purchases go on, and
// repairs what disagrees. It repairs purchases by order_sn, and counters by adding what they lack. It does not
// repair what is in flight: the messages and calls of package core and the sweeps of package sweep complete that.
//
// It imports core, the standard library and the contract only.
package reconcile
