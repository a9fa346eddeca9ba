package process

import "strings"

// kind is a set of kinds of back ends.
type kind int

const (
	kindRedis kind = 1 << iota
	kindMySQL
	kindRocketMQ
	kindHTTP
	anyKind = kindRedis | kindMySQL | kindRocketMQ | kindHTTP
	byTLS   = kindRedis | kindMySQL // with settings of TLS
)

// cause is what an error of a back end means. $ADDRESS, $TLS and $NAME are the variables of its address, of its TLS
// and of the name in its certificate.
type cause struct {
	of        kind
	texts     []string // all in the text of the error
	variables string
	says      string
}

const (
	redisUsers  = "; see \"Users of Redis\" in docs/kubernetes.md; users are not replicated, so each server needs them"
	mysqlTables = "or MYSQL_DSN names the database of another service or installation"
)

// causes are in order: the first that fits an error applies.
var causes = []cause{
	{kindRedis, []string{"the Sentinels have no master"}, "REDIS_SENTINEL_MASTER",
		"the Sentinels watch a master of another name (SENTINEL MASTERS shows it), or $ADDRESS leads to other ones"},
	{kindRedis, []string{"all sentinels", "WRONGPASS"}, "REDIS_SENTINEL_USERNAME, REDIS_SENTINEL_PASSWORD",
		"the user at the Sentinels or its password is wrong; Sentinels have users of their own"},
	{kindRedis, []string{"all sentinels", "NOAUTH"}, "REDIS_SENTINEL_PASSWORD",
		"the Sentinels require a login and none is set"},
	{kindRedis, []string{"all sentinels", "NOPERM"}, "REDIS_SENTINEL_USERNAME",
		"the user lacks a right at the Sentinels" + redisUsers},
	{kindRedis, []string{"all sentinels", "unknown command"}, "REDIS_MODE, $ADDRESS", "the servers are no Sentinels"},
	{kindRedis, []string{"WRONGPASS"}, "REDIS_USERNAME, REDIS_PASSWORD",
		"the user or its password is wrong, or the user is disabled at the server"},
	{kindRedis, []string{"NOAUTH"}, "REDIS_PASSWORD", "the server requires a login and none is set"},
	{kindRedis, []string{"unauthenticated"}, "REDIS_PASSWORD", "the server requires a login and none is set"},
	{kindRedis, []string{"without any password configured"}, "REDIS_PASSWORD",
		"the server has no password for its default user: REDIS_USERNAME is missing, or the server has no users"},
	{kindRedis, []string{"MOVED "}, "REDIS_MODE", "the server is a node of a cluster: REDIS_MODE=cluster is missing"},
	{kindRedis, []string{"CLUSTERDOWN"}, "$ADDRESS", "the cluster has slots without a master"},
	{kindRedis, []string{"cluster support disabled"}, "REDIS_MODE",
		"the server is no node of a cluster: REDIS_MODE=single or sentinel"},
	{kindRedis, []string{"cluster|slots"}, "REDIS_MODE, REDIS_USERNAME",
		"the server is no node of a cluster, or the user lacks the rights that a cluster needs beside the others"},
	{kindRedis, []string{"unknown command", "eval"}, "REDIS_MODE",
		"the server is a Sentinel: REDIS_MODE=sentinel is missing"},
	{kindRedis, []string{"the user lacks"}, "REDIS_USERNAME", "its line at the server lacks rights" + redisUsers},
	{kindRedis, []string{"NOPERM"}, "REDIS_USERNAME",
		"the user lacks the right to a command, key or channel" + redisUsers},
	{kindRedis, []string{"READONLY"}, "$ADDRESS",
		"the server is a replica: name its master, or its Sentinels with REDIS_MODE=sentinel"},
	{kindRedis, []string{"DB index is out of range"}, "REDIS_DB", "the server has fewer databases"},
	{kindRedis, []string{"NOREPLICAS"}, "$ADDRESS", "the master has fewer replicas than its min-replicas-to-write"},
	{kindRedis, []string{"MISCONF"}, "$ADDRESS", "the server cannot write to its disk"},

	{kindMySQL, []string{"Error 1045"}, "MYSQL_DSN",
		"the user or its password is wrong, the user may not log in from this host, " +
			"or it requires TLS (tls=true) or a client certificate (TLS_CERT_FILE)"},
	{kindMySQL, []string{"insecure transport"}, "MYSQL_DSN", "the server requires TLS: tls=true is missing"},
	{kindMySQL, []string{"does not support TLS"}, "MYSQL_DSN", "tls=true, and the server has no TLS"},
	{kindMySQL, []string{"Error 1049"}, "MYSQL_DSN",
		"the server has no such database: its name is wrong, or it is not created"},
	{kindMySQL, []string{"Error 1044"}, "MYSQL_DSN",
		"the user has no rights on the database, or the name of the database is wrong"},
	{kindMySQL, []string{"Error 1142"}, "MYSQL_DSN", "the user lacks rights on the tables"},
	{kindMySQL, []string{"read-only"}, "MYSQL_DSN",
		"the address leads to a replica, or to a primary that was made read-only"},
	{kindMySQL, []string{"is pending"}, "MYSQL_DSN", "run <service> migrate up, " + mysqlTables},
	{kindMySQL, []string{"does not have"}, "MYSQL_DSN", "the program is older than the tables, " + mysqlTables},

	{kindRocketMQ, []string{"permission denied"}, "ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY",
		"the user, its key or one of its rights is wrong or missing; see \"Users of RocketMQ\" in docs/kubernetes.md"},
	{kindRocketMQ, []string{"list brokers", "no name server has the topic"}, "$ADDRESS",
		"no broker is registered at the name server: brokers are down, or have other name servers"},
	{kindRocketMQ, []string{"no name server has the topic"}, "ROCKETMQ_PREFIX",
		"the topics are not created (the chart's topics Job, or go run ./flashctl/cmd/topics), or have another prefix"},
	{kindRocketMQ, []string{"no name server responds", "connection refused"}, "$ADDRESS",
		"nothing listens there: the host or port is wrong, or the name server is down"},
	{kindRocketMQ, []string{"connection refused"}, "$ADDRESS",
		"the name server lists a broker where nothing listens: it is down, or its brokerIP1 is wrong"},
	{kindRocketMQ, []string{"EOF"}, "$ADDRESS",
		"the server requires TLS, for which a tunnel is needed, or is no RocketMQ"},
	{kindRocketMQ, []string{"invalid frame"}, "$ADDRESS", "the server is no RocketMQ, or its proxy"},

	{kindHTTP, []string{"responds 401"}, "INTERNAL_SECRET",
		"the service accepts other secrets, or $ADDRESS leads to another server; both need the same INTERNAL_SECRET"},
	{kindHTTP, []string{"responds 404"}, "$ADDRESS",
		"the server is not the internal listener of the service, or has an older version"},
	{kindHTTP, []string{"responds 5"}, "$ADDRESS",
		"the service lacks one of its own back ends: run check-config --connect there"},
	{kindHTTP, []string{"did not match the issuer"}, "$ADDRESS",
		"it must be exactly as the provider writes its issuer, a slash at its end included"},
	{kindHTTP, []string{"404"}, "$ADDRESS",
		"the server has no such page: the path is wrong, or it is no identity provider"},

	{anyKind, []string{"unknown authority"}, "SSL_CERT_DIR",
		"the authority of the server's certificate is not trusted: put it into the folder that SSL_CERT_DIR names " +
			"(chart: tls.caConfigMap)"},
	{anyKind, []string{"certificate is valid for"}, "$NAME, $ADDRESS",
		"the certificate has other names than the host that is dialled: dial one of them, or set the name of all servers"},
	{anyKind, []string{"cannot validate certificate for"}, "$NAME, $ADDRESS",
		"the certificate does not have the address: dial a name that it has, or set the name of all servers"},
	{anyKind, []string{"has expired or is not yet valid"}, "$ADDRESS",
		"renew the certificate of the server, or correct the clock here"},
	{byTLS, []string{"remote error: tls"}, "TLS_CERT_FILE, TLS_KEY_FILE",
		"the server requires a client certificate: it is missing, has expired, or is of an authority unknown to the server"},
	{anyKind, []string{"like a TLS handshake"}, "$TLS", "TLS is on, and the server at $ADDRESS has none"},
	{anyKind, []string{"no such host"}, "$ADDRESS",
		"the name of the host is wrong, or no DNS server that this host uses has it"},
	{anyKind, []string{"connection refused"}, "$ADDRESS",
		"nothing listens there: the host or port is wrong, or the server is down"},
	{byTLS, []string{"EOF"}, "$TLS, $ADDRESS", endedWithoutReply},
	{byTLS, []string{"connection reset"}, "$TLS, $ADDRESS", endedWithoutReply},
	{byTLS, []string{"invalid connection"}, "$TLS, $ADDRESS", endedWithoutReply},
	{byTLS, []string{"bad connection"}, "$TLS, $ADDRESS", endedWithoutReply},
	{byTLS, []string{"i/o timeout"}, "$TLS, $ADDRESS", noReply + ", or TLS is on and the server has none"},
	{byTLS, []string{"deadline exceeded"}, "$TLS, $ADDRESS", noReply + ", or TLS is on and the server has none"},
	{anyKind, []string{"timeout"}, "$ADDRESS", noReply},
	{anyKind, []string{"deadline exceeded"}, "$ADDRESS", noReply},
	{anyKind, nil, "$ADDRESS", "no known cause; the log of the server may have it"},
}

const (
	endedWithoutReply = "the server ended the connection: it requires TLS and TLS is off, or it has too many connections"
	noReply           = "no reply in time: the address is wrong, a firewall or NetworkPolicy drops packets, " +
		"or the server is overloaded"
)

// causeOf returns the first cause that fits the text of an error of a back end.
func causeOf(k kind, text string) cause {
next:
	for _, c := range causes {
		for _, t := range c.texts {
			if !strings.Contains(text, t) {
				continue next
			}
		}
		if c.of&k != 0 {
			return c
		}
	}
	return causes[len(causes)-1]
}
