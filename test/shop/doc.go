// Package shop is shared by the end-to-end suites: opening a sale, buyers who purchase in it, and the checks
// of its stock, ledger, orders and gate afterwards. Its functions end the test that calls them when a check fails.
package shop
