// Package chart tests the chart as Helm 3 renders it, with the checks of test/chart/checks, and the chart's
// documentation.
package chart
