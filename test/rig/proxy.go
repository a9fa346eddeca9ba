package rig

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// Link is the network between one service and one of its dependencies. Without a fault it forwards all bytes.
type Link struct {
	Service, Dependency string

	server *toxiproxy.ApiServer
	free   func() string // returns an address that stays reserved during a cut

	mu      sync.Mutex
	proxies []*toxiproxy.Proxy
	toxics  []string // as JSON, active now
	cut     bool
}

func (l *Link) String() string { return l.Service + " to " + l.Dependency }

// Links puts a Link between each service and each of its dependencies. Call it before the services start.
func (r *Rig) Links(t testing.TB) []*Link {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxiproxy also logs to the global logger
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var links []*Link
	between := func(p *Process, dependency string) *Link {
		l := &Link{
			Service: p.Name, Dependency: dependency, server: server, free: func() string { return porttest.Free(t) },
		}
		links = append(links, l)
		t.Cleanup(func() { l.close(t) })
		return l
	}
	for _, p := range r.Processes() {
		p.Set("REDIS_ADDRS", between(p, "redis").to(t, r.Dependencies.RedisAddr))
	}
	for p, dsn := range map[*Process]string{
		r.Order:     r.Dependencies.OrderDSN,
		r.Inventory: r.Dependencies.InventoryDSN,
	} {
		server := dsnAddress.FindStringSubmatch(dsn)
		require.NotNil(t, server, "no tcp(host:port) in the DSN")
		p.Set("MYSQL_DSN", strings.Replace(dsn, server[1], between(p, "mysql").to(t, server[1]), 1))
	}
	for _, p := range r.Processes() {
		l := between(p, "rocketmq")
		p.Set("ROCKETMQ_NAMESRV", l.to(t, l.renameBrokers(t, r.Dependencies.NameServer)))
	}
	internal, err := url.Parse(r.Inventory.Setting("ORDER_INTERNAL_URL"))
	require.NoError(t, err)
	r.Inventory.Set("ORDER_INTERNAL_URL", "http://"+between(r.Inventory, "order").to(t, internal.Host))
	return links
}

var dsnAddress = regexp.MustCompile(`tcp\(([^)]+)\)`)

// Cut resets all connections and refuses new ones.
func (l *Link) Cut(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, p := range l.proxies {
		p.Stop()
	}
}

// Swallow keeps connections open, accepts new ones, and forwards no byte.
func (l *Link) Swallow(t testing.TB) {
	t.Helper()
	l.add(t, `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`,
		`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// Slow delays every response and limits the bandwidth.
func (l *Link) Slow(t testing.TB) {
	t.Helper()
	l.add(t, `{"type":"latency","stream":"downstream","attributes":{"latency":300,"jitter":100}}`,
		`{"type":"bandwidth","stream":"downstream","attributes":{"rate":256}}`,
		`{"type":"bandwidth","stream":"upstream","attributes":{"rate":256}}`)
}

// Heal ends all faults. Connections whose bytes were swallowed are reset.
func (l *Link) Heal(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toxics = nil
	for _, p := range l.proxies {
		p.Toxics.ResetToxics(context.Background())
		if l.cut {
			require.NoError(t, p.Start())
		}
	}
	l.cut = false
}

func (l *Link) add(t testing.TB, toxics ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toxics = append(l.toxics, toxics...)
	for _, p := range l.proxies {
		for _, toxic := range toxics {
			_, err := p.Toxics.AddToxicJson(strings.NewReader(toxic))
			require.NoError(t, err)
		}
	}
}

// to returns the address at which the link forwards to upstream.
func (l *Link) to(t testing.TB, upstream string) string {
	t.Helper()
	addr, err := l.lead(upstream)
	require.NoError(t, err)
	return addr
}

func (l *Link) lead(upstream string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.proxies {
		if p.Upstream == upstream {
			return p.Listen, nil
		}
	}
	p := toxiproxy.NewProxy(l.server, l.String()+" at "+upstream, l.free(), upstream)
	if err := p.Start(); err != nil {
		return "", err
	}
	for _, toxic := range l.toxics {
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			return "", err
		}
	}
	l.proxies = append(l.proxies, p)
	if l.cut {
		p.Stop()
	}
	return p.Listen, nil
}

func (l *Link) close(t testing.TB) {
	l.Heal(t)
	for _, p := range l.proxies {
		p.Stop()
	}
}

// renameBrokers starts a proxy of the name server and returns its address. In each response it replaces the addresses
// of brokers by those of this link, since clients dial the brokers that the name server returns.
func (l *Link) renameBrokers(t testing.TB, nameServer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.standIn(ctx, down, nameServer) })
		}
	})
	return listener.Addr().String()
}

func (l *Link) standIn(ctx context.Context, down net.Conn, nameServer string) {
	defer down.Close()
	up, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", nameServer)
	if err != nil {
		return // the client sees its connection closed, as by a name server that is down
	}
	defer up.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = down.Close(), up.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(up, down)
		_, _ = down.Close(), up.Close()
	}()
	var size [4]byte
	for {
		if _, err := io.ReadFull(up, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(up, frame); err != nil {
			return
		}
		renamed, err := l.rename(frame)
		if err != nil {
			return
		}
		if _, err := down.Write(append(size[:], renamed...)); err != nil {
			return
		}
	}
}

var brokerAddress = regexp.MustCompile(`"127\.0\.0\.1:\d+"`)

// rename replaces broker addresses by others of the same length, since the frame also contains its length.
func (l *Link) rename(frame []byte) (renamed []byte, err error) {
	renamed = brokerAddress.ReplaceAllFunc(frame, func(quoted []byte) []byte {
		addr, e := l.lead(strings.Trim(string(quoted), `"`))
		if e == nil && len(addr)+2 != len(quoted) {
			e = fmt.Errorf("%s cannot replace %s: the lengths differ", addr, quoted)
		}
		err = errors.Join(err, e)
		return []byte(`"` + addr + `"`)
	})
	return renamed, err
}
