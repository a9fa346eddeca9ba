package httpfield

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHops bounds the number of X-Forwarded-For entries that are read, from the right.
const maxHops = 32

// ClientIP returns the address of the client as far as it is certain: the address of the connection or, behind trusted
// proxies, the rightmost entry of X-Forwarded-For that is not a trusted proxy. Clients can forge the entries to its
// left. Forwarded, X-Real-IP and similar fields are ignored.
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
				return at, true // the last address reported by a trusted proxy
			}
			if at = next; !within(at, trusted) {
				return at, true
			}
		}
	}
	return at, true
}

// Subject returns the part of an address that identifies one customer: all of an IPv4 address, and the /64 of an IPv6
// address, because a customer can use any address in it.
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

// parseAddr parses an address with or without a port. It converts IPv4 in IPv6 to IPv4 and drops zones.
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
