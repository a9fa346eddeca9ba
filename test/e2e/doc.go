// Package e2e tests the whole chain: separate service processes, real MariaDB, Redis and RocketMQ, and clients that
// use nothing but the API. Its tests are part of `make test`; the long ones are in test/proof.
package e2e
