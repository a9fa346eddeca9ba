package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// Edge is a running nginx with the chart's configuration of the edge for this machine, as in `make up`.
type Edge struct {
	URL    string
	Secure string // address of the listener with TLS
	Dir    string // of the caches and temporary files
}

// StartEdge starts the edge before services with these URLs, and stops it at the end of the test.
func StartEdge(t testing.TB, seckill, order, inventory string) Edge {
	t.Helper()
	conf, err := os.ReadFile(filepath.Join(Root(t), "scripts/dev/edge.conf.in"))
	require.NoError(t, err)
	port := func(addr string) string {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(addr, "http://"))
		require.NoError(t, err)
		return port
	}
	addr := porttest.Free(t)
	e := Edge{URL: "http://" + addr, Secure: porttest.Free(t), Dir: t.TempDir()}
	text := strings.NewReplacer("@EDGE_DIR@", e.Dir, "@EDGE_PORT@", port(addr), "@EDGE_TLS_PORT@", port(e.Secure),
		"@SECKILL_PORT@", port(seckill), "@ORDER_PORT@", port(order), "@INVENTORY_PORT@", port(inventory),
	).Replace(string(conf))
	file := filepath.Join(e.Dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	writeCertificate(t, e.Dir)
	e.run(t, file)
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Second}
	require.Eventually(t, func() bool {
		resp, err := client.Get(e.URL + "/livez") // which the edge itself refuses
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusNotFound
	}, 20*time.Second, 20*time.Millisecond)
	return e
}

// Bytes returns the length of the files in a folder of the caches and temporary files, "" for all.
func (e Edge) Bytes(t testing.TB, folder string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(e.Dir, folder), func(_ string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		info, err := f.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}))
	return n
}

// writeCertificate writes a certificate as scripts/dev/edge.sh makes it.
func writeCertificate(t testing.TB, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
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
}

// run runs nginx until the end of the test.
func (e Edge) run(t testing.TB, conf string) {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // where Debian puts it
	}
	directives := "daemon off;"
	if os.Getuid() == 0 {
		directives += " user root root;" // or its workers could not enter the folder
	}
	log, err := os.Create(filepath.Join(e.Dir, "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // nginx has its own descriptor
	cmd := exec.Command(nginx, "-e", "/dev/stderr", "-p", e.Dir, "-c", conf, "-g", directives)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start(), "run make deps")
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		if t.Failed() {
			t.Logf("nginx wrote:\n%s", text)
		}
		require.NotContains(t, string(text), "[warn]")
	})
}
