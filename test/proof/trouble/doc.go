// Package trouble tests the whole chain while a dependency or a service is down, the network fails, Redis fails over or
// is full, a backlog waits or the gate is damaged. It takes too long for `make test`; `make trouble` runs it.
package trouble
