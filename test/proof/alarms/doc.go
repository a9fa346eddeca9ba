// Package alarms makes things fail under Debian's Prometheus and Alertmanager, with the shipped alerts and scrape
// interval, on the set that `make up MONITORING=1` starts. `make proof LANE=alarms` runs it.
package alarms
