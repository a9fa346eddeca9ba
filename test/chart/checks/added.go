package checks

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything returns production with all that an installation may add to pods.
func everything(set ...string) rendering {
	r := production(set...)
	r.values = append(r.values, filepath.Join(tools.root, "test/chart/testdata/everything.yaml"))
	return r
}

// values returns the given field of each entry of a list.
func values(entries []any, field string) []string {
	var found []string
	for _, e := range entries {
		found = append(found, text(e, field))
	}
	return found
}

// entry returns the entry of a list with that name.
func entry(t *testing.T, entries []any, name string) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, e := range entries {
		if text(e, "name") == name {
			found = append(found, e.(map[string]any))
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

// job returns the Job of a component, whose name ends with a checksum.
func job(t *testing.T, all []object, component string) workload {
	t.Helper()
	for _, w := range workloads(all) {
		if w.kind() == "Job" && w.component() == component {
			return w
		}
	}
	t.Fatalf("no Job of %s", component)
	return workload{}
}

// Sidecars start before the container that waits for the database, since the way to it may lead through one. As init
// containers that restart, they do not keep a Job from its end.
func sidecarsStartFirst(t *testing.T) {
	all := everything().objects(t)
	for _, c := range []struct {
		w    workload
		want []string
	}{
		{deployment(t, all, "seckill"), []string{"tunnel", "seckill"}},
		{deployment(t, all, "order"), []string{"sql-proxy", "tunnel", "migrations", "order"}},
		{deployment(t, all, "inventory"), []string{"sql-proxy", "tunnel", "migrations", "inventory"}},
		{job(t, all, "order-migrate"), []string{"sql-proxy", "tunnel", "migrate"}},
		{job(t, all, "inventory-migrate"), []string{"sql-proxy", "tunnel", "migrate"}},
		{job(t, all, "topics"), []string{"tunnel", "topics"}},
	} {
		var names []string
		for _, container := range c.w.containers() {
			names = append(names, text(container, "name"))
			switch text(container, "name") {
			case "tunnel", "sql-proxy":
				require.Equal(t, "Always", container["restartPolicy"], c.w.id())
			default:
				require.Nil(t, container["restartPolicy"], c.w.id())
			}
		}
		require.Equal(t, c.want, names, c.w.id())
		require.Len(t, list(c.w.spec, "containers"), 1, c.w.id())
	}
	proxy := entry(t, list(deployment(t, all, "order").spec, "initContainers"), "sql-proxy")
	require.Equal(t, map[string]any{
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsUser": 1000650000.0,
		"capabilities": map[string]any{"drop": []any{"ALL"}},
	}, proxy["securityContext"], "restricted, with the user of its own")
	without := deployment(t, everything("migrations.enabled=false").objects(t), "order")
	require.Equal(t, []string{"sql-proxy", "tunnel"}, values(list(without.spec, "initContainers"), "name"))
}

// The container of a service, the one that waits for its migrations, and the Job that migrates have the same way to the
// database.
func addedVariablesAndVolumes(t *testing.T) {
	all := everything().objects(t)
	order := deployment(t, all, "order")
	migrate := job(t, all, "order-migrate")
	for id, c := range map[string]map[string]any{
		"order": order.containers()[3], "migrations": order.containers()[2], "migrate": migrate.containers()[2],
	} {
		env := list(c, "env")
		require.Equal(t, "/run/mysql/dsn", entry(t, env, "MYSQL_DSN_FILE")["value"], id)
		require.NotContains(t, values(env, "name"), "MYSQL_DSN", id)
		mounts := values(list(c, "volumeMounts"), "mountPath")
		require.Subset(t, mounts, []string{"/run/mysql", "/run/flashsale", "/etc/flashsale/ca"}, id)
		from := list(c, "envFrom")
		require.Equal(t, "more", text(from[0], "secretRef", "name"), id)
		if id == "order" {
			require.Equal(t, "flashsale-order", text(from[2], "configMapRef", "name"), "the chart's settings win")
		}
	}
	require.Equal(t, []string{"ca", "client-certificate", "secrets", "database"}, values(list(order.spec, "volumes"), "name"))
	require.Equal(t, []string{"ca", "client-certificate", "secrets", "database", "scratch"}, values(list(migrate.spec, "volumes"), "name"))
	topics := job(t, all, "topics")
	require.Equal(t, []string{"ca", "client-certificate", "scratch"}, values(list(topics.spec, "volumes"), "name"))
	require.Len(t, list(migrate.containers()[2], "envFrom"), 2, "an equal entry of jobs is not repeated")
	require.Equal(t, "http://proxy.example.com:3128", entry(t, list(order.containers()[2], "env"), "https_proxy")["value"])
	for _, w := range []workload{migrate, topics} {
		c := w.containers()[len(w.containers())-1]
		require.Equal(t, "http://jobs.example.com:3128", entry(t, list(c, "env"), "https_proxy")["value"],
			"an entry of jobs replaces one of the same name")
	}
	tunnel := entry(t, list(migrate.spec, "initContainers"), "tunnel")
	require.NotEmpty(t, tunnel["startupProbe"], "that of jobs")

	seckill := deployment(t, all, "seckill").containers()[1]
	require.Equal(t, map[string]any{"secretKeyRef": map[string]any{"name": "challenge", "key": "secret"}},
		entry(t, list(seckill, "env"), "CHALLENGE_SECRET")["valueFrom"])
	require.Equal(t, "700MiB", entry(t, list(seckill, "env"), "GOMEMLIMIT")["value"])

	edge := deployment(t, all, "edge")
	require.Equal(t, deployment(t, production().objects(t), "edge").spec, edge.spec, "the edge gets nothing of it")
}

// A secret is set by the chart, or its file is named, but never both, which the services refuse.
func filesReplaceSecrets(t *testing.T) {
	secrets := map[string][]string{
		"seckill":   {"SESSION_SECRET", "INTERNAL_SECRET", "PATH_SECRETS", "AUTH_HS256_SECRET", "OIDC_CLIENT_SECRET"},
		"order":     {"SESSION_SECRET", "INTERNAL_SECRET", "CONTACT_KEYS", "AUTH_HS256_SECRET", "MYSQL_DSN"},
		"inventory": {"SESSION_SECRET", "INTERNAL_SECRET", "WEBHOOK_KEYS", "AUTH_HS256_SECRET", "MYSQL_DSN"},
	}
	names := func(r rendering, component string) []string {
		w := deployment(t, r.objects(t), component)
		return values(list(w.containers()[len(w.containers())-1], "env"), "name")
	}
	for component, keys := range secrets {
		before := names(production("auth.jwksURL="), component)
		for _, key := range keys {
			require.Contains(t, before, key, component)
			for how, set := range map[string][]string{
				"env": {"components." + component + ".env." + key + "_FILE=/run/x"},
				"extraEnv": {
					"components." + component + ".extraEnv[0].name=" + key + "_FILE",
					"components." + component + ".extraEnv[0].value=/run/x",
				},
			} {
				now := names(production(append(set, "auth.jwksURL=")...), component)
				require.NotContains(t, now, key, "%s by %s", component, how)
				for _, other := range keys {
					if other != key {
						require.Contains(t, now, other)
					}
				}
			}
		}
	}
	// The file reaches all that migrate.
	for _, set := range []string{
		"components.order.env.MYSQL_DSN_FILE=/run/x",
		"components.order.extraEnv[0].name=MYSQL_DSN_FILE,components.order.extraEnv[0].value=/run/x",
	} {
		all := production(set).objects(t)
		for _, c := range []map[string]any{
			deployment(t, all, "order").containers()[0], job(t, all, "order-migrate").containers()[0],
		} {
			require.Equal(t, "/run/x", entry(t, list(c, "env"), "MYSQL_DSN_FILE")["value"])
			require.NotContains(t, values(list(c, "env"), "name"), "MYSQL_DSN")
		}
	}
	// A variable in extraEnv replaces that of the chart.
	all := production("components.order.extraEnv[0].name=MYSQL_DSN",
		"components.order.extraEnv[0].valueFrom.secretKeyRef.name=other",
		"components.order.extraEnv[0].valueFrom.secretKeyRef.key=dsn").objects(t)
	for _, c := range deployment(t, all, "order").containers() {
		require.Equal(t, "other", text(entry(t, list(c, "env"), "MYSQL_DSN"), "valueFrom", "secretKeyRef", "name"))
	}
}

// Placement and lifetime of Jobs.
func jobsArePlaced(t *testing.T) {
	all := everything().objects(t)
	for _, component := range []string{"order-migrate", "inventory-migrate", "topics"} {
		w := job(t, all, component)
		require.EqualValues(t, 86400, at(w.object, "spec", "ttlSecondsAfterFinished"), component)
		require.Equal(t, map[string]any{"pool": "shop"}, w.spec["nodeSelector"], component)
		require.Len(t, w.spec["tolerations"], 1, component)
		require.NotEmpty(t, w.spec["affinity"], component)
		require.Equal(t, "high", w.spec["priorityClassName"], component)
		require.Equal(t, "flashsale-jobs", w.spec["serviceAccountName"], component)
	}
	for name, role := range map[string]string{
		"jobs": "flashsale-jobs", "seckill": "flashsale", "order": "flashsale", "inventory": "flashsale",
	} {
		account := pick(t, all, "ServiceAccount/flashsale-"+name)
		require.Equal(t, role, text(account, "metadata", "annotations", "iam.example.com/role"), name)
	}
	plain := production().objects(t)
	topics := job(t, plain, "topics")
	require.Nil(t, at(topics.object, "spec", "ttlSecondsAfterFinished"))
	require.Nil(t, topics.spec["serviceAccountName"])
	require.Equal(t, topics.name(), job(t, production("jobs.ttlSecondsAfterFinished=600").objects(t), "topics").name(),
		"the time can change in a Job that exists")
	require.NotEqual(t, topics.name(), job(t, production("jobs.priorityClassName=high").objects(t), "topics").name())
}

// Wrong additions to pods fail the rendering.
func wrongAdditionsAreRefused(t *testing.T) {
	const one, two = "jobs.sidecars[0].name=a,jobs.sidecars[0].image=a:1,", "jobs.sidecars[1].name=a,jobs.sidecars[1].image=a:1"
	const order = "components.order."
	for set, message := range map[string]string{
		// Combinations.
		"defaults.extraEnv[0].name=PPROF,defaults.extraEnv[0].value=t":             "env.PPROF cannot be true",
		"defaults.extraEnv[0].name=TEST_TIMERS,defaults.extraEnv[0].value=x":       "env.TEST_TIMERS cannot be set",
		"tls.caConfigMap=a,defaults.env.SSL_CERT_DIR=/x":                           "sets SSL_CERT_DIR, which tls.caConfigMap sets too",
		order + "volumeMounts[0].name=a," + order + "volumeMounts[0].mountPath=/a": "components.order.volumeMounts: a is the name of no volume in components.order.volumes",
		"jobs.volumeMounts[0].name=ca,jobs.volumeMounts[0].mountPath=/a":           "jobs.volumeMounts: ca is the name of no volume in jobs.volumes",
		"jobs.volumes[0].name=ca,jobs.volumes[0].emptyDir.medium=Memory":           "jobs.volumes: the chart has a volume ca; choose another name",
		one + two: "jobs.sidecars: another container has the name a",
		one + "jobs.sidecars[0].volumeMounts[0].name=b,jobs.sidecars[0].volumeMounts[0].mountPath=/b": "jobs.sidecars: a mounts b, which is the name of no volume in jobs.volumes",
		order + "sidecars[0].name=migrations," + order + "sidecars[0].image=a:1":                      "components.order.sidecars: another container has the name migrations",
		order + "sidecars[0].name=a," + order + "sidecars[0].image=a:1":                               "components.order.autoscaling needs resources.requests.cpu of the sidecar a",
		"tls.caConfigMap=a,jobs.extraEnv[0].name=SSL_CERT_DIR,jobs.extraEnv[0].value=/x":              "jobs sets SSL_CERT_DIR, which tls.caConfigMap sets too",
		"mysql.existingSecret=,components.order.env.MYSQL_DSN_FILE=/x":                                "mysql.existingSecret is required",
		// Single values, refused by the schema.
		order + "extraEnv[0].name=A":                                                              "extraEnv",
		order + "extraEnv[0].name=HTTP_ADDR," + order + "extraEnv[0].value=a":                     "extraEnv",
		order + "extraEnv[0].name=A," + order + "extraEnv[0].valueFrom.secretRef.name=a":          "secretRef",
		order + "envFrom[0].name=a":                                                               "envFrom",
		order + "volumes[0].name=a," + order + "volumes[0].hostPath.path=/":                       "hostPath",
		order + "volumes[0].name=a":                                                               "volumes",
		order + "volumeMounts[0].name=a," + order + "volumeMounts[0].mountPath=/etc/flashsale/ca": "volumeMounts",
		order + "sidecars[0].name=a":                                                              "sidecars",
		one + "jobs.sidecars[0].restartPolicy=Never":                                              "restartPolicy",
		one + "jobs.sidecars[0].comand[0]=a":                                                      "comand",
		order + "serviceAccount.name=a":                                                           "serviceAccount",
		"edge.volumes[0].name=a":                                                                  "volumes",
		"jobs.replicas=1":                                                                         "replicas",
		"jobs.ttlSecondsAfterFinished=60":                                                         "ttlSecondsAfterFinished",
		"tls.caConfigMap=Not_A_Name":                                                              "caConfigMap",
	} {
		t.Run(set, func(t *testing.T) { require.Contains(t, production(set).refused(t), message) })
	}
}
