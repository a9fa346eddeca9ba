// Package restore tests the runbook of docs/operations.md for a restore from a backup: a sale is interrupted, one
// database or both are set back to a backup from its middle, and the services recover what they can. It takes too long
// for `make test`; scripts/restore-drill runs it.
package restore
