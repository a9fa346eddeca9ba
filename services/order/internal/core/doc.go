// Package core decides what happens to orders, payments and refunds. It imports the standard library and the contract
// only. The interfaces that it needs are in ports.go.
//
// These invariants hold for every sequence of events:
//   - An order goes pending -> paid | closed and paid -> refunded. Each transition is a compare-and-swap.
//   - An order_sn that was once reported as "unknown" never becomes an order: its tombstone holds the primary key.
//   - Every payment that succeeds either makes its order paid or is refunded in full, once. The transaction that
//     records the success decides which.
package core
