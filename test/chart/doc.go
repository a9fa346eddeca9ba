// Package chart tests the Helm chart by what it makes: with Helm 3 and 4, for the oldest and the newest Kubernetes that it is
// for, with each of its values files. Nothing is installed; test/cluster does that.
package chart
