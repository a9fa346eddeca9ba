// Package nginx runs the real nginx in tests.
package nginx

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Directives of every start in a test: in the foreground, and workers of root enter the folder of a test only as root.
func Directives() string {
	if os.Getuid() == 0 {
		return "daemon off; user root root;"
	}
	return "daemon off;"
}

// Command returns a command that finds nginx, and whose children find it, also in the folder where Debian has it.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if cmd.Err != nil {
		cmd = exec.Command(filepath.Join("/usr/sbin", name), args...)
	}
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	return cmd
}

// Run runs a command that is nginx, or becomes it, until the end of the test, and returns its process id. What it
// writes is in the file log of the folder; a warning fails the test.
func Run(t testing.TB, dir string, cmd *exec.Cmd) (pid int) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // nginx has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start(), "run make deps")
	pid = cmd.Process.Pid
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
		_ = syscall.Kill(-pid, syscall.SIGKILL) // what it started, as the end of a container does
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		if t.Failed() {
			t.Logf("nginx wrote:\n%s", text)
		}
		require.NotContains(t, Unexpected(string(text)), "[warn]")
	})
	return pid
}

// Unexpected returns the lines that nginx wrote, without that of later releases about `listen ... http2`, the form that
// 1.22 has too.
func Unexpected(lines string) string {
	var kept strings.Builder
	for line := range strings.Lines(lines) {
		if !strings.Contains(line, `the "listen ... http2" directive is deprecated`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Certificate writes a certificate for localhost that signs itself and its key, tls.crt and tls.key, as a Secret has
// them, and returns its serial number.
func Certificate(t testing.TB, dir string) *big.Int {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: signed}, "tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return template.SerialNumber
}
