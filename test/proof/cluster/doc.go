// Package cluster has the long tests of an installation of the chart on a Kubernetes cluster, each during a sale: pods
// added and drained, a rollback, kills of every component, and an uninstall that leaves the data. scripts/cluster/test
// runs them when it gets a Helm 4.
package cluster
