// Package brokerless sells during a long outage of the broker, on real dependencies, with the direct transport.
package brokerless
