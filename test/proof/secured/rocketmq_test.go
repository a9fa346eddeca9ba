package secured

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/test/rig"
)

const (
	// tunnelled is the address of the tunnel, which a broker registers as its own.
	tunnelled = "127.0.0.2"
	mqKey     = "key-of-every-user"
)

// broker is a name server and a broker that require TLS with a client certificate and have an ACL, and a tunnel to them.
type broker struct {
	dir, nameServer string
	flags           []string
}

// startBroker starts them, with the users and rights of docs/kubernetes.md.
func startBroker(t *testing.T, prefix string) *broker {
	t.Helper()
	b := &broker{dir: t.TempDir()}
	port := freePorts(t)
	b.nameServer = net.JoinHostPort(tunnelled, strconv.Itoa(port))
	trusted.issue(t, b.dir)
	b.write(t, "tls.properties", fmt.Sprintf("tls.test.mode.enable=false\ntls.server.need.client.auth=require\n"+
		"tls.server.authClient=true\ntls.server.certPath=%[1]s/cert.pem\ntls.server.keyPath=%[1]s/key.pem\n"+
		"tls.server.trustCertPath=%[1]s/ca.pem\ntls.client.authServer=true\ntls.client.trustCertPath=%[1]s/ca.pem\n"+
		"tls.client.certPath=%[1]s/cert.pem\ntls.client.keyPath=%[1]s/key.pem\n", b.dir))
	b.write(t, "namesrv.conf", fmt.Sprintf("listenPort=%d\nbindAddress=127.0.0.1\nkvConfigPath=%s/kv.json\n", port, b.dir))
	shared, err := os.ReadFile("../../../scripts/dev/rocketmq/broker.conf")
	require.NoError(t, err)
	acl := regexp.MustCompile("(?s)```properties\n(authenticationEnabled=true\n.*?)```").FindStringSubmatch(b.document(t))
	require.NotNil(t, acl, "docs/kubernetes.md has the lines of broker.conf")
	b.write(t, "broker.conf", fmt.Sprintf("%s\nlistenPort=%d\nhaListenPort=%d\nstorePathRootDir=%s/store\nbindAddress=127.0.0.1\n"+
		"brokerIP1="+tunnelled+"\n%s", shared, port+3, port+4, b.dir, strings.ReplaceAll(acl[1], "<admin's key>", mqKey)))
	b.write(t, "conf/tools.yml", "accessKey: admin\nsecretKey: "+mqKey+"\n")
	b.flags = append(localFlags(t), "-Drocketmq.home.dir="+b.dir, "-Duser.home="+b.dir)
	tls := []string{"-Dtls.server.mode=enforcing", "-Dtls.enable=true", "-Dtls.config.file=" + b.dir + "/tls.properties"}
	b.java(t, "name server", "-Xmx128m", tls, "namesrv.NamesrvStartup", "-c", b.dir+"/namesrv.conf")
	waitListening(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	b.java(t, "broker", "-Xmx384m", append(tls, "-XX:MaxDirectMemorySize=384m"), "broker.BrokerStartup",
		"-n", "127.0.0.1:"+strconv.Itoa(port), "-c", b.dir+"/broker.conf")
	waitListening(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(port+3)))
	conf := fmt.Sprintf("foreground = yes\npid =\nclient = yes\nCAfile = %[1]s/ca.pem\ncert = %[1]s/cert.pem\nkey = %[1]s/key.pem\n"+
		"verifyChain = yes\ncheckHost = backend.test\n", b.dir)
	for name, p := range map[string]int{"namesrv": port, "broker": port + 3} {
		conf += fmt.Sprintf("[%s]\naccept = %s:%d\nconnect = 127.0.0.1:%d\n", name, tunnelled, p, p)
	}
	b.write(t, "stunnel.conf", conf)
	spawn(t, "stunnel", exec.Command("stunnel", b.dir+"/stunnel.conf"))
	waitListening(t, b.nameServer)
	b.createUsers(t, prefix)
	return b
}

func (b *broker) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// java starts a program of RocketMQ.
func (b *broker) java(t *testing.T, name, heap string, flags []string, class string, args ...string) {
	t.Helper()
	spawn(t, name, b.command(heap, flags, class, args...))
}

func (b *broker) command(heap string, flags []string, class string, args ...string) *exec.Cmd {
	all := slices.Concat([]string{heap}, b.flags, flags, []string{"org.apache.rocketmq." + class}, args)
	return exec.Command("java", all...)
}

func (b *broker) document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	require.NoError(t, err)
	return string(text)
}

// createUsers runs the lines of docs/kubernetes.md.
func (b *broker) createUsers(t *testing.T, prefix string) {
	t.Helper()
	for verb, count := range map[string]int{"createUser": 4, "createAcl": 7} {
		lines := regexp.MustCompile(`(?m)^mqadmin (`+verb+` .*)$`).FindAllStringSubmatch(b.document(t), -1)
		require.Len(t, lines, count, "docs/kubernetes.md")
		var calls errgroup.Group
		calls.SetLimit(2) // each is a JVM
		for _, m := range lines {
			line := strings.NewReplacer("<prefix>", prefix, "<key>", mqKey).Replace(m[1])
			calls.Go(func() error { return b.mqadmin(line) })
		}
		require.NoError(t, calls.Wait())
	}
}

// mqadmin runs a command of RocketMQ's administration.
func (b *broker) mqadmin(line string) error {
	line = strings.NewReplacer("<name server>", b.nameServer, "<cluster>", "dev").Replace(line)
	out, err := b.command("-Xmx128m", nil, "tools.command.MQAdminStartup", strings.Fields(line)...).CombinedOutput()
	if err == nil && !strings.Contains(string(out), "success") { // it exits with 0 when it has failed
		err = errors.New("no success")
	}
	if err != nil {
		return fmt.Errorf("mqadmin %s: %w\n%s", line, err, out)
	}
	return nil
}

// settingsOf returns the settings of a service or of the topics command.
func (b *broker) settingsOf(user string) map[string]string {
	return map[string]string{"ROCKETMQ_NAMESRV": b.nameServer, "ROCKETMQ_ACCESS_KEY": user, "ROCKETMQ_SECRET_KEY": mqKey}
}

// localFlags returns the flags of Java for the local set, which has no TLS: later ones win.
func localFlags(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("bash", "-c", `. scripts/dev/lib.sh && . scripts/dev/rocketmq.sh && printf '%s\n' "${rocketmq_flags[@]}"`)
	cmd.Dir = rig.Root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// spawn runs a process until the test ends.
func spawn(t *testing.T, name string, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			out, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", name, out[max(0, len(out)-4000):])
		}
		_ = log.Close()
	})
}

func waitListening(t *testing.T, addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 2*patience, 50*time.Millisecond, addr)
}

// freePorts returns a port that is free on both addresses, as are the four above it: a broker takes the one two below its
// own, too.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		first := freePort(t)
		free := first < 65000
		for p := first; p <= first+4 && free; p++ {
			for _, host := range []string{"127.0.0.1", tunnelled} {
				l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(p)))
				if free = free && err == nil; err == nil {
					_ = l.Close()
				}
			}
		}
		if free {
			return first
		}
	}
	require.FailNow(t, "no five free ports")
	return 0
}
