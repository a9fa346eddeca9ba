package rig

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// Proxy forwards connections to one server, which may be replaced by another one.
type Proxy struct {
	Addr string

	proxy *toxiproxy.Proxy
}

// Forward starts a proxy that runs until the test ends.
func Forward(t testing.TB, server string) *Proxy {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxiproxy also logs to the global logger
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	addr := porttest.Free(t)
	p := &Proxy{Addr: addr, proxy: toxiproxy.NewProxy(api, addr, addr, server)}
	require.NoError(t, p.proxy.Start())
	t.Cleanup(p.proxy.Stop)
	return p
}

// Delay delays what the server sends.
func (p *Proxy) Delay(t testing.TB, by time.Duration) {
	t.Helper()
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(
		`{"type":"latency","stream":"downstream","attributes":{"latency":` + strconv.FormatInt(by.Milliseconds(), 10) + `}}`))
	require.NoError(t, err)
}

// Cut closes all connections and refuses new ones. Delayed bytes are lost.
func (p *Proxy) Cut() { p.proxy.Stop() }

// PointTo closes all connections and forwards new ones to another server.
func (p *Proxy) PointTo(t testing.TB, server string) {
	t.Helper()
	p.proxy.Stop()
	p.proxy.Upstream = server
	require.NoError(t, p.proxy.Start())
}
