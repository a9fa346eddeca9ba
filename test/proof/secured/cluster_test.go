package secured

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/cluster/installation"
	"flashsale.internal/test/rig"
)

const (
	// machine is the name by which pods reach this machine.
	machine = "host.cluster.local"
	// longestInstall bounds `helm install --wait` with loaded images.
	longestInstall = time.Minute
	taint          = "dedicated=shop:NoSchedule"
)

// The chart with values-production.yaml, values-secured.yaml and the changes of testdata/tainted.yaml, on a cluster whose
// only node is tainted: it installs, the counts of the demo are right, and no client was refused anything or connected
// without TLS. The back ends run on this machine. scripts/cluster/test runs it; `make secured` does not, as it has no
// cluster.
func TestOnATaintedNode(t *testing.T) {
	require.NoError(t, installation.Described())
	loopback := host
	host = installation.Kubectl(t, "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	t.Cleanup(func() { host = loopback })
	named := func(port int) string { return net.JoinHostPort(machine, strconv.Itoa(port)) }

	data, environ, sentinels := startWithSentinels(t)
	limits := start(t, trusted, "", users(""))
	db, mq := startDatabase(t), startBroker(t, "")
	createSecrets(t, db, mq, environ)
	all, encrypted := db.connections(t)

	installation.Kubectl(t, "taint", "nodes", "--all", taint)
	t.Cleanup(func() { installation.Kubectl(t, "taint", "nodes", "--all", taint+"-") })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	chart, began := os.Getenv("CHART"), time.Now()
	installation.Install(ctx, t, "--values", filepath.Join(chart, "values-production.yaml"),
		"--values", filepath.Join(chart, "values-secured.yaml"), "--values", "testdata/tainted.yaml",
		"--set", "image.tag="+os.Getenv("FIRST_TAG"),
		"--set", "redis.addresses={"+strings.ReplaceAll(environ["REDIS_ADDRS"], host, machine)+"}",
		"--set", "limits.redis.addresses={"+named(limits.port)+"}")
	took := time.Since(began)
	t.Logf("installed in %s", took.Round(time.Second))

	demo := exec.CommandContext(ctx, "go", "run", "./flashctl/cmd/flashctl", "demo")
	demo.Dir, demo.Env = rig.Root(t), append(os.Environ(), "BASE_URL="+installation.EdgeURL)
	out, err := demo.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	installation.Test(ctx, t)

	for _, service := range []string{"seckill", "order", "inventory"} {
		log := installation.Kubectl(t, "logs", "deployment/"+os.Getenv("RELEASE")+"-"+service, "--all-containers")
		requireNoDenialIn(t, service, log)
		require.Contains(t, log, "Service [broker] accepted connection", "the log of the tunnel of %s", service)
	}
	for _, s := range append(append(data, limits), sentinels...) {
		s.requireNoDenials() // their only port is that with TLS, as that of the broker
	}
	require.Eventually(t, func() bool { // a connection counts before its handshake
		now, nowEncrypted := db.connections(t)
		return now > all && now-all == nowEncrypted-encrypted
	}, patience, 100*time.Millisecond, "every connection to MariaDB has TLS")
	require.Less(t, took, longestInstall)
}

// createSecrets creates what values-secured.yaml and values-production.yaml name, by the steps of docs/kubernetes.md.
func createSecrets(t *testing.T, db *database, mq *broker, environ map[string]string) {
	t.Helper()
	create := func(kind []string, name string, args ...string) {
		t.Helper()
		installation.Kubectl(t, append(append(append([]string{"create"}, kind...), name), args...)...)
	}
	secret := func(name string, values ...string) {
		t.Helper()
		for i, v := range values {
			values[i] = "--from-literal=" + v
		}
		create([]string{"secret", "generic"}, name, values...)
	}
	dsn := func(service string) string {
		return strings.ReplaceAll(db.createUser(t, service, service), host, machine)
	}
	create([]string{"configmap"}, "private-authorities", "--from-file="+mq.dir+"/ca.pem")
	create([]string{"secret", "tls"}, "flashsale-client-certificate", "--cert="+mq.dir+"/cert.pem", "--key="+mq.dir+"/key.pem")
	secret("flashsale-mysql-dsn", "ORDER_DSN="+dsn("order"), "INVENTORY_DSN="+dsn("inventory"))
	secret("flashsale-redis", "REDIS_PASSWORD="+environ["REDIS_PASSWORD"],
		"REDIS_SENTINEL_PASSWORD="+environ["REDIS_SENTINEL_PASSWORD"])
	secret("flashsale-redis-limits", "LIMIT_REDIS_PASSWORD="+environ["LIMIT_REDIS_PASSWORD"])
	var keys []string
	for _, user := range []string{"seckill", "order", "inventory", "topics"} {
		keys = append(keys, strings.ToUpper(user)+"_ACCESS_KEY="+user, strings.ToUpper(user)+"_SECRET_KEY="+mqKey)
	}
	secret("flashsale-rocketmq", keys...)
	own := []string{"CONTACT_KEYS=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	for _, name := range []string{
		"INTERNAL_SECRET", "PATH_SECRETS", "SESSION_SECRET", "AUTH_HS256_SECRET", "PAYMENTS_SANDBOX_SECRET",
	} {
		own = append(own, name+"="+name+"-of-a-test-0123456789abcdef")
	}
	secret("flashsale-secrets", own...)
	mq.write(t, "pods/stunnel.conf", tunnelOfPods(t, mq))
	create([]string{"configmap"}, "flashsale-stunnel", "--from-file="+mq.dir+"/pods/stunnel.conf")
}

// tunnelOfPods returns the stunnel.conf of docs/kubernetes.md, with this broker's port and name.
func tunnelOfPods(t *testing.T, mq *broker) string {
	t.Helper()
	conf := regexp.MustCompile("(?s)```ini\n(foreground = yes\n.*?)```").FindStringSubmatch(document(t))
	require.NotNil(t, conf, "docs/kubernetes.md has a stunnel.conf")
	port := strconv.Itoa(mq.port + 3)
	return strings.NewReplacer("checkHost = rocketmq.mq", "checkHost = "+machine,
		"namesrv-0.namesrv.mq:9876", net.JoinHostPort(machine, strconv.Itoa(mq.port)),
		tunnelled+":10911", net.JoinHostPort(tunnelled, port), "broker-0.broker.mq:10911", net.JoinHostPort(machine, port),
	).Replace(conf[1])
}
