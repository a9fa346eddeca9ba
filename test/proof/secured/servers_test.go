package secured

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/test/chart/checks"
	"flashsale.internal/test/rig"
)

// patience is how long a test waits for a server.
const patience = 30 * time.Second

// host is the address at which servers listen. Only a test that does not run beside others may replace it.
var host = "127.0.0.1"

// rights are those of docs/kubernetes.md, by user; of "cluster", what users need there beside them.
var rights = map[string]string{}

func readRights() error {
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		return err
	}
	for _, m := range regexp.MustCompile(`user (\w+) on #<[^>]*> resetchannels (.+)`).FindAllStringSubmatch(string(text), -1) {
		rights[m[1]] = m[2]
	}
	if m := regexp.MustCompile("In a cluster, both also need `([^`]+)`").FindStringSubmatch(string(text)); m != nil {
		rights["cluster"] = " " + m[1]
	}
	if len(rights) != 6 {
		return fmt.Errorf("docs/kubernetes.md has the rights of %d users instead of 6", len(rights))
	}
	return nil
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "secured")
	if err == nil {
		err = os.Setenv("SSL_CERT_DIR", dir) // before the first connection: Go reads the roots once
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := errors.Join(readRights(), checks.Find("../../..", checks.Helm3)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	trusted, err = newAuthority()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), trusted.pem, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	rig.Main(m, func() { _ = os.RemoveAll(dir) })
}

// trusted is the authority in the folder.
var trusted *authority

// authority signs certificates of servers.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// issue writes the files of a certificate for backend.test, localhost, host.cluster.local, 127.0.0.1 and host, and
// returns the lines of a redis.conf that names them.
func (a *authority) issue(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "backend.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"backend.test", "localhost", machine}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(host)},
	}, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, content := range map[string][]byte{
		"ca.pem": a.pem, "cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return fmt.Sprintf("tls-cert-file %[1]s/cert.pem\ntls-key-file %[1]s/key.pem\ntls-ca-cert-file %[1]s/ca.pem\n"+
		"tls-auth-clients optional\ntls-replication yes\n", dir)
}

// server is one redis-server or Sentinel that accepts TLS only.
type server struct {
	t    *testing.T
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan struct{}
	// admin is a client with all rights.
	admin *redis.Client
}

func (s *server) addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// users are the lines of all users of a data server.
func users(more string) string {
	return "user default off\nuser admin on >admin-password ~* &* +@all\n" +
		"user gate on >gate-password resetchannels " + rights["gate"] + more + "\n" +
		"user limits on >limits-password resetchannels " + rights["limits"] + more + "\n" +
		"user replica on >replica-password resetchannels " + rights["replica"] + "\n" +
		"user sentinel on >sentinel-password resetchannels " + rights["sentinel"] + "\n"
}

// start starts a server with these lines in its redis.conf and these users. It ends with the test.
func start(t *testing.T, by *authority, lines, acl string, args ...string) *server {
	t.Helper()
	return startWith(t, &tls.Config{MinVersion: tls.VersionTLS12}, by, lines, acl, args...)
}

// startWith is start with the TLS of the admin client.
func startWith(t *testing.T, trust *tls.Config, by *authority, lines, acl string, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), port: freePort(t), args: args}
	conf := "port 0\nbind " + host + "\ntls-port " + strconv.Itoa(s.port) + "\ndir " + s.dir + "\n" + by.issue(t, s.dir) + lines
	if len(args) == 0 { // a Sentinel rewrites its file and keeps its users there
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "users.acl"), []byte(acl), 0o600))
		conf += "aclfile " + s.dir + "/users.acl\nsave \"\"\nappendonly no\nmasteruser replica\nmasterauth replica-password\n" +
			"repl-diskless-sync-delay 0\n"
	} else {
		conf += acl
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(conf), 0o600))
	s.admin = redis.NewClient(&redis.Options{
		Addr: s.addr(), Username: "admin", Password: "admin-password", MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		TLSConfig: trust,
	})
	s.run()
	t.Cleanup(func() {
		s.kill()
		_ = s.admin.Close()
	})
	return s
}

// run starts the process, and waits until it responds.
func (s *server) run() {
	s.t.Helper()
	s.out = &bytes.Buffer{}
	s.done = make(chan struct{})
	s.cmd = exec.Command("redis-server", append([]string{filepath.Join(s.dir, "redis.conf")}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	require.NoError(s.t, s.cmd.Start())
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.kill()
			s.t.Logf("%s: %s", s.addr(), s.out)
		}
	})
	s.wait("it responds", func(ctx context.Context) bool { return s.admin.Ping(ctx).Err() == nil })
}

// kill ends the process by SIGKILL.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

func (s *server) wait(what string, is func(ctx context.Context) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !is(ctx) {
		select {
		case <-ctx.Done():
			require.FailNow(s.t, "server "+s.addr(), "waited for: %s", what)
		case <-s.done:
			require.FailNow(s.t, "server "+s.addr()+" has ended", s.out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// waitInfo waits until INFO of the server has a line.
func (s *server) waitInfo(section, line string) {
	s.t.Helper()
	s.wait(line, func(ctx context.Context) bool {
		info, err := s.admin.Info(ctx, section).Result()
		return err == nil && strings.Contains(info, line)
	})
}

// requireNoDenials fails if the server has refused a command, a key, a channel or a login.
func (s *server) requireNoDenials() {
	s.t.Helper()
	var entries []*redis.ACLLogEntry
	s.wait("ACL LOG", func(ctx context.Context) bool { // connections of before a restart are closed
		var err error
		entries, err = s.admin.ACLLog(ctx, 20).Result()
		return err == nil
	})
	for _, e := range entries {
		s.t.Errorf("ACL LOG of %s: %s %s of %s: %s", s.addr(), e.Reason, e.Object, e.Username, e.Context)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
