package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errNotAdmitted reports an address that is neither public nor in WEBHOOK_NETWORKS.
var errNotAdmitted = errors.New("the address of the host is not public")

// NewClient returns the client of the senders. It connects to public addresses and to those of the networks, which it
// checks at each connection: a name that has got another address is refused too. It follows no redirect and uses no
// proxy. roots are the authorities, nil for those of the system.
func NewClient(networks []netip.Prefix, roots *x509.CertPool) *http.Client {
	dialer := net.Dialer{
		Timeout: 5 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !admitted(at.Addr(), networks) {
				return errNotAdmitted
			}
			return nil
		},
	}
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: sendsAtOnce,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

var (
	translated = netip.MustParsePrefix("64:ff9b::/96") // NAT64: the last four bytes are the address
	// No network admits these: link-local and other addresses of the metadata of clouds, unspecified and multicast.
	never = prefixes("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32", "168.63.129.16/32",
		"192.0.0.192/32", "0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8",
		"255.255.255.255/32")
	// Not public, by the registries of special addresses of IANA. Of IPv6 only 2000::/3 is public.
	special = prefixes("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
	publicIPv6 = netip.MustParsePrefix("2000::/3")
)

// admitted reports whether senders may connect to an address.
func admitted(a netip.Addr, networks []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	if translated.Contains(a) {
		all := a.As16()
		a = netip.AddrFrom4([4]byte(all[12:]))
	}
	if within(a, never) {
		return false
	}
	return within(a, networks) || !within(a, special) && (a.Is4() || publicIPv6.Contains(a))
}

func within(a netip.Addr, networks []netip.Prefix) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}
