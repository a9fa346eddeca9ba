package rig

import (
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
	"flashsale.internal/test/rig/nginx"
)

// Edge is a running nginx with the chart's configuration of the edge for this machine, as in `make up`.
type Edge struct {
	URL    string
	Secure string // address of the listener with TLS
	Dir    string // of the caches and temporary files

	Reports net.PacketConn // where it reports each response, as a datagram of syslog
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
	e.Reports, err = net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Reports.Close() })
	text := strings.NewReplacer("@EDGE_COUNTS_PORT@", port(e.Reports.LocalAddr().String()),
		"@EDGE_DIR@", e.Dir, "@EDGE_PORT@", port(addr), "@EDGE_TLS_PORT@", port(e.Secure),
		"@SECKILL_PORT@", port(seckill), "@ORDER_PORT@", port(order), "@INVENTORY_PORT@", port(inventory),
	).Replace(string(conf))
	file := filepath.Join(e.Dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	nginx.Certificate(t, e.Dir)
	nginx.Run(t, e.Dir, nginx.Command("nginx", "-e", "/dev/stderr", "-p", e.Dir, "-c", file, "-g", nginx.Directives()))
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
