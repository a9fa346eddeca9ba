package httpfield

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHops bounds how many entries of X-Forwarded-For are looked at, from the right.
const maxHops = 32

// ClientIP is the address that a request comes from, as far as it is known for certain: that of the connection, or, behind
// trusted proxies, the rightmost entry of X-Forwarded-For that no trusted proxy has. Entries left of it may be anything the
// client likes to write; Forwarded, X-Real-IP and the like are not looked at.
func ClientIP(r *http.Request, trusted []netip.Prefix) (netip.Addr, bool) {
	at, ok := parseAddr(r.RemoteAddr)
	if !ok || !within(at, trusted) {
		return at, ok
	}
	hops := 0
	fields := r.Header.Values("X-Forwarded-For")
	for i := len(fields) - 1; i >= 0; i-- {
		for rest := fields[i]; rest != ""; hops++ {
			var hop string
			if cut := strings.LastIndexByte(rest, ','); cut >= 0 {
				hop, rest = rest[cut+1:], rest[:cut]
			} else {
				hop, rest = rest, ""
			}
			next, ok := parseAddr(strings.TrimSpace(hop))
			if !ok || hops >= maxHops {
				return at, true // the last that somebody trusted has seen
			}
			if at = next; !within(at, trusted) {
				return at, true
			}
		}
	}
	return at, true
}

// Subject is the part of an address that one customer has: all of an IPv4 address, the /64 of an IPv6 address, in which
// everybody can take as many addresses as he likes.
func Subject(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a.String()
	}
	return p.String()
}

// parseAddr reads an address with or without a port. One of IPv4 in IPv6 is IPv4; zones are left out.
func parseAddr(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap().WithZone(""), true
}

func within(a netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
