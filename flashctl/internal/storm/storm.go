// Package storm opens very many connections at once, as the buyers of a sale do at its start. Each connection sends one
// path request. Further connections read slowly or send no whole request. Several processes share the connections.
package storm

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Bounds of a plan, for all processes together.
const (
	MaxConnections = 100_000 // of all kinds
	MaxProcesses   = 16
	MaxSources     = 200
	maxPerSource   = 25_000 // Linux has some 28,000 ports for the connections of an address
	maxWithin      = time.Minute
	maxWait        = 5 * time.Minute
)

// Plan describes a storm, or the part of it that one process runs.
type Plan struct {
	Target     string   `json:"target"` // http or https, host and port
	CA         []byte   `json:"ca"`     // certificates that TLS accepts, PEM; nil means those of the system
	Insecure   bool     `json:"insecure"`
	ActivityID string   `json:"activity_id"`
	Tokens     []string `json:"tokens"`  // one connection with one path request for each
	Sources    int      `json:"sources"` // source addresses from 127.0.0.2; 0 means that the system chooses
	// Within is the time in which all connections are begun, at equal intervals.
	Within time.Duration `json:"within"`
	// Patience bounds the time from the begin of a connection to its response.
	Patience time.Duration `json:"patience"`
	// Returning is the percentage of connections that present a TLS session from before the storm.
	Returning int `json:"returning"`
	// KeepOpen keeps each connection open until the last response, as browsers do.
	KeepOpen bool `json:"keep_open"`
	// Slow connections send many requests and read one byte a second. HalfOpen ones send nothing, or half a request.
	Slow     int `json:"slow"`
	HalfOpen int `json:"half_open"`
	// Watch is the time for which slow and half-open connections stay open, unless the server ends them.
	Watch time.Duration `json:"watch"`
}

// Connections returns the number of connections of all kinds.
func (p *Plan) Connections() int { return len(p.Tokens) + p.Slow + p.HalfOpen }

// Check returns an error that names the first wrong field.
func (p *Plan) Check() error {
	u, err := url.Parse(p.Target)
	if err != nil || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("target %q is not an address such as https://127.0.0.1:8490", p.Target)
	}
	switch n := p.Connections(); {
	case len(p.Tokens) < 1 || p.Slow < 0 || p.HalfOpen < 0 || n > MaxConnections:
		return fmt.Errorf("%d connections, %d slow, %d half-open: at least one, and at most %d in all",
			len(p.Tokens), p.Slow, p.HalfOpen, MaxConnections)
	case p.Sources < 0 || p.Sources > MaxSources:
		return fmt.Errorf("%d source addresses: at most %d", p.Sources, MaxSources)
	case n > maxPerSource*max(p.Sources, 1):
		return fmt.Errorf("%d connections from %d source addresses: at most %d from each", n, max(p.Sources, 1), maxPerSource)
	case p.Within < 0 || p.Within > maxWithin:
		return fmt.Errorf("connections within %s: at most %s", p.Within, maxWithin)
	case p.Patience <= 0 || p.Patience > maxWait || p.Watch < 0 || p.Watch > maxWait:
		return fmt.Errorf("patience %s, watch %s: at most %s", p.Patience, p.Watch, maxWait)
	case p.Returning < 0 || p.Returning > 100:
		return fmt.Errorf("%d percent of returning connections", p.Returning)
	case p.Sources > 0 && !loopback(u.Hostname()):
		return fmt.Errorf("source addresses of this machine do not reach %s", u.Hostname())
	}
	return nil
}

// Local reports whether the target is an address of this machine.
func (p *Plan) Local() bool {
	u, err := url.Parse(p.Target)
	return err == nil && loopback(u.Hostname())
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// tlsConfig returns nil for a target without TLS.
func (p *Plan) tlsConfig(u *url.URL) (*tls.Config, error) {
	if u.Scheme != "https" {
		return nil, nil //nolint:nilnil // without TLS there is no configuration
	}
	config := &tls.Config{
		ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: p.Insecure, //nolint:gosec // a flag, for a certificate made on this machine
	}
	if len(p.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(p.CA) {
			return nil, errors.New("the CA file holds no certificate")
		}
	}
	return config, nil
}

// split returns one plan for each of n processes.
func (p *Plan) split(n int) []Plan {
	parts := make([]Plan, n)
	for k := range parts {
		parts[k] = *p
		parts[k].Tokens = nil
		for i := k; i < len(p.Tokens); i += n {
			parts[k].Tokens = append(parts[k].Tokens, p.Tokens[i])
		}
		parts[k].Slow, parts[k].HalfOpen = share(p.Slow, k, n), share(p.HalfOpen, k, n)
	}
	return parts
}

// share returns the k-th of n nearly equal parts of total.
func share(total, k, n int) int { return total*(k+1)/n - total*k/n }
