// Package core decides what happens to orders, payments and refunds. It imports the standard library and the contract
// only; what it needs from the outside stands in ports.go.
//
// The rules that hold whatever order things happen in:
//   - an order goes pending -> paid | closed and paid -> refunded, nothing else, each step a compare-and-swap;
//   - an order_sn once told "unknown" never becomes an order: its tombstone holds the primary key;
//   - every payment that succeeds either made its order paid or is refunded in full, once, and the decision is made in
//     the transaction that records the success.
package core
