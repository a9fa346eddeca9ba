// Package chart tests what Helm 3 renders from the chart, with the checks of test/chart/checks, and the chart's
// documentation.
package chart
