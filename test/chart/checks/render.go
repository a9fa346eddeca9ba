package checks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// A rendering is a call of `helm template` for the chart.
type rendering struct {
	helm    Helm   // the tested one when 0
	kube    string // the release of Kubernetes that it is for
	release string
	values  []string // values files, in the chart's folder or absolute
	set     []string
}

func kind(set ...string) rendering {
	return rendering{values: []string{"values-kind.yaml"}, set: set}
}

func production(set ...string) rendering {
	return rendering{values: []string{"values-production.yaml"}, set: set}
}

func withStripe(set ...string) rendering {
	return production(append([]string{
		"payments.providers={stripe,shop}", "payments.rate=25", "payments.stripe.existingSecret=flashsale-stripe",
		"payments.stripe.methods={card,wechat_pay}", "payments.shop.checkoutURL=https://shop.example.com/pay",
		"payments.shop.apiURL=https://shop.example.com/flashsale",
	}, set...)...)
}

func secured() rendering {
	return rendering{values: []string{"values-production.yaml", "values-secured.yaml"}}
}

// An object is a rendered Kubernetes object.
type object map[string]any

func (o object) kind() string { return text(o, "kind") }
func (o object) name() string { return text(o, "metadata", "name") }
func (o object) id() string   { return o.kind() + "/" + o.name() }

// at returns the value at the path of keys, or nil if there is none.
func at(v any, path ...string) any {
	for _, key := range path {
		switch m := v.(type) {
		case object:
			v = m[key]
		case map[string]any:
			v = m[key]
		default:
			return nil
		}
	}
	return v
}

func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}

func list(v any, path ...string) []any {
	l, _ := at(v, path...).([]any)
	return l
}

func fields(v any, path ...string) map[string]any {
	m, _ := at(v, path...).(map[string]any)
	return m
}

func (r rendering) command() *exec.Cmd {
	helm, kube, release := r.helm, r.kube, r.release
	if helm == 0 {
		helm = tested
	}
	if kube == "" {
		kube = "1.34.4"
	}
	if release == "" {
		release = "flashsale"
	}
	args := []string{"template", release, chart(), "--namespace", "shop", "--kube-version", kube}
	for _, file := range r.values {
		if !filepath.IsAbs(file) {
			file = filepath.Join(chart(), file)
		}
		args = append(args, "--values", file)
	}
	for _, s := range r.set {
		args = append(args, "--set", s)
	}
	return exec.Command(tools.helm[helm], args...)
}

func (r rendering) text(t *testing.T) string {
	t.Helper()
	var problem bytes.Buffer
	cmd := r.command()
	cmd.Stderr = &problem
	out, err := cmd.Output()
	require.NoError(t, err, problem.String())
	return string(out)
}

// refused returns the output of Helm, which must fail.
func (r rendering) refused(t *testing.T) string {
	t.Helper()
	out, err := r.command().CombinedOutput()
	require.Error(t, err, "the chart accepts %v", r.set)
	return string(out)
}

func (r rendering) objects(t *testing.T) []object {
	t.Helper()
	return parse(t, r.text(t))
}

var separator = regexp.MustCompile(`(?m)^---.*$`)

func parse(t *testing.T, manifests string) []object {
	t.Helper()
	var all []object
	for _, doc := range separator.Split(manifests, -1) {
		var o object
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o), doc)
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// pick returns the one object with that kind and name.
func pick(t *testing.T, all []object, id string) object {
	t.Helper()
	var found []object
	for _, o := range all {
		if o.id() == id {
			found = append(found, o)
		}
	}
	require.Len(t, found, 1, id)
	return found[0]
}

// A workload is an object that creates pods.
type workload struct {
	object
	labels map[string]any // of its pods
	spec   map[string]any // of its pods
}

func workloads(all []object) []workload {
	var found []workload
	for _, o := range all {
		switch o.kind() {
		case "Deployment", "StatefulSet", "Job":
			found = append(found,
				workload{o, fields(o, "spec", "template", "metadata", "labels"), fields(o, "spec", "template", "spec")})
		case "Pod":
			found = append(found, workload{o, fields(o, "metadata", "labels"), fields(o, "spec")})
		}
	}
	return found
}

func (w workload) component() string { return text(w.labels, "app.kubernetes.io/component") }

// containers returns the containers of the pod, init containers first.
func (w workload) containers() []map[string]any {
	var all []map[string]any
	for _, c := range append(list(w.spec, "initContainers"), list(w.spec, "containers")...) {
		all = append(all, c.(map[string]any))
	}
	return all
}

// everyRendering returns each values file, and the values that change which objects are rendered.
func everyRendering() map[string]rendering {
	return map[string]rendering{
		"kind":       kind(),
		"production": production(),
		"secured":    secured(),
		"ingress": production("ingress.enabled=true", "ingress.host=shop.example.com", "ingress.className=nginx",
			"ingress.tlsSecret=shop-tls", "edge.trustedProxies={10.0.0.0/8}"),
		"strict network": {values: []string{"values-kind.yaml"}, set: []string{
			"networkPolicy.enabled=true", "networkPolicy.egress.enabled=true", "defaults.replicas=2",
		}},
		"placed": production("defaults.nodeSelector.pool=shop", "defaults.tolerations[0].key=shop",
			"defaults.tolerations[0].operator=Exists",
			"defaults.priorityClassName=high", "image.pullSecrets[0]=registry", "commonLabels.team=shop",
			"secrets.revision=2", "tracing.sampleRatio=0.05",
			"components.seckill.env.PATH_RATE=1000000", "components.seckill.env.JOURNAL_MAX=2000000",
			"components.seckill.podAnnotations.a=b"),
		"everything": everything(),
		"stripe":     withStripe(),
		"no sign-in": production("oidc=null", "pages=null", "session=null"),
		"brand": production("pages.name=秒杀 & Söhne", "pages.logoURL=https://cdn.example.com/logo.svg",
			"pages.accent=#004d40", "pages.accentInk=#ffffff", "pages.accentDark=#80cbc4", "pages.accentInkDark=#001a15",
			"pages.imageOrigins={https://a.example.com,https://b.example.com:8443/}", "session.ttl=1h30m",
			"oidc.existingSecret=", "networkPolicy.egress.enabled=true",
			"networkPolicy.egress.toIdentityProvider[0].ports[0].port=443"),
		"redis behind sentinels": production("redis.mode=sentinel", "redis.sentinel.master=sale", "redis.db=2",
			"redis.sentinel.username=flashsale", "redis.username=gate", "redis.existingSecret=flashsale-redis",
			"redis.tls.enabled=true", "redis.tls.serverName=redis.data", "limits.redis.addresses=null",
			"limits.redis.username=limits", "limits.redis.existingSecret=flashsale-redis-limits"),
		"redis cluster": production("redis.mode=cluster", "redis.addresses={redis.data:6379}",
			"redis.existingSecret=flashsale-redis", "redis.tls.enabled=true", "limits.redis.mode=sentinel",
			"limits.redis.addresses={s-0.data:26379,s-1.data:26379}", "limits.redis.db=3",
			"limits.redis.sentinel.master=limits"),
		"rocketmq users": production("rocketmq.existingSecret=flashsale-rocketmq"),
		"monitored":      production("monitoring.enabled=true", "monitoring.labels.release=prometheus"),
		"own secret":     production("secrets.existingSecret=", "auth.jwksURL="),
		"claims": production("auth.types={at+jwt}", "auth.maxLife=1h30m", "auth.userClaim=email",
			"auth.rolesClaim=realm_access.roles",
			"auth.merchantClaim=https://shop.example.com/merchant", "auth.defaultMerchant=acme"),
	}
}

func everyRenderingIsValid(t *testing.T) {
	for name, r := range everyRendering() {
		for _, kube := range []string{"1.30.14", "1.34.4"} {
			t.Run(name+" "+kube, func(t *testing.T) {
				r.kube = kube
				valid(t, kube, r.text(t))
			})
		}
	}
}

// SameAs compares each rendering with that of another Helm.
func SameAs(t *testing.T, other Helm) {
	for name, r := range everyRendering() {
		for _, kube := range []string{"1.30.14", "1.34.4"} {
			t.Run(name+" "+kube, func(t *testing.T) {
				r.kube = kube
				made := parse(t, withoutDrawn(r.text(t)))
				r.helm = other
				require.Equal(t, parse(t, withoutDrawn(r.text(t))), made)
			})
		}
	}
}

// drawn matches the generated values of Secrets, which differ in every rendering.
var drawn = regexp.MustCompile(`(?m)^(  [A-Z0-9_]+_(?:SECRETS?|KEYS|PASSWORD)): "[A-Za-z0-9+/=]+"$`)

func withoutDrawn(manifests string) string { return drawn.ReplaceAllString(manifests, `$1: ""`) }

func valid(t *testing.T, kube, manifests string) {
	t.Helper()
	cmd := exec.Command(tools.kubeconform, "-strict", "-summary", "-kubernetes-version", kube,
		"-schema-location", schemas()+"/{{.NormalizedKubernetesVersion}}/{{.ResourceKind}}{{.KindSuffix}}.json",
		"-schema-location", schemas()+"/prometheus-operator/{{.ResourceKind}}{{.KindSuffix}}.json")
	cmd.Stdin = strings.NewReader(manifests)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Invalid: 0, Errors: 0, Skipped: 0")
}

// kubeconform finds wrong objects with these schemas.
func wrongObjectsAreInvalid(t *testing.T) {
	manifests := kind().text(t)
	for was, is := range map[string]string{
		"  replicas: 1\n":                     "  replicas: one\n",
		"      enableServiceLinks: false\n":   "      enableServiceLinkz: false\n",
		"apiVersion: policy/v1\n":             "apiVersion: policy/v1beta1\n",
		"            - {name: http, containe": "            - {name: http, hostPort: x, containe",
	} {
		wrong := strings.Replace(manifests, was, is, 1)
		if was == "apiVersion: policy/v1\n" {
			wrong = strings.Replace(production().text(t), was, is, 1)
		}
		require.NotEqual(t, manifests, wrong, was)
		cmd := exec.Command(tools.kubeconform, "-strict", "-kubernetes-version", "1.34.4",
			"-schema-location", schemas()+"/{{.NormalizedKubernetesVersion}}/{{.ResourceKind}}{{.KindSuffix}}.json")
		cmd.Stdin = strings.NewReader(wrong)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s: %s", is, out)
	}
}

func lint(t *testing.T) {
	for _, files := range [][]string{{"values.yaml"}, {"values-kind.yaml"}, {"values-production.yaml"}, secured().values} {
		args := []string{"lint", "--strict", chart()}
		for _, file := range files {
			args = append(args, "--values", filepath.Join(chart(), file))
		}
		out, err := exec.Command(tools.helm[tested], args...).CombinedOutput()
		require.NoError(t, err, "%s: %s", files, out)
	}
}

func dependenciesAreInTheRepository(t *testing.T) {
	_, err := os.Stat(filepath.Join(chart(), "charts/devdeps/Chart.yaml"))
	require.NoError(t, err)
	out, err := exec.Command(tools.helm[tested], "dependency", "list", chart()).CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "missing")
}
