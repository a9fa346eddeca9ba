// Package rig runs the three services as processes of their own, on real MariaDB, Redis and RocketMQ, apart from
// everything else that uses the same parts: own databases, own Redis database, own topics, free ports.
//
// The parts are taken from MYSQL_DSN, REDIS_ADDRS and ROCKETMQ_NAMESRV, which `make test` sets.
package rig
