package secured

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/test/chart/checks"
	"flashsale.internal/test/rig/nginx"
)

// A connection of the edge with TLS takes what the chart computes with, and all that values-production.yaml configures
// fit into its memory limit, as far as those that this machine can open show it.
func TestTLSConnectionsFitIntoTheMemoryOfTheEdge(t *testing.T) {
	const (
		open       = 8_000
		configured = 4 * 4096
		limit      = 512 << 20 // bytes, of values-production.yaml
		each       = 20 << 10  // bytes, of the chart
	)
	for protocol, request := range map[string]func(net.Conn) error{"http/1.1": requestHTTP1, "h2": requestHTTP2} {
		t.Run(protocol, func(t *testing.T) {
			e := checks.StartEdge(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			before, files := taken(t, e.PID)
			conns := make([]net.Conn, open)
			defer func() {
				for _, conn := range conns {
					if conn != nil {
						_ = conn.Close()
					}
				}
			}()
			next := make(chan int)
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for i := range next {
						conn, err := tls.Dial("tcp", "127.0.0.1:"+e.TLS, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
						if !assert.NoError(t, err) {
							continue
						}
						conns[i] = conn
						assert.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
						assert.NoError(t, request(conn))
					}
				})
			}
			for i := range open {
				next <- i
			}
			close(next)
			wg.Wait()
			after, filesAfter := taken(t, e.PID)
			require.GreaterOrEqual(t, filesAfter-files, open, "all are open")
			one := (after - before) / open
			all := before + configured*one
			t.Logf("%d connections: %d MiB, then %d MiB; %.1f KiB each; %d would take %d MiB",
				open, before>>20, after>>20, float64(one)/1024, configured, all>>20)
			require.LessOrEqual(t, one, each)
			require.Less(t, all, limit)
		})
	}
}

// requestHTTP1 makes a request and reads its response.
func requestHTTP1(conn net.Conn) error {
	if _, err := io.WriteString(conn, "GET /v1/time HTTP/1.1\r\nHost: shop.test\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Body.Close()
}

// requestHTTP2 makes a request as requestHTTP1 does, in the frames of RFC 9113: a client of net/http would take more
// memory than this machine has.
func requestHTTP2(conn net.Conn) error {
	const settings, headers, endStream, endHeaders = 4, 1, 0x1, 0x4
	frame := func(kind, flags byte, stream uint32, payload string) []byte {
		head := []byte{0, 0, byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	// GET and https of the static table, then :path and :authority as texts.
	fields := "\x82\x87\x04\x08/v1/time\x01\x09shop.test"
	_, err := conn.Write(bytes.Join([][]byte{
		[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0, ""), frame(headers, endStream|endHeaders, 1, fields),
	}, nil))
	if err != nil {
		return err
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			return err
		}
		if head[3] == headers && head[4]&endStream != 0 {
			if payload[0] != 0x89 { // 204 of the static table
				return fmt.Errorf("fields %q", payload)
			}
			return nil
		}
	}
}

// taken returns the bytes and the descriptors that a process and its children have. Memory that they share counts once.
func taken(t *testing.T, pid int) (bytes, descriptors int) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	require.NoError(t, err)
	for _, p := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		text, err := os.ReadFile("/proc/" + p + "/smaps_rollup")
		require.NoError(t, err)
		found := regexp.MustCompile(`(?m)^Pss: +(\d+) kB$`).FindSubmatch(text)
		require.NotNil(t, found, "%s", text)
		kib, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		bytes += kib << 10
		files, err := os.ReadDir("/proc/" + p + "/fd")
		require.NoError(t, err)
		descriptors += len(files)
	}
	return bytes, descriptors
}

// A renewed certificate is in use soon, and no request breaks meanwhile. One that nginx refuses changes nothing.
func TestRenewedCertificate(t *testing.T) {
	e := checks.StartEdge(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(w, "ok")
	}), "edge.leaveSeconds=2", "edge.limits.requestsPerSecond=0", "edge.limits.connections=0")
	serial := func() string {
		conn, err := tls.Dial("tcp", "127.0.0.1:"+e.TLS, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	// renew replaces both files at once, as the kubelet does.
	renew := func(change func(dir string)) string {
		dir := t.TempDir()
		made := nginx.Certificate(t, dir)
		change(dir)
		link := filepath.Join(e.Dir, "next")
		require.NoError(t, os.Symlink(dir, link))
		if info, err := os.Lstat(filepath.Join(e.Dir, "tls")); err == nil && info.IsDir() {
			require.NoError(t, os.Rename(filepath.Join(e.Dir, "tls"), filepath.Join(e.Dir, "first")))
		}
		require.NoError(t, os.Rename(link, filepath.Join(e.Dir, "tls")))
		return made.String()
	}
	renewing := func() bool {
		_, err := os.Stat(filepath.Join(e.Dir, "renewing"))
		return err == nil
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	counts := map[string]*atomic.Int64{}
	load := func(name string, client func(ctx context.Context, done func()) error) {
		n := new(atomic.Int64)
		counts[name] = n
		for range 6 {
			wg.Go(func() { assert.NoError(t, client(ctx, func() { n.Add(1) }), name) })
		}
	}
	load("HTTP/1.1", func(ctx context.Context, done func()) error { return keepAlive(ctx, e.TLS, done) })
	load("HTTP/2", func(ctx context.Context, done func()) error { return post(ctx, checks.Client(t), e.TLS, done) })
	load("new connections", func(ctx context.Context, done func()) error {
		client := checks.Client(t)
		client.Transport.(*http.Transport).DisableKeepAlives = true
		return post(ctx, client, e.TLS, done)
	})

	first := serial()
	for range 3 {
		before := e.PID
		next := renew(func(string) {})
		require.Eventually(t, func() bool { return serial() == next }, patience, 50*time.Millisecond)
		require.NotEqual(t, first, next)
		require.Eventually(t, func() bool { return !renewing() }, patience, 50*time.Millisecond)
		require.Equal(t, before, e.PID)
		first = next
	}
	// A key of another certificate: nginx refuses the pair.
	renew(func(dir string) {
		other := t.TempDir()
		nginx.Certificate(t, other)
		require.NoError(t, os.Rename(filepath.Join(other, "tls.key"), filepath.Join(dir, "tls.key")))
	})
	refused := func() bool {
		text, err := os.ReadFile(filepath.Join(e.Dir, "log"))
		return err == nil && bytes.Contains(text, []byte("key values mismatch"))
	}
	require.Eventually(t, refused, patience, 50*time.Millisecond)
	require.False(t, renewing())
	require.Equal(t, first, serial())
	next := renew(func(string) {})
	require.Eventually(t, func() bool { return serial() == next }, patience, 50*time.Millisecond)
	stop()
	wg.Wait()
	for name, n := range counts {
		t.Logf("%s: %d requests, none broken", name, n.Load())
		require.Greater(t, n.Load(), int64(100), name)
	}
}

// keepAlive makes requests on one connection for as long as the edge keeps it, then on another one. It repeats none.
func keepAlive(ctx context.Context, port string, done func()) error {
	for ctx.Err() == nil {
		err := func() error {
			conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			in := bufio.NewReader(conn)
			for ctx.Err() == nil {
				if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
					return err
				}
				if _, err := io.WriteString(conn, "POST /v1/orders HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n"); err != nil {
					return err
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					return err
				}
				if err := isOK(resp); err != nil {
					return err
				}
				done()
				if resp.Close {
					return nil
				}
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			return nil
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// post makes requests until ctx ends.
func post(ctx context.Context, client *http.Client, port string, done func()) error {
	once := func() error {
		resp, err := client.Post("https://127.0.0.1:"+port+"/v1/orders", "", nil)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		return isOK(resp)
	}
	for ctx.Err() == nil {
		if err := once(); err != nil {
			return err
		}
		done()
	}
	return nil
}

// isOK reads a response, which must be the whole one of the service.
func isOK(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(body) != "ok" {
		return fmt.Errorf("status %d, %q: %w", resp.StatusCode, body, err)
	}
	return nil
}
