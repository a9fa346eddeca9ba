package secured

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/test/rig"
)

// longestCheck bounds check-config --connect, whatever is wrong.
const longestCheck = 5 * time.Second

// checked runs check-config --connect of a service with these settings, and returns what it prints, by the name of the
// back end, and its exit code.
func checked(t *testing.T, service string, environ map[string]string) (lines map[string]string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*longestCheck)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(rig.Build(t), service), "check-config", "--connect")
	cmd.Env = environment(environ)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	require.Less(t, time.Since(began), longestCheck, "%s", out)
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	t.Logf("%s after %s:\n%s", service, time.Since(began).Round(time.Millisecond), out)
	lines = map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(.*?) {2,}((?:ok|FAILED) .*)$`).FindAllStringSubmatch(string(out), -1) {
		lines[strings.TrimSpace(m[1])] = m[2]
	}
	return lines, cmd.ProcessState.ExitCode()
}

// environment returns that of a program with these settings.
func environment(of map[string]string) []string {
	list := []string{"SSL_CERT_DIR=" + os.Getenv("SSL_CERT_DIR")}
	for name, value := range of {
		list = append(list, name+"="+value)
	}
	return list
}

// changed returns settings with changes, each NAME=value.
func changed(of map[string]string, changes ...string) map[string]string {
	environ := map[string]string{}
	for name, value := range of {
		environ[name] = value
	}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		environ[name] = value
	}
	return environ
}

// startPlain starts a Redis without TLS, and returns its address.
func startPlain(t *testing.T) string {
	t.Helper()
	addr := porttest.Free(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	require.Eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, patience, 10*time.Millisecond)
	return addr
}

// startOrder starts the order service, and returns the URL of its internal listener.
func startOrder(t *testing.T) string {
	t.Helper()
	internal, log := porttest.Free(t), &bytes.Buffer{}
	environ := []string{
		"APP_ENV=development", "MYSQL_DSN=sqlite:" + filepath.Join(t.TempDir(), "order.db"), "INTERNAL_ADDR=" + internal,
		"HTTP_ADDR=" + porttest.Free(t), "ADMIN_ADDR=" + porttest.Free(t), "REDIS_ADDRS=127.0.0.1:1",
		"ROCKETMQ_NAMESRV=127.0.0.1:1",
	}
	program := filepath.Join(rig.Build(t), "order")
	up := exec.Command(program, "migrate", "up")
	up.Env = environ
	out, err := up.CombinedOutput()
	require.NoError(t, err, "%s", out)
	serve := exec.Command(program, "serve")
	serve.Env, serve.Stdout, serve.Stderr = environ, log, log
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
		if t.Failed() {
			t.Logf("order: %s", log)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", internal)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, 20*time.Millisecond)
	return "http://" + internal
}

// Each wrong setting of a back end is a line with its variable and its cause, within 5 s. Right ones are lines with ok.
func TestConnectSaysWhatIsWrong(t *testing.T) {
	program := filepath.Join(rig.Build(t), "inventory")
	foreign, err := newAuthority()
	require.NoError(t, err)
	one := start(t, trusted, "", users("")+"user half on >half-password resetchannels "+rights["gate"]+" -xadd -wait\n"+
		"user outside on >outside-password resetchannels "+rights["gate"]+" -wait\n"+
		"user few on >few-password resetchannels "+rights["limits"]+" -subscribe -multi\n")
	var replica *server
	for range 2 {
		replica = start(t, trusted, fmt.Sprintf("replicaof 127.0.0.1 %d\n", one.port), users(""))
		replica.waitInfo("replication", "master_link_status:up")
	}
	sentinel, _ := startSentinels(t, one.port)
	nodes, cluster := startCluster(t)
	untrusted, plain, nothing := startForeign(t, foreign), startPlain(t), porttest.Free(t)

	d := startDatabase(t)
	d.run(t, "CREATE DATABASE flashsale_inventory; GRANT ALL ON flashsale_inventory.* TO shop@'%';"+
		"CREATE DATABASE empty; GRANT ALL ON empty.* TO shop@'%'; GRANT ALL ON absent.* TO shop@'%'")
	mine := trusted
	trusted = foreign
	untrustedDB := startDatabase(t)
	trusted = mine
	dsn := func(login, addr, rest string) string { return "MYSQL_DSN=" + login + "@tcp(" + addr + ")/" + rest }

	mq := rig.OwnDependencies(t, 8900)
	mq.Do(t, "up", "namesrv", "broker")
	broker := rocketmq.Config{NameServers: []string{fmt.Sprintf("127.0.0.1:%d", 19876+8900)}}
	require.NoError(t, rocketmq.EnsureTopics(t.Context(), broker, contract.Topics(), contract.Groups()))

	common := []string{
		dsn("shop:hush", d.addr, "flashsale_inventory?tls=true"), "ROCKETMQ_NAMESRV=" + broker.NameServers[0],
		"ORDER_INTERNAL_URL=" + startOrder(t),
	}
	right := changed(login("REDIS_ADDRS="+one.addr()), common...)
	up := exec.Command(program, "migrate", "up")
	up.Env = environment(right)
	out, err := up.CombinedOutput()
	require.NoError(t, err, "%s", out)

	for name, environ := range map[string]map[string]string{
		"single": right, "sentinel": changed(sentinel, common...), "cluster": changed(cluster, common...),
	} {
		t.Run(name, func(t *testing.T) {
			lines, exit := checked(t, "inventory", environ)
			require.Zero(t, exit)
			require.Len(t, lines, 5)
			for backEnd, line := range lines {
				require.True(t, strings.HasPrefix(line, "ok     "), "%s: %s", backEnd, line)
			}
		})
	}
	for _, s := range append(nodes, one) {
		s.requireNoDenials()
	}

	const gate, limits, mysql = "redis of the gate", "redis of the limits", "mysql"
	for _, c := range []struct {
		name    string
		environ map[string]string
		backEnd string
		says    []string // the variables, and the cause
	}{
		{
			"wrong password", changed(right, "REDIS_PASSWORD=wrong"), gate,
			[]string{"REDIS_USERNAME, REDIS_PASSWORD: WRONGPASS", "the user or its password is wrong"},
		},
		{
			"unknown user", changed(right, "REDIS_USERNAME=nobody"), gate,
			[]string{"REDIS_USERNAME, REDIS_PASSWORD: WRONGPASS", "the user or its password is wrong"},
		},
		{
			"no credentials", changed(right, "REDIS_USERNAME=", "REDIS_PASSWORD="), gate,
			[]string{"REDIS_PASSWORD: NOAUTH", "the server requires a login and none is set"},
		},
		{
			"missing rights", changed(right, "REDIS_USERNAME=half", "REDIS_PASSWORD=half-password"), gate,
			[]string{"REDIS_USERNAME: the user lacks +xadd: ", "Users of Redis"},
		},
		{
			"missing rights of no script", changed(right, "REDIS_USERNAME=outside", "REDIS_PASSWORD=outside-password"), gate,
			[]string{"REDIS_USERNAME: the user lacks +wait: ", "Users of Redis"},
		},
		{
			"missing rights of the limits", changed(right, "LIMIT_REDIS_USERNAME=few", "LIMIT_REDIS_PASSWORD=few-password"), limits,
			[]string{"LIMIT_REDIS_USERNAME: the user lacks +subscribe +unsubscribe &rl:check-config +multi +exec: ", "Users of Redis"},
		},
		{
			"the other user", changed(right, "REDIS_USERNAME=limits", "REDIS_PASSWORD=limits-password"), gate,
			[]string{"REDIS_USERNAME: ", "NOPERM", "Users of Redis"},
		},
		{"plain text to a TLS port", changed(right, "REDIS_TLS=false"), gate, []string{"REDIS_TLS, ", "it requires TLS and TLS is off"}},
		{
			"TLS to a plain port", changed(right, "REDIS_ADDRS="+plain), gate,
			[]string{"REDIS_TLS, REDIS_ADDRS: ", "TLS is on and the server has none"},
		},
		{
			"unknown authority", changed(right, "REDIS_ADDRS="+untrusted), gate,
			[]string{"SSL_CERT_DIR: ", "the authority of the server's certificate is not trusted", "tls.caConfigMap"},
		},
		{
			"wrong server name", changed(right, "REDIS_TLS_SERVER_NAME=other.test"), gate,
			[]string{"REDIS_TLS_SERVER_NAME, REDIS_ADDRS: ", "the certificate has other names"},
		},
		{"nothing listens", changed(right, "REDIS_ADDRS="+nothing), gate, []string{"REDIS_ADDRS: ", "nothing listens there"}},
		{
			"nothing listens for the limits", changed(right, "LIMIT_REDIS_ADDRS="+nothing), limits,
			[]string{"LIMIT_REDIS_ADDRS: ", "nothing listens there"},
		},
		{"replica", changed(right, "REDIS_ADDRS="+replica.addr()), gate, []string{"REDIS_ADDRS: ", "the server is a replica"}},
		{
			"no such master", changed(sentinel, append(common, "REDIS_SENTINEL_MASTER=nothing")...), gate,
			[]string{"REDIS_SENTINEL_MASTER: ", "the Sentinels watch a master of another name"},
		},
		{
			"wrong password at the Sentinels", changed(sentinel, append(common, "REDIS_SENTINEL_PASSWORD=wrong")...), gate,
			[]string{"REDIS_SENTINEL_USERNAME, REDIS_SENTINEL_PASSWORD: ", "the user at the Sentinels or its password is wrong"},
		},
		{
			"node of a cluster", changed(cluster, append(common, "REDIS_MODE=single")...), gate,
			[]string{"REDIS_MODE: ", "MOVED", "REDIS_MODE=cluster is missing"},
		},
		{"no cluster", changed(right, "REDIS_MODE=cluster"), gate, []string{"REDIS_MODE, REDIS_USERNAME: ", "no node of a cluster"}},

		{
			"wrong password of MySQL", changed(right, dsn("shop:wrong", d.addr, "flashsale_inventory?tls=true")), mysql,
			[]string{"MYSQL_DSN: Error 1045", "the user or its password is wrong"},
		},
		{"MySQL without TLS", changed(right, dsn("shop:hush", d.addr, "flashsale_inventory")), mysql, []string{"MYSQL_DSN: ", "tls=true"}},
		{
			"unknown authority of MySQL", changed(right, dsn("shop:hush", untrustedDB.addr, "flashsale_inventory?tls=true")), mysql,
			[]string{"SSL_CERT_DIR: ", "the authority of the server's certificate is not trusted"},
		},
		{
			"unknown database", changed(right, dsn("shop:hush", d.addr, "absent?tls=true")), mysql,
			[]string{"MYSQL_DSN: Error 1049", "the server has no such database"},
		},
		{
			"not migrated", changed(right, dsn("shop:hush", d.addr, "empty?tls=true")), mysql,
			[]string{"MYSQL_DSN: migration ", "run inventory migrate up"},
		},
		{
			"no MySQL", changed(right, dsn("shop:hush", nothing, "flashsale_inventory?tls=true")), mysql,
			[]string{"MYSQL_DSN: ", "nothing listens there"},
		},

		{"no RocketMQ", changed(right, "ROCKETMQ_NAMESRV="+nothing), "rocketmq", []string{"ROCKETMQ_NAMESRV: ", "nothing listens there"}},
		{"wrong prefix", changed(right, "ROCKETMQ_PREFIX=other-"), "rocketmq", []string{"ROCKETMQ_PREFIX: ", "the topics are not created"}},
		{
			"other secret", changed(right, "INTERNAL_SECRET=another-secret-of-32-characters-or-more"), "order",
			[]string{"INTERNAL_SECRET: ", "responds 401", "accepts other secrets"},
		},
		{
			"no order", changed(right, "ORDER_INTERNAL_URL=http://"+nothing), "order",
			[]string{"ORDER_INTERNAL_URL: ", "nothing listens there"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, exit := checked(t, "inventory", c.environ)
			require.Equal(t, 1, exit)
			require.True(t, strings.HasPrefix(lines[c.backEnd], "FAILED "+c.says[0]), "%v", lines)
			for _, text := range c.says {
				require.Contains(t, lines[c.backEnd], text)
			}
		})
	}
	t.Run("seckill", func(t *testing.T) {
		lines, exit := checked(t, "seckill", changed(right, "INVENTORY_INTERNAL_URL="+right["ORDER_INTERNAL_URL"],
			"AUTH_JWKS_URL=http://"+nothing, "OIDC_ISSUER=http://"+nothing, "OIDC_CLIENT_ID=seckill",
			"PUBLIC_URL=http://127.0.0.1:8081"))
		require.Equal(t, 1, exit)
		require.Len(t, lines, 6)
		for _, backEnd := range []string{gate, limits, "rocketmq"} {
			require.True(t, strings.HasPrefix(lines[backEnd], "ok     "), "%v", lines)
		}
		require.Contains(t, lines["inventory"], "FAILED INVENTORY_INTERNAL_URL: "+right["ORDER_INTERNAL_URL"]+" responds 404: ")
		require.Contains(t, lines["published keys"], "FAILED AUTH_JWKS_URL: ")
		require.Contains(t, lines["identity provider"], "FAILED OIDC_ISSUER: ")
	})
	t.Run("order", func(t *testing.T) {
		lines, exit := checked(t, "order", changed(right, dsn("shop:hush", d.addr, "empty?tls=true")))
		require.Equal(t, 1, exit)
		require.Len(t, lines, 4)
		require.Contains(t, lines[mysql], "run order migrate up")
		require.True(t, strings.HasPrefix(lines[limits], "ok     "), "%v", lines)
		require.True(t, strings.HasPrefix(lines["rocketmq"], "ok     "), "%v", lines)
		require.Contains(t, lines["inventory"], "FAILED INVENTORY_INTERNAL_URL: ")
	})
	t.Run("read-only MySQL", func(t *testing.T) {
		d.run(t, "SET GLOBAL read_only = 1")
		defer d.run(t, "SET GLOBAL read_only = 0")
		lines, exit := checked(t, "inventory", right)
		require.Equal(t, 1, exit)
		require.Contains(t, lines[mysql], "FAILED MYSQL_DSN: the server is read-only: the address leads to a replica")
	})
}
