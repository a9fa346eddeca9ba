package checks

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// edgeConf returns the nginx.conf of a rendering.
func edgeConf(t *testing.T, r rendering) string {
	t.Helper()
	return text(pick(t, r.objects(t), "ConfigMap/flashsale-edge"), "data", "nginx.conf")
}

// locations returns the bodies of the locations of the public listener, by their conditions.
func locations(t *testing.T, conf string) map[string]string {
	t.Helper()
	_, public, ok := strings.Cut(conf, "default_server")
	require.True(t, ok)
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^        location ([^\n]+) \{\n((?:            .*\n)*)        \}$`).
		FindAllStringSubmatch(public, -1) {
		found[m[1]] = m[2]
	}
	require.Len(t, found, strings.Count(public, "location "), "each location is found")
	return found
}

var upstream = regexp.MustCompile(`flashsale-[a-z]+(:[0-9]+)`)

// The real nginx accepts each rendering. It resolves the names of upstreams, so they are replaced by an address.
func nginxAcceptsTheEdge(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx = "/usr/sbin/nginx" // where Debian puts it
	}
	all := everyRendering()
	all["behind proxies"] = production("edge.trustedProxies={10.0.0.0/8,::1}")
	all["pages without limits"] = production("edge.limits.pages.requestsPerSecond=0", "edge.limits.pages.connections=0")
	all["only pages with limits"] = production("edge.limits.requestsPerSecond=0", "edge.limits.connections=0")
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conf := upstream.ReplaceAllString(edgeConf(t, r), "127.0.0.1$1")
			file := filepath.Join(dir, "nginx.conf")
			require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(conf, `"/tmp/`, `"`+dir+"/")), 0o600))
			out, err := exec.Command(nginx, "-t", "-q", "-e", "/dev/stderr", "-p", dir, "-c", file).CombinedOutput()
			require.NoError(t, err, "run make deps, if nginx is missing: %s", out)
			require.Empty(t, string(out), "no warning")
		})
	}
}

// theEdgeCachesOnlyWhatIsTheSameForAll checks that nothing of one caller reaches the cache, nor its key. test/edge
// checks the behaviour.
func theEdgeCachesOnlyWhatIsTheSameForAll(t *testing.T) {
	cached := map[string]string{}
	for condition, body := range locations(t, edgeConf(t, production())) {
		if strings.Contains(body, "proxy_cache ") {
			cached[condition] = body
		}
	}
	require.Equal(t, []string{
		"= /v1/activities", `~ ^/((sales|orders)(/[^/]*)?)?$`, `~ ^/(assets/[A-Za-z0-9._/-]+|favicon\.svg|v1/config)$`,
		"~ ^/v1/activities/[0-9]+$",
	}, slices.Sorted(maps.Keys(cached)))
	for condition, body := range cached {
		for _, line := range []string{
			"proxy_pass_request_headers off;", "proxy_set_header Host $proxy_host;", "proxy_hide_header Set-Cookie;",
			"proxy_hide_header traceparent;", "proxy_ignore_headers Vary", "proxy_cache_lock on;",
			"proxy_cache_use_stale updating",
		} {
			require.Contains(t, body, line, condition)
		}
		require.NotRegexp(t, `proxy_cache_key .*\$(http_|cookie_|host|remote)`, body, condition)
	}
}

func pagesHaveLimitsOfTheirOwn(t *testing.T) {
	require.NotContains(t, edgeConf(t, kind()), "limit_req")
	require.NotContains(t, edgeConf(t, kind()), "limit_conn")
	conf := edgeConf(t, production())
	require.Contains(t, conf, "zone=api_rate:10m rate=20r/s;")
	require.Contains(t, conf, "zone=pages_rate:10m rate=5000r/s;")
	for condition, body := range locations(t, conf) {
		switch {
		case !strings.Contains(body, "proxy_pass"):
			require.NotContains(t, body, "limit_req", condition)
		case strings.Contains(body, "proxy_cache ") || strings.Contains(condition, "/auth/") ||
			condition == "= /v1/time" || condition == "~ ^/console(/|$)":
			require.Contains(t, body, "limit_req zone=pages_rate burst=10000 nodelay;", condition)
			require.Contains(t, body, "limit_conn pages_connections 5000;", condition)
		default:
			require.Contains(t, body, "limit_req zone=api_rate burst=40 nodelay;", condition)
			require.Contains(t, body, "limit_conn api_connections 20;", condition)
		}
	}
}
