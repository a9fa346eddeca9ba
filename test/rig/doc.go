// Package rig runs the processes and dependencies of end-to-end tests: the three services as separate processes, on
// real MariaDB, Redis and RocketMQ. Each rig has its own databases, Redis database, topics and ports.
//
// The dependencies are those of MYSQL_DSN, REDIS_ADDRS and ROCKETMQ_NAMESRV, which scripts/dev/with-dependencies sets,
// or the test's own set (OwnDependencies).
package rig
