// Package edge tests the configuration of the edge (scripts/dev/edge.conf.in, which is the chart's with places for
// ports and folders) with the real nginx and services that the test plays.
package edge
