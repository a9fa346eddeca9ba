// Package secured tests the whole system, and the services' clients, against back ends with TLS and least rights, as a
// managed or hardened installation has them: Redis behind Sentinels and as a cluster, MariaDB that becomes a replica,
// RocketMQ behind a tunnel. The servers are of the tests themselves. It also tests the edge with TLS: the memory of its
// connections, and a renewed certificate. `make secured` runs it.
package secured
