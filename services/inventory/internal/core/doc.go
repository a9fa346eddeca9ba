// Package core decides everything the inventory service decides: what a reservation takes from the stock, what an order's
// steps do to it, what the gate must hear, and what is repeated until it has happened. It imports the standard library and
// the contract only; the parts it needs are interfaces in ports.go.
package core
