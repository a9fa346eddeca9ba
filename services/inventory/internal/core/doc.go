// Package core holds the rules of the inventory service: what a reservation takes from the stock, how an order's
// events change it, and what is written into the gate. It imports the standard library, the contract and ledger only;
// the interfaces that it needs are in ports.go.
package core
