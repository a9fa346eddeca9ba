package settings

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// listeners lists the variables with addresses of listeners.
var listeners = []string{"HTTP_ADDR", "INTERNAL_ADDR", "ADMIN_ADDR"}

// resolveTimeout bounds the lookup of a host name in an address.
const resolveTimeout = 2 * time.Second

// checkExposed refuses a listener that other machines can reach if APP_ENV is not set: the secrets may then be those
// in the code. It includes the admin listener, which needs no secret at all.
func checkExposed(dst any) error {
	if environment(dst) != "" {
		return nil
	}
	if open := exposed(dst); len(open) > 0 {
		return Wrong("APP_ENV", "must be set to %s, or to %s, to listen beyond loopback, as %s does",
			Production, Development, open[0])
	}
	return nil
}

// exposed returns the listeners of v that other machines can reach, as VARIABLE=address.
func exposed(v any) []string {
	var open []string
	value := reflect.Indirect(reflect.ValueOf(v))
	for _, l := range leaves(value.Type()) {
		if !slices.Contains(listeners, l.key) {
			continue
		}
		if addr := value.FieldByIndex(l.index).String(); !loopback(addr) {
			open = append(open, l.key+"="+addr)
		}
	}
	return open
}

// loopback reports whether only this machine can reach a listener on addr. For a host name, all of its addresses must
// be loopback; a name that cannot be resolved is not.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	reachable := func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() }
	return err == nil && len(ips) > 0 && !slices.ContainsFunc(ips, reachable)
}

// environment returns the APP_ENV of v, "" if it is not set.
func environment(v any) string {
	value := reflect.Indirect(reflect.ValueOf(v))
	for _, l := range leaves(value.Type()) {
		if l.key == "APP_ENV" {
			return value.FieldByIndex(l.index).String()
		}
	}
	return ""
}

// LogAtStart logs the settings without their secrets. It logs a warning if other machines can reach a listener with
// development settings.
func LogAtStart(ctx context.Context, log *slog.Logger, cfg any) {
	log.LogAttrs(ctx, slog.LevelInfo, "settings", Describe(cfg)...)
	if environment(cfg) == Production {
		return
	}
	if open := exposed(cfg); len(open) > 0 {
		log.WarnContext(ctx, "other machines can reach a service with APP_ENV=development, "+
			"whose secrets and tokens may be public", "listeners", strings.Join(open, ","))
	}
}
