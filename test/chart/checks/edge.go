package checks

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig/nginx"
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

// The real nginx accepts each rendering.
func nginxAcceptsTheEdge(t *testing.T) {
	all := everyRendering()
	all["behind proxies"] = production("edge.trustedProxies={10.0.0.0/8,::1}")
	all["pages without limits"] = production("edge.limits.pages.requestsPerSecond=0", "edge.limits.pages.connections=0")
	all["with TLS"] = production("edge.tls.secretName=shop")
	all["only pages with limits"] = production("edge.limits.requestsPerSecond=0", "edge.limits.connections=0")
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, r, "127.0.0.1:8081")
			out, err := nginx.Command("nginx", "-t", "-q", "-e", "/dev/stderr", "-p", dir,
				"-c", filepath.Join(dir, "nginx.conf")).CombinedOutput()
			require.NoError(t, err, "run make deps, if nginx is missing: %s", out)
			require.Empty(t, nginx.Unexpected(string(out)), "no warning")
		})
	}
}

// theEdgeSpeaksTLSWithACertificate checks that a Secret adds a listener, a port and a volume, and that its absence adds
// nothing.
func theEdgeSpeaksTLSWithACertificate(t *testing.T) {
	ports := func(r rendering) (container, service []any) {
		return list(deployment(t, r.objects(t), "edge").containers()[0], "ports"),
			list(pick(t, r.objects(t), "Service/flashsale-edge"), "spec", "ports")
	}
	plain := production()
	container, service := ports(plain)
	require.Len(t, container, 2)
	require.Len(t, service, 1)
	require.NotContains(t, edgeConf(t, plain), "ssl http2")
	require.NotContains(t, fields(pick(t, plain.objects(t), "ConfigMap/flashsale-edge"), "data"), "renew")

	secure := production("edge.tls.secretName=shop", "edge.tls.port=8443")
	container, service = ports(secure)
	require.Contains(t, container, map[string]any{"name": "https", "containerPort": 8443.0})
	require.Contains(t, service, map[string]any{
		"name": "https", "port": 8443.0, "targetPort": "https", "appProtocol": "https",
	})
	conf := edgeConf(t, secure)
	require.Contains(t, conf, "listen 8443 ssl http2 default_server reuseport backlog=16384;")
	require.Contains(t, conf, "listen [::]:8443 ssl http2 default_server reuseport backlog=16384;")
	require.Contains(t, conf, `ssl_certificate "/etc/nginx/tls/tls.crt";`)
	edge := deployment(t, secure.objects(t), "edge")
	require.Contains(t, list(edge.containers()[0], "volumeMounts"),
		map[string]any{"name": "certificate", "mountPath": "/etc/nginx/tls", "readOnly": true})
	require.Contains(t, list(edge.spec, "volumes"),
		map[string]any{"name": "certificate", "secret": map[string]any{"secretName": "shop", "defaultMode": 288.0}})
	policy := pick(t, secure.objects(t), "NetworkPolicy/flashsale-edge")
	require.Equal(t, []any{map[string]any{"port": "http"}, map[string]any{"port": "https"}},
		list(list(policy, "spec", "ingress")[0], "ports"))
	require.Contains(t, text(pick(t, secure.objects(t), "ConfigMap/flashsale-edge"), "data", "leave"), "*:20FB/01",
		"the preStop hook waits for connections with TLS too")
	require.Contains(t, production("edge.tls.secretName=shop", "edge.tls.port=80").refused(t),
		"edge.tls.port and edge.service.port are the same.")
	require.Contains(t, production("edge.tls.secretName=Not_A_Name").refused(t), "secretName")
	edgeTakesMemory(t)
}

// edgeTakesMemory checks that connections with TLS fit into the memory limit: 20 KiB each.
func edgeTakesMemory(t *testing.T) {
	tls := func(set ...string) rendering { return production(append(set, "edge.tls.secretName=shop")...) }
	tls("edge.connections=6553").text(t)
	require.Contains(t, tls("edge.connections=6580").refused(t), "edge.connections: 4 workers with 6580 connections take "+
		"514Mi with TLS, 20 KiB each, which is above edge.resources.limits.memory (512Mi). Lower edge.connections, or raise the limit.")
	tls("edge.connections=6580", "edge.resources.limits.memory=1Gi").text(t)
	require.Contains(t, tls("edge.resources.limits.memory=512M").refused(t),
		"edge.resources.limits.memory: 512M must be whole Mi or Gi with edge.tls.secretName")
	production("edge.connections=6580", "edge.resources.limits.memory=512M").text(t)
	rendering{values: []string{"values-kind.yaml"}, set: []string{"edge.tls.secretName=shop"}}.text(t)
}

// anHTTP2ConnectionFitsIntoTheLimits checks that limit_conn, which counts each stream, refuses no single connection.
func anHTTP2ConnectionFitsIntoTheLimits(t *testing.T) {
	for set, streams := range map[string]string{
		"edge.limits.burst=9": "100", "edge.limits.connections=0": "100", "edge.limits.connections=20": "19",
		"edge.limits.pages.connections=50": "49", "edge.limits.connections=1": "1",
	} {
		require.Contains(t, edgeConf(t, production("edge.tls.secretName=shop", set)),
			"http2_max_concurrent_streams "+streams+";", set)
	}
}

// theEdgeScales checks that the autoscaler has the Deployment's pods, and that the other object for several pods stays.
func theEdgeScales(t *testing.T) {
	all := production().objects(t)
	require.EqualValues(t, 12, at(pick(t, all, "HorizontalPodAutoscaler/flashsale-edge"), "spec", "maxReplicas"))
	require.Nil(t, at(pick(t, all, "Deployment/flashsale-edge"), "spec", "replicas"))
	pick(t, all, "PodDisruptionBudget/flashsale-edge")
	require.EqualValues(t, 2, at(pick(t, production("edge.autoscaling=null").objects(t), "Deployment/flashsale-edge"),
		"spec", "replicas"), "the values of an earlier release")
}

// callersKeepTheirAddresses checks that an edge whose callers would all have one address is refused while it has limits.
func callersKeepTheirAddresses(t *testing.T) {
	none := []string{
		"edge.limits.requestsPerSecond=0", "edge.limits.connections=0", "edge.limits.pages.requestsPerSecond=0",
		"edge.limits.pages.connections=0",
	}
	for _, set := range [][]string{
		{"ingress.enabled=true", "ingress.host=shop.example.com"},
		{"edge.service.externalTrafficPolicy=Cluster"},
		{"edge.service.externalTrafficPolicy=Cluster", "edge.service.type=NodePort"},
	} {
		for i := range none {
			limits := slices.Delete(slices.Clone(none), i, i+1)
			require.Contains(t, production(append(limits, set...)...).refused(t), "edge.trustedProxies", "%v %v", set, none[i])
		}
		production(append(none, set...)...).text(t)
		production(append(set, "edge.trustedProxies={10.0.0.0/8}")...).text(t)
	}
	production("edge.service.externalTrafficPolicy=Cluster", "edge.service.type=ClusterIP").text(t)
}

// theEdgeHasDescriptors checks that a worker may open as many files as it may hold connections, and more.
func theEdgeHasDescriptors(t *testing.T) {
	conf := edgeConf(t, production("edge.connections=10000"))
	require.Contains(t, conf, "worker_connections 10000;")
	require.Contains(t, conf, "worker_rlimit_nofile 10512;")
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
		"= /v1/activities", `~ ^/(assets/[A-Za-z0-9._/-]+|favicon\.svg|v1/config)$`, `~ ^/(orders|(sales|orders)/[^/]+)?$`,
		"~ ^/v1/activities/[0-9]+$", "~ ^/v1/activities/[0-9]+/room/tickets$",
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
	require.Contains(t, conf, "zone=api_rate:10m rate=50r/s;")
	require.Contains(t, conf, "zone=pages_rate:10m rate=5000r/s;")
	for condition, body := range locations(t, conf) {
		switch {
		case !strings.Contains(body, "proxy_pass") || strings.Contains(condition, "/callbacks/"):
			require.NotContains(t, body, "limit_req", condition)
		case strings.Contains(body, "proxy_cache ") || strings.Contains(condition, "/auth/") ||
			condition == "= /v1/time" || condition == "~ ^/console(/|$)":
			require.Contains(t, body, "limit_req zone=pages_rate burst=10000 nodelay;", condition)
			require.Contains(t, body, "limit_conn pages_connections 5000;", condition)
		default:
			require.Contains(t, body, "limit_req zone=api_rate burst=200 nodelay;", condition)
			require.Contains(t, body, "limit_conn api_connections 500;", condition)
		}
	}
}
