package webhooks

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdmittedAddresses(t *testing.T) {
	t.Parallel()
	private := prefixes("10.0.0.0/8", "127.0.0.0/8", "fc00::/7", "64:ff9b:1::/48")
	for address, want := range map[string][2]bool{ // without networks, and with private ones
		"93.184.215.14": {true, true}, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": {true, true},
		"::ffff:93.184.215.14": {true, true}, "64:ff9b::5db8:d70e": {true, true},
		"127.0.0.1": {false, true}, "10.1.2.3": {false, true}, "::ffff:10.1.2.3": {false, true}, "64:ff9b::a01:203": {false, true},
		"fd00::1": {false, true}, "192.168.1.1": {}, "172.16.0.1": {}, "100.100.100.200": {}, "198.51.100.1": {}, "240.0.0.1": {},
		"192.0.2.1": {}, "::1": {}, "::7f00:1": {}, "2002:7f00:1::": {}, "2001::1": {}, "2001:db8::1": {}, "64:ff9b:1::1": {false, true},
		"169.254.169.254": {}, "::ffff:169.254.169.254": {}, "64:ff9b::a9fe:a9fe": {}, "fe80::1": {}, "fe80::1%eth0": {},
		"fd00:ec2::254": {}, "0.0.0.0": {}, "0.1.2.3": {}, "::": {}, "224.0.0.1": {}, "ff02::1": {}, "255.255.255.255": {},
	} {
		a := netip.MustParseAddr(address)
		require.Equal(t, want, [2]bool{admitted(a, nil), admitted(a, private)}, address)
	}
	require.False(t, admitted(netip.MustParseAddr("169.254.169.254"), prefixes("0.0.0.0/0")))
}

// names is a DNS server whose only address moves.
type names struct {
	net.PacketConn
	address atomic.Pointer[[4]byte]
}

func newNames(t *testing.T) *names {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &names{PacketConn: conn}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			end := 12
			for query[end] != 0 {
				end += int(query[end]) + 1
			}
			question := query[12 : end+5]
			response := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			if query[end+2] == 1 { // A
				response[7] = 1
				response = append(response, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				response = append(response, n.address.Load()[:]...)
			}
			_, _ = conn.WriteTo(response, from)
			_ = size
		}
	}()
	return n
}

// What counts is the address at the connection: a name that was admitted and then moves is refused.
func TestANameThatMovesIsRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	listener, err := net.Listen("tcp", "0.0.0.0:0") // on 127.0.0.2 too
	require.NoError(t, err)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	dns := newNames(t)
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", dns.LocalAddr().String())
	}}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client := NewClient(prefixes("127.0.0.1/32"), roots)
	t.Cleanup(client.CloseIdleConnections)
	call := func(host string) (int, error) {
		client.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+net.JoinHostPort(host, port)+"/", nil)
		require.NoError(t, err)
		response, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		_ = response.Body.Close()
		return response.StatusCode, nil
	}
	dns.address.Store(&[4]byte{127, 0, 0, 1})
	status, err := call("example.com") // the certificate's name
	require.NoError(t, err)
	require.Equal(t, 204, status)
	for _, moved := range [][4]byte{{127, 0, 0, 2}, {169, 254, 169, 254}, {10, 0, 0, 1}} {
		dns.address.Store(&moved)
		_, err := call("example.com")
		require.ErrorIs(t, err, errNotAdmitted)
		require.Equal(t, "the address of the host is not public", describe(0, err))
	}
	for _, host := range []string{"127.0.0.2", "169.254.169.254", "::ffff:169.254.169.254", "::1", "0.0.0.0"} {
		_, err := call(host)
		require.ErrorIs(t, err, errNotAdmitted, host)
	}
	t.Setenv("HTTPS_PROXY", server.URL)
	_, err = call("169.254.169.254")
	require.ErrorIs(t, err, errNotAdmitted, "no proxy")
}
