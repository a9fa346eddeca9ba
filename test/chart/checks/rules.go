package checks

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every pod passes the pod security standard "restricted", and stricter checks.
func podsAreRestricted(t *testing.T) {
	for name, r := range everyRendering() {
		for _, w := range workloads(r.objects(t)) {
			t.Run(name+" "+w.id(), func(t *testing.T) {
				permitted := []string{"name", "configMap", "emptyDir"}
				if name == "everything" || name == "secured" { // what the installation adds
					permitted = append(permitted, "secret", "projected")
				}
				require.Equal(t, false, at(w.spec, "automountServiceAccountToken"))
				require.Equal(t, false, at(w.spec, "enableServiceLinks"))
				for _, key := range []string{"hostNetwork", "hostPID", "hostIPC"} {
					require.Nil(t, at(w.spec, key))
				}
				pod := fields(w.spec, "securityContext")
				require.Equal(t, true, pod["runAsNonRoot"])
				require.Positive(t, pod["runAsUser"], "a number, as some images name their user")
				require.Equal(t, "RuntimeDefault", text(pod, "seccompProfile", "type"))
				for _, volume := range list(w.spec, "volumes") {
					for key := range volume.(map[string]any) {
						require.Contains(t, permitted, key)
					}
				}
				for _, c := range w.containers() {
					may := fields(c, "securityContext")
					require.Equal(t, false, may["allowPrivilegeEscalation"])
					require.Equal(t, true, may["readOnlyRootFilesystem"])
					require.Equal(t, []any{"ALL"}, at(may, "capabilities", "drop"))
					require.NotEmpty(t, at(c, "resources", "requests", "memory"))
					require.NotEmpty(t, at(c, "resources", "limits", "memory"))
					image := text(c, "image")
					require.Regexp(t, `:[^/]+$`, image, "an image has a tag")
					require.NotContains(t, image, ":latest")
				}
			})
		}
	}
}

// Every selector matches a workload, and every port that is referred to by name exists.
func selectorsAndPortsMatch(t *testing.T) {
	for name, r := range everyRendering() {
		t.Run(name, func(t *testing.T) {
			all := r.objects(t)
			pods := workloads(all)
			for _, o := range all {
				switch o.kind() {
				case "Service":
					chosen := choose(pods, fields(o, "spec", "selector"))
					require.Len(t, chosen, 1, "%s selects one workload", o.id())
					for _, p := range list(o, "spec", "ports") {
						require.Contains(t, portNames(chosen[0]), text(p, "targetPort"), o.id())
					}
				case "PodDisruptionBudget":
					require.Len(t, choose(pods, fields(o, "spec", "selector", "matchLabels")), 1, o.id())
				case "NetworkPolicy":
					if text(o, "metadata", "name") == "flashsale-egress" {
						continue
					}
					chosen := chooseBy(pods, fields(o, "spec", "podSelector"))
					require.NotEmpty(t, chosen, o.id())
					for _, rule := range list(o, "spec", "ingress") {
						for _, p := range list(rule, "ports") {
							require.Contains(t, ports(chosen[0]), fmt.Sprint(at(p, "port")), o.id())
						}
						for _, from := range list(rule, "from") {
							if s := fields(from, "podSelector"); s != nil {
								require.NotEmpty(t, chooseBy(pods, s), "%s allows no one", o.id())
							}
						}
					}
				case "HorizontalPodAutoscaler":
					d := pick(t, all, "Deployment/"+text(o, "spec", "scaleTargetRef", "name"))
					require.Nil(t, at(d, "spec", "replicas"), "an upgrade must not undo the autoscaler's decision")
				case "Deployment", "StatefulSet":
					selector := fields(o, "spec", "selector", "matchLabels")
					require.Len(t, choose(pods, selector), 1, "%s selects only its own pods", o.id())
					for key := range selector {
						require.NotContains(t, []string{"app.kubernetes.io/version", "helm.sh/chart"}, key,
							"a selector never changes")
					}
				}
			}
		})
	}
}

func choose(pods []workload, labels map[string]any) []workload {
	var chosen []workload
	for _, w := range pods {
		hit := len(labels) > 0
		for k, v := range labels {
			hit = hit && w.labels[k] == v
		}
		if hit {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// chooseBy supports matchExpressions with In as well.
func chooseBy(pods []workload, selector map[string]any) []workload {
	chosen := pods
	if labels := fields(selector, "matchLabels"); labels != nil {
		chosen = choose(pods, labels)
	}
	for _, e := range list(selector, "matchExpressions") {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(w workload) bool {
			return !slices.Contains(list(e, "values"), w.labels[text(e, "key")])
		})
	}
	return chosen
}

// ports returns the names and the numbers of the ports.
func ports(w workload) []string {
	all := portNames(w)
	for _, c := range w.containers() {
		for _, p := range list(c, "ports") {
			all = append(all, fmt.Sprint(at(p, "containerPort")))
		}
	}
	return all
}

func portNames(w workload) []string {
	var names []string
	for _, c := range w.containers() {
		for _, p := range list(c, "ports") {
			names = append(names, text(p, "name"))
		}
	}
	return names
}

var services = []string{"seckill", "order", "inventory"}

func deployment(t *testing.T, all []object, component string) workload {
	t.Helper()
	o := pick(t, all, "Deployment/flashsale-"+component)
	return workload{o, fields(o, "spec", "template", "metadata", "labels"), fields(o, "spec", "template", "spec")}
}

func probesUseTheAdminPortAndDrainingHasTime(t *testing.T) {
	all := production().objects(t)
	for _, name := range services {
		w := deployment(t, all, name)
		c := w.containers()[len(w.containers())-1]
		for probe, path := range map[string]string{
			"startupProbe": "/livez", "livenessProbe": "/livez",
			"readinessProbe": "/readyz",
		} {
			require.Equal(t, "admin", text(c, probe, "httpGet", "port"), name)
			require.Equal(t, path, text(c, probe, "httpGet", "path"), name)
		}
		pause, _ := at(c, "lifecycle", "preStop", "sleep", "seconds").(float64)
		grace, _ := at(w.spec, "terminationGracePeriodSeconds").(float64)
		require.Positive(t, pause)
		require.Equal(t, "20s", text(pick(t, all, "ConfigMap/flashsale-"+name), "data", "DRAIN_TIMEOUT"))
		require.Greater(t, grace, pause+20)
		require.EqualValues(t, 0, at(w.object, "spec", "strategy", "rollingUpdate", "maxUnavailable"))
		require.Nil(t, at(c, "resources", "limits", "cpu"), "a CPU limit delays the slowest responses")
		require.NotEmpty(t, list(w.spec, "topologySpreadConstraints"))
	}
}

// A service gets the secrets that it needs and no other; no ConfigMap holds a secret.
func eachServiceGetsOnlyItsSecrets(t *testing.T) {
	of := func(w workload) []string {
		var keys []string
		c := w.containers()[len(w.containers())-1]
		for _, e := range list(c, "env") {
			if s := fields(e, "valueFrom", "secretKeyRef"); s != nil {
				keys = append(keys, text(s, "name")+"/"+text(s, "key"))
			}
		}
		slices.Sort(keys)
		return keys
	}
	seen := func(all []object, component string) []string { return of(deployment(t, all, component)) }
	small := kind().objects(t)
	require.Equal(t, []string{
		"flashsale-secrets/AUTH_HS256_SECRET", "flashsale-secrets/INTERNAL_SECRET", "flashsale-secrets/PATH_SECRETS",
		"flashsale-secrets/SESSION_SECRET",
	}, seen(small, "seckill"))
	require.Equal(t, []string{
		"flashsale-contact-keys/CONTACT_KEYS", "flashsale-mysql/ORDER_PASSWORD", "flashsale-secrets/AUTH_HS256_SECRET",
		"flashsale-secrets/INTERNAL_SECRET", "flashsale-secrets/PAYMENTS_SANDBOX_SECRET",
		"flashsale-secrets/SESSION_SECRET",
	}, seen(small, "order"))
	require.Equal(t,
		[]string{
			"flashsale-mysql/INVENTORY_PASSWORD", "flashsale-secrets/AUTH_HS256_SECRET",
			"flashsale-secrets/INTERNAL_SECRET", "flashsale-secrets/SESSION_SECRET", "flashsale-webhook-keys/WEBHOOK_KEYS",
		},
		seen(small, "inventory"))
	large := production().objects(t)
	require.Equal(t, []string{
		"flashsale-oidc/OIDC_CLIENT_SECRET", "flashsale-secrets/INTERNAL_SECRET", "flashsale-secrets/PATH_SECRETS",
		"flashsale-secrets/SESSION_SECRET",
	}, seen(large, "seckill"))
	require.Equal(t, []string{
		"flashsale-secrets/INTERNAL_SECRET", "flashsale-secrets/PATH_SECRETS", "flashsale-secrets/SESSION_SECRET",
	},
		seen(production("oidc.existingSecret=").objects(t), "seckill"), "a public client has no secret")
	require.Equal(t, []string{
		"flashsale-mysql-dsn/ORDER_DSN", "flashsale-secrets/CONTACT_KEYS", "flashsale-secrets/INTERNAL_SECRET",
		"flashsale-secrets/SESSION_SECRET",
	}, seen(large, "order"))
	require.Equal(t, []string{
		"flashsale-mysql-dsn/ORDER_DSN", "flashsale-secrets/CONTACT_KEYS", "flashsale-secrets/INTERNAL_SECRET",
		"flashsale-secrets/PAYMENTS_SHOP_SECRET", "flashsale-secrets/SESSION_SECRET",
		"flashsale-stripe/PAYMENTS_STRIPE_KEY", "flashsale-stripe/PAYMENTS_STRIPE_WEBHOOK_SECRET",
	}, seen(withStripe().objects(t), "order"))
	redis := everyRendering()["redis behind sentinels"].objects(t)
	for _, name := range services {
		require.Subset(t, seen(redis, name), []string{
			"flashsale-redis/REDIS_SENTINEL_PASSWORD", "flashsale-redis-limits/LIMIT_REDIS_PASSWORD",
		}, name)
		require.Equal(t, name != "order", slices.Contains(seen(redis, name), "flashsale-redis/REDIS_PASSWORD"),
			"%s: order uses the Redis of the limits only", name)
	}
	rocketmq := everyRendering()["rocketmq users"].objects(t)
	for _, name := range services {
		require.Subset(t, seen(rocketmq, name), []string{
			"flashsale-rocketmq/" + strings.ToUpper(name) + "_ACCESS_KEY",
			"flashsale-rocketmq/" + strings.ToUpper(name) + "_SECRET_KEY",
		}, name)
	}
	require.Equal(t, []string{"flashsale-rocketmq/TOPICS_ACCESS_KEY", "flashsale-rocketmq/TOPICS_SECRET_KEY"},
		of(job(t, rocketmq, "topics")))
	for _, o := range large {
		require.NotEqual(t, "Secret", o.kind(), "existing ones are used")
	}
	for _, r := range everyRendering() {
		for _, o := range r.objects(t) {
			if o.kind() == "ConfigMap" {
				for key := range fields(o, "data") {
					if !strings.HasSuffix(key, "_FILE") { // a path
						require.NotRegexp(t, `SECRET|PASSWORD|DSN`, key, o.id())
					}
				}
			}
		}
	}
}

func generatedSecretsAreLongAndKept(t *testing.T) {
	all := kind().objects(t)
	for _, id := range []string{"Secret/flashsale-secrets", "Secret/flashsale-contact-keys", "Secret/flashsale-webhook-keys", "Secret/flashsale-mysql"} {
		s := pick(t, all, id)
		require.Equal(t, "keep", text(s, "metadata", "annotations", "helm.sh/resource-policy"))
		values := slices.Sorted(maps.Values(fieldTexts(s, "data")))
		require.Len(t, slices.Compact(slices.Clone(values)), len(values), "no value repeats")
		for _, v := range values {
			require.GreaterOrEqual(t, len(v), 40)
		}
	}
	once, err := base64.StdEncoding.DecodeString(text(pick(t, all, "Secret/flashsale-contact-keys"), "data",
		"CONTACT_KEYS"))
	require.NoError(t, err)
	key, err := base64.StdEncoding.DecodeString(string(once))
	require.NoError(t, err)
	require.Len(t, key, 32, "a key, in base64 as the service reads it")

	// Secrets that `helm template` generates again replace no pod.
	again := kind().objects(t)
	for _, w := range workloads(all) {
		require.Equal(t, w.spec, fields(map[string]any(pick(t, again, w.id())), specPath(w)...), w.id())
	}
}

func specPath(w workload) []string {
	if w.kind() == "Pod" {
		return []string{"spec"}
	}
	return []string{"spec", "template", "spec"}
}

func fieldTexts(v any, path ...string) map[string]string {
	out := map[string]string{}
	for k, x := range fields(v, path...) {
		out[k] = fmt.Sprint(x)
	}
	return out
}

// A Job is immutable: another image needs another Job. A change that does not affect its pod keeps the name.
func jobsHaveNewNamesWhenTheirPodsChange(t *testing.T) {
	jobs := func(set ...string) (names []string) {
		for _, o := range production(set...).objects(t) {
			if o.kind() == "Job" {
				names = append(names, o.name())
			}
		}
		slices.Sort(names)
		return names
	}
	first := jobs("image.tag=v1")
	require.Len(t, first, 3)
	require.Equal(t, first, jobs("image.tag=v1", "components.seckill.replicas=9", "drain.pauseSeconds=7"))
	for _, other := range [][]string{jobs("image.tag=v2"), jobs("image.tag=v1", "commonLabels.team=shop")} {
		for i := range first {
			require.NotEqual(t, first[i], other[i])
		}
	}
}

func changedSettingsReplaceThePodsThatReadThem(t *testing.T) {
	sums := func(set ...string) map[string]string {
		all := production(set...).objects(t)
		out := map[string]string{}
		for _, name := range append([]string{"edge"}, services...) {
			out[name] = text(deployment(t, all, name).object, "spec", "template", "metadata", "annotations",
				"checksum/settings")
			require.NotEmpty(t, out[name])
		}
		return out
	}
	before := sums()
	after := sums("components.order.env.CONSUMERS=8")
	require.NotEqual(t, before["order"], after["order"])
	require.Equal(t, before["seckill"], after["seckill"])
	require.NotEqual(t, before["edge"], sums("edge.limits.burst=7")["edge"])
}

// Network policies allow the internal listeners to the services that call them, and the admin ports to the configured
// pods alone.
func networkPolicies(t *testing.T) {
	render := func(set ...string) []object {
		return rendering{
			values: []string{"values-kind.yaml"}, set: append(set, "networkPolicy.enabled=true"),
		}.objects(t)
	}
	reaches := func(all []object, from, to, port string) bool {
		var target, caller workload
		for _, w := range workloads(all) {
			if w.component() == to {
				target = w
			}
			if w.component() == from {
				caller = w
			}
		}
		require.NotNil(t, target.spec, to)
		held := false
		for _, o := range all {
			if o.kind() != "NetworkPolicy" ||
				len(chooseBy([]workload{target}, fields(o, "spec", "podSelector"))) == 0 {
				continue
			}
			held = true
			for _, rule := range list(o, "spec", "ingress") {
				named := slices.ContainsFunc(list(rule, "ports"), func(p any) bool { return text(p, "port") == port })
				from := list(rule, "from")
				known := from == nil || caller.spec != nil && slices.ContainsFunc(from, func(f any) bool {
					return len(chooseBy([]workload{caller}, fields(f, "podSelector"))) > 0
				})
				if named && known {
					return true
				}
			}
		}
		return !held
	}
	all := render()
	for _, c := range []struct {
		from, to, port string
		want           bool
	}{
		{"edge", "seckill", "http", true},
		{"edge", "order", "http", true},
		{"edge", "inventory", "http", true},
		{"edge", "order", "internal", false},
		{"edge", "seckill", "admin", false},
		{"seckill", "order", "http", false},
		{"seckill", "order", "internal", false},
		{"inventory", "order", "internal", true},
		{"seckill", "inventory", "internal", true},
		{"order", "inventory", "internal", true},
		{"inventory", "inventory", "internal", false},
		{"edge", "inventory", "internal", false},
		{"stranger", "inventory", "internal", false},
		{"order", "inventory", "http", false},
		{"stranger", "seckill", "http", false},
		{"stranger", "edge", "http", true},
		{"stranger", "edge", "health", false},
		{"stranger", "topics", "http", false},
	} {
		require.Equal(t, c.want, reaches(all, c.from, c.to, c.port), "%s to %s of %s", c.from, c.port, c.to)
	}
	bare := render("edge.enabled=false")
	require.True(t, reaches(bare, "stranger", "seckill", "http"), "without the edge, any pod may replace it")
	require.False(t, reaches(bare, "stranger", "order", "internal"))
	require.False(t, reaches(bare, "stranger", "seckill", "admin"))
}

func largeNumbersStayWhole(t *testing.T) {
	all := production("edge.connections=1000000", "edge.limits.burst=1000000", "edge.limits.requestsPerSecond=1000000",
		"components.seckill.env.PATH_RATE=1000000").objects(t)
	conf := text(pick(t, all, "ConfigMap/flashsale-edge"), "data", "nginx.conf")
	require.Contains(t, conf, "worker_connections 1000000;")
	require.Contains(t, conf, "rate=1000000r/s;")
	require.Contains(t, conf, "burst=1000000 nodelay;")
	require.Contains(t, environment(t, all, "seckill"), "PATH_RATE=1000000")
}

func theEdgeHasNoInternalRoutes(t *testing.T) {
	for _, r := range []rendering{kind(), production()} {
		conf := text(pick(t, r.objects(t), "ConfigMap/flashsale-edge"), "data", "nginx.conf")
		for _, port := range []string{"7082", "7083", "9081", "9082", "9083"} {
			require.NotContains(t, conf, port)
		}
		require.Contains(t, conf, "location ~ ^/(internal|livez|readyz|metrics|debug)(/|$) {")
		require.NotRegexp(t, `error_log .* (error|warn|notice|info|debug);`, conf, "these levels log URLs")
		require.NotRegexp(t, `log_format [^;]*\$(request|uri|request_uri|args|http_referer)\b`, conf)
		require.Equal(t, strings.Count(conf, "{"), strings.Count(conf, "}"))
		// A file makes the edge close its connections; a restarted container must not find it.
		require.Contains(t, conf, `if (-f "/tmp/leaving") { set $leaving close; }`)
		nginx := deployment(t, r.objects(t), "edge").containers()[0]
		require.Equal(t, []any{"sh", "/etc/nginx/flashsale/leave"},
			list(nginx, "lifecycle", "preStop", "exec", "command"))
		leave := text(pick(t, r.objects(t), "ConfigMap/flashsale-edge"), "data", "leave")
		require.Contains(t, leave, ": >/tmp/leaving\nsleep 5\n")
		require.Contains(t, leave, `[ "$seconds" -lt 65 ] && connected`)
		require.Contains(t, leave, `kill -QUIT "$(cat /tmp/nginx.pid)"`,
			"an uninstall deletes the configuration first")
		require.Greater(t, at(deployment(t, r.objects(t), "edge").spec, "terminationGracePeriodSeconds"), 5.0+65+15,
			"nginx gives requests in flight 15 s")
		require.Contains(t, leave, "/proc/net/tcp6")
		require.Equal(t, []any{"sh", "/etc/nginx/flashsale/start"}, list(nginx, "command"))
		require.Contains(t, text(pick(t, r.objects(t), "ConfigMap/flashsale-edge"), "data", "start"),
			"\nrm -f /tmp/leaving /tmp/renewing\n")
	}
}

// Names are valid for any name of the release, and two releases share no object.
func namesFit(t *testing.T) {
	r := kind()
	r.release = "a-very-long-name-of-a-release-as-helm-lets-it-be-5353"
	names := map[string]bool{}
	for _, o := range r.objects(t) {
		require.LessOrEqual(t, len(o.name()), 63, o.id())
		require.Regexp(t, `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, o.name())
		names[o.id()] = true
	}
	r.release = "other"
	for _, o := range r.objects(t) {
		require.False(t, names[o.id()], o.id())
	}
}

func everyObjectHasLabels(t *testing.T) {
	for _, o := range production("commonLabels.team=shop").objects(t) {
		labels := fields(o, "metadata", "labels")
		for _, key := range []string{"name", "instance", "component", "part-of", "version", "managed-by"} {
			require.NotEmpty(t, labels["app.kubernetes.io/"+key], o.id())
		}
		require.Equal(t, "shop", labels["team"], o.id())
	}
}

// Clients reach the broker through a Service, so that they find it after a restart, and it supports delayed messages.
func theBundledBroker(t *testing.T) {
	all := kind().objects(t)
	conf := text(pick(t, all, "ConfigMap/flashsale-broker"), "data", "broker.conf")
	require.Contains(t, conf, "\nbrokerIP1=flashsale-broker\n")
	require.Contains(t, conf, "\ntimerWheelEnable=true\n")
	pick(t, all, "Service/flashsale-broker")
	for _, line := range strings.Split(conf, "\n") {
		if !strings.HasPrefix(line, "#") {
			require.NotContains(t, line, "#", "a comment would become part of the value")
		}
	}
	for _, id := range []string{
		"StatefulSet/flashsale-broker", "StatefulSet/flashsale-redis",
		"StatefulSet/flashsale-mysql",
	} {
		require.NotEmpty(t, list(pick(t, all, id), "spec", "volumeClaimTemplates"))
	}
}
