// Package chart runs the checks of test/chart with Helm 4, and compares what Helm 3 and Helm 4 render.
package chart
