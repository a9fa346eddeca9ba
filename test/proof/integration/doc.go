// Package integration connects the order system of a shop, a program of Python, by the feed and by webhooks, as
// docs/integration.md describes it. `make proof LANE=integration` runs it.
package integration
