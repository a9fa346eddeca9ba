// Package kills runs a whole sale on real dependencies while every service and every dependency is killed twice, and
// checks that no accepted purchase was lost or doubled. `make proof LANE=kills` runs it.
package kills
