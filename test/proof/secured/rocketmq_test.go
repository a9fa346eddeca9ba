package secured

import (
	"cmp"
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

// broker is a name server and a broker that have an ACL, with the users of docs/kubernetes.md.
type broker struct {
	dir, nameServer string
	port            int // of the name server; that of the broker is three higher
	flags           []string
}

// startBroker starts them with TLS that requires a client certificate, and a tunnel to them.
func startBroker(t *testing.T, prefix string) *broker {
	t.Helper()
	b := prepareBroker(t)
	trusted.issue(t, b.dir)
	b.write(t, "tls.properties", fmt.Sprintf("tls.test.mode.enable=false\ntls.server.need.client.auth=require\n"+
		"tls.server.authClient=true\ntls.server.certPath=%[1]s/cert.pem\ntls.server.keyPath=%[1]s/key.pem\n"+
		"tls.server.trustCertPath=%[1]s/ca.pem\ntls.client.authServer=true\ntls.client.trustCertPath=%[1]s/ca.pem\n"+
		"tls.client.certPath=%[1]s/cert.pem\ntls.client.keyPath=%[1]s/key.pem\n", b.dir))
	b.serve(t, tunnelled, "-Dtls.server.mode=enforcing", "-Dtls.enable=true", "-Dtls.config.file="+b.dir+"/tls.properties")
	conf := fmt.Sprintf("foreground = yes\npid =\nclient = yes\nCAfile = %[1]s/ca.pem\ncert = %[1]s/cert.pem\nkey = %[1]s/key.pem\n"+
		"verifyChain = yes\ncheckHost = backend.test\n", b.dir)
	for name, p := range map[string]int{"namesrv": b.port, "broker": b.port + 3} {
		conf += fmt.Sprintf("[%s]\naccept = %s:%d\nconnect = %s:%d\n", name, tunnelled, p, host, p)
	}
	b.write(t, "stunnel.conf", conf)
	spawn(t, "stunnel", exec.Command("stunnel", b.dir+"/stunnel.conf"))
	waitListening(t, b.nameServer)
	b.createUsers(t, prefix, "")
	return b
}

func prepareBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{dir: t.TempDir(), port: freePorts(t)}
	b.write(t, "conf/tools.yml", "accessKey: admin\nsecretKey: "+mqKey+"\n")
	b.flags = append(localFlags(t), "-Drocketmq.home.dir="+b.dir, "-Duser.home="+b.dir)
	return b
}

// serve starts the two with these flags of Java. address is that at which clients reach them.
func (b *broker) serve(t *testing.T, address string, flags ...string) {
	t.Helper()
	own := func(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
	b.nameServer = net.JoinHostPort(address, strconv.Itoa(b.port))
	b.write(t, "namesrv.conf", fmt.Sprintf("listenPort=%d\nbindAddress=%s\nkvConfigPath=%s/kv.json\n", b.port, host, b.dir))
	shared, err := os.ReadFile("../../../scripts/dev/rocketmq/broker.conf")
	require.NoError(t, err)
	acl := regexp.MustCompile("(?s)```properties\n(authenticationEnabled=true\n.*?)```").FindStringSubmatch(document(t))
	require.NotNil(t, acl, "docs/kubernetes.md has the lines of broker.conf")
	b.write(t, "broker.conf", fmt.Sprintf("%s\nlistenPort=%d\nhaListenPort=%d\nstorePathRootDir=%s/store\nbindAddress=%s\n"+
		"brokerIP1=%s\n%s", shared, b.port+3, b.port+4, b.dir, host, address, strings.ReplaceAll(acl[1], "<admin's key>", mqKey)))
	spawn(t, "name server", b.command("-Xmx128m", flags, "namesrv.NamesrvStartup", "-c", b.dir+"/namesrv.conf"))
	waitListening(t, own(b.port))
	spawn(t, "broker", b.command("-Xmx384m", append(flags, "-XX:MaxDirectMemorySize=384m"), "broker.BrokerStartup",
		"-n", own(b.port), "-c", b.dir+"/broker.conf"))
	waitListening(t, own(b.port+3))
}

func (b *broker) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// command returns a program of RocketMQ.
func (b *broker) command(heap string, flags []string, class string, args ...string) *exec.Cmd {
	all := slices.Concat([]string{heap}, b.flags, flags, []string{"org.apache.rocketmq." + class}, args)
	return exec.Command("java", all...)
}

// document returns docs/kubernetes.md.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	require.NoError(t, err)
	return string(text)
}

// createUsers runs the lines of docs/kubernetes.md, for users whose names have this end.
func (b *broker) createUsers(t *testing.T, prefix, end string) {
	t.Helper()
	for verb, count := range map[string]int{"createUser": 4, "createAcl": 7} {
		lines := regexp.MustCompile(`(?m)^mqadmin (`+verb+` .*)$`).FindAllStringSubmatch(document(t), -1)
		require.Len(t, lines, count, "docs/kubernetes.md")
		var calls errgroup.Group
		calls.SetLimit(2) // each is a JVM
		for _, m := range lines {
			line := regexp.MustCompile(`(-u |User:)(\w+)`).ReplaceAllString(m[1], "${1}${2}"+end)
			line = strings.NewReplacer("<prefix>", prefix, "<key>", mqKey).Replace(line)
			calls.Go(func() error { return b.mqadmin(line) })
		}
		require.NoError(t, calls.Wait())
	}
}

// mqadmin runs a command of RocketMQ's administration. It repeats one that finds no cluster: a broker may register with
// the name server up to 10 s after it listens.
func (b *broker) mqadmin(line string) error {
	line = strings.NewReplacer("<name server>", b.nameServer, "<cluster>", "dev").Replace(line)
	for end := time.Now().Add(patience); ; {
		out, err := b.command("-Xmx128m", nil, "tools.command.MQAdminStartup", strings.Fields(line)...).CombinedOutput()
		if err == nil && strings.Contains(string(out), "success") { // it exits with 0 when it has failed
			return nil
		}
		if !strings.Contains(string(out), "Make sure the specified clusterName exists") || time.Now().After(end) {
			return fmt.Errorf("mqadmin %s: %w\n%s", line, cmp.Or(err, errors.New("no success")), out)
		}
	}
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
			for _, address := range []string{host, tunnelled} {
				l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(p)))
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
