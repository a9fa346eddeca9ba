// Package cluster tests an installation of the chart on a Kubernetes cluster, from outside, through the edge: one trace, pods
// added, drained and killed, upgrades and rollbacks, each during a sale, and the books afterwards. `make cluster-test` makes
// the cluster and the installation; scripts/cluster/test says how it is called.
package cluster
