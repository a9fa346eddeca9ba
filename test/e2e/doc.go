// Package e2e holds the tests of the whole chain: three processes, real MariaDB, Redis and RocketMQ, and callers that
// know nothing but the API.
package e2e
