// Package chart runs the checks of test/chart with Helm 4, and compares the results of Helm 3 and Helm 4.
package chart
