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
	row(kindRedis, "REDIS_SENTINEL_MASTER",
		"the Sentinels watch a master of another name (SENTINEL MASTERS shows it), or $ADDRESS leads to other ones",
		"the Sentinels have no master"),
	row(kindRedis, "REDIS_SENTINEL_USERNAME, REDIS_SENTINEL_PASSWORD",
		"the user at the Sentinels or its password is wrong; Sentinels have users of their own",
		"all sentinels", "WRONGPASS"),
	row(kindRedis, "REDIS_SENTINEL_PASSWORD",
		"the Sentinels require a login and none is set", "all sentinels", "NOAUTH"),
	row(kindRedis, "REDIS_SENTINEL_USERNAME",
		"the user lacks a right at the Sentinels"+redisUsers, "all sentinels", "NOPERM"),
	row(kindRedis, "REDIS_MODE, $ADDRESS", "the servers are no Sentinels", "all sentinels", "unknown command"),
	row(kindRedis, "REDIS_USERNAME, REDIS_PASSWORD",
		"the user or its password is wrong, or the user is disabled at the server", "WRONGPASS"),
	row(kindRedis, "REDIS_PASSWORD", "the server requires a login and none is set", "NOAUTH"),
	row(kindRedis, "REDIS_PASSWORD",
		"the server has no password for its default user: REDIS_USERNAME is missing, or the server has no users",
		"without any password configured"),
	row(kindRedis, "REDIS_MODE", "the server is a node of a cluster: REDIS_MODE=cluster is missing", "MOVED "),
	row(kindRedis, "$ADDRESS", "the cluster has slots without a master", "CLUSTERDOWN"),
	row(kindRedis, "REDIS_MODE",
		"the server is no node of a cluster: REDIS_MODE=single or sentinel", "cluster support disabled"),
	row(kindRedis, "REDIS_MODE, REDIS_USERNAME",
		"the server is no node of a cluster, or the user lacks the rights of one"+redisUsers, "cluster|slots"),
	row(kindRedis, "REDIS_MODE", "the server is a Sentinel: REDIS_MODE=sentinel is missing", "unknown command", "eval"),
	row(kindRedis, "REDIS_USERNAME", "its line at the server lacks rights"+redisUsers, "the user lacks"),
	row(kindRedis, "REDIS_USERNAME", "the user lacks the right to a command, key or channel"+redisUsers, "NOPERM"),
	row(kindRedis, "$ADDRESS",
		"the server is a replica: name its master, or its Sentinels with REDIS_MODE=sentinel", "READONLY"),
	row(kindRedis, "REDIS_DB", "the server has fewer databases", "DB index is out of range"),
	row(kindRedis, "$ADDRESS", "the master has fewer replicas than its min-replicas-to-write", "NOREPLICAS"),
	row(kindRedis, "$ADDRESS", "the server cannot write to its disk", "MISCONF"),

	row(kindMySQL, "MYSQL_DSN",
		"the user or its password is wrong, the user may not log in from this host, or it requires TLS (tls=true) "+
			"or a client certificate (TLS_CERT_FILE)", "Error 1045"),
	row(kindMySQL, "MYSQL_DSN", "the server requires TLS: tls=true is missing", "insecure transport"),
	row(kindMySQL, "MYSQL_DSN", "tls=true, and the server has no TLS", "does not support TLS"),
	row(kindMySQL, "MYSQL_DSN",
		"the server has no such database: its name is wrong, or it is not created", "Error 1049"),
	row(kindMySQL, "MYSQL_DSN",
		"the user has no rights on the database, or the name of the database is wrong", "Error 1044"),
	row(kindMySQL, "MYSQL_DSN", "the user lacks rights on the tables", "Error 1142"),
	row(kindMySQL, "MYSQL_DSN", "the address leads to a replica, or to a primary that was made read-only", "read-only"),
	row(kindMySQL, "MYSQL_DSN", "run <service> migrate up, "+mysqlTables, "is pending"),
	row(kindMySQL, "MYSQL_DSN", "the program is older than the tables, "+mysqlTables, "does not have"),

	row(kindRocketMQ, "ROCKETMQ_ACCESS_KEY, ROCKETMQ_SECRET_KEY",
		"the user, its key or one of its rights is wrong or missing; see \"Users of RocketMQ\" in docs/kubernetes.md",
		"permission denied"),
	row(kindRocketMQ, "$ADDRESS",
		"no broker is registered at the name server: brokers are down, or have other name servers",
		"list brokers", "no name server has the topic"),
	row(kindRocketMQ, "ROCKETMQ_PREFIX",
		"the topics are not created (the chart's topics Job, or go run ./flashctl/cmd/topics), or have another prefix",
		"no name server has the topic"),
	row(kindRocketMQ, "$ADDRESS",
		"nothing listens there: the host or port is wrong, or the name server is down",
		"no name server responds", "connection refused"),
	row(kindRocketMQ, "$ADDRESS",
		"the name server lists a broker where nothing listens: it is down, or its brokerIP1 is wrong",
		"connection refused"),
	row(kindRocketMQ, "$ADDRESS", "the server requires TLS, for which a tunnel is needed, or is no RocketMQ", "EOF"),
	row(kindRocketMQ, "$ADDRESS", "the server is no RocketMQ, or its proxy", "invalid frame"),

	row(kindHTTP, "INTERNAL_SECRET",
		"the service accepts other secrets, or $ADDRESS leads to another server; both need the same INTERNAL_SECRET",
		"responds 401"),
	row(kindHTTP, "$ADDRESS",
		"the server is not the internal listener of the service, or has an older version", "responds 404"),
	row(kindHTTP, "$ADDRESS",
		"the service lacks one of its own back ends: run check-config --connect there", "responds 5"),
	row(kindHTTP, "$ADDRESS",
		"it must be exactly as the provider writes its issuer, a slash at its end included",
		"did not match the issuer"),
	row(kindHTTP, "$ADDRESS", "the server has no such page: the path is wrong, or it is no identity provider", "404"),

	row(anyKind, "SSL_CERT_DIR",
		"the authority of the server's certificate is not trusted: put it into the folder that SSL_CERT_DIR names "+
			"(chart: tls.caConfigMap)", "unknown authority"),
	row(anyKind, "$NAME, $ADDRESS",
		"the certificate has other names than the host that is dialled: dial one of them, or set the name of all servers",
		"certificate is valid for"),
	row(anyKind, "$NAME, $ADDRESS",
		"the certificate does not have the address: dial a name that it has, or set the name of all servers",
		"cannot validate certificate for"),
	row(anyKind, "$ADDRESS",
		"renew the certificate of the server, or correct the clock here", "has expired or is not yet valid"),
	row(byTLS, "TLS_CERT_FILE, TLS_KEY_FILE",
		"the server requires a client certificate: it is missing, has expired, or is of an authority unknown to the "+
			"server", "remote error: tls"),
	row(anyKind, "$TLS", "TLS is on, and the server at $ADDRESS has none", "a TLS handshake"),
	row(anyKind, "$ADDRESS",
		"the name of the host is wrong, or no DNS server that this host uses has it", "no such host"),
	row(anyKind, "$ADDRESS",
		"nothing listens there: the host or port is wrong, or the server is down", "connection refused"),
	row(byTLS, "$TLS, $ADDRESS", endedWithoutReply, "EOF"),
	row(byTLS, "$TLS, $ADDRESS", endedWithoutReply, "connection reset"),
	row(byTLS, "$TLS, $ADDRESS", endedWithoutReply, "invalid connection"),
	row(byTLS, "$TLS, $ADDRESS", endedWithoutReply, "bad connection"),
	row(byTLS, "$TLS, $ADDRESS", noReply+", or TLS is on and the server has none", "i/o timeout"),
	row(byTLS, "$TLS, $ADDRESS", noReply+", or TLS is on and the server has none", "deadline exceeded"),
	row(anyKind, "$ADDRESS", noReply, "timeout"),
	row(anyKind, "$ADDRESS", noReply, "deadline exceeded"),
	row(anyKind, "$ADDRESS", "no known cause; the log of the server may have it"),
}

const (
	endedWithoutReply = "the server ended the connection: it requires TLS and TLS is off, or it has too many connections"
	noReply           = "no reply in time: the address is wrong, a firewall or NetworkPolicy drops packets, " +
		"or the server is overloaded"
)

// row returns a cause.
func row(of kind, variables, says string, texts ...string) cause {
	return cause{of, texts, variables, says}
}

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
