// Package rig runs the processes and dependencies of end-to-end tests: the three services as separate processes, on real
// MariaDB, Redis and RocketMQ, with databases, a Redis database, topics and ports that no other user of them has.
//
// The dependencies are those of MYSQL_DSN, REDIS_ADDRS and ROCKETMQ_NAMESRV, which scripts/dev/with-dependencies sets, or a set
// of the test's own (OwnDependencies).
package rig
