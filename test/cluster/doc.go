// Package cluster tests an installation of the chart on a Kubernetes cluster through the edge: the trace of one
// purchase, and an upgrade during a sale. test/proof/cluster has the long tests. `make cluster-test` makes the cluster
// and the installation; scripts/cluster/test describes its arguments.
package cluster
