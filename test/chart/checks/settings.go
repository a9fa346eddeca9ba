package checks

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each service accepts the settings of the chart: it is built and its check-config is run with them.
func servicesAcceptTheirSettings(t *testing.T) {
	programs := t.TempDir()
	for _, name := range services {
		build := exec.Command("go", "build", "-o", filepath.Join(programs, name), "./cmd/"+name)
		build.Dir = filepath.Join(tools.root, "services", name)
		build.Env = append(os.Environ(), "GOWORK=off")
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for values, r := range everyRendering() {
		all := r.objects(t)
		for _, name := range services {
			t.Run(values+" "+name, func(t *testing.T) {
				env := environment(t, all, name)
				cmd := exec.Command(filepath.Join(programs, name), "check-config")
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s with %s", out, strings.Join(env, "\n"))
			})
		}
	}
}

// environment returns the variables of the service's container; values of Secrets are made up.
func environment(t *testing.T, all []object, component string) (env []string) {
	t.Helper()
	w := deployment(t, all, component)
	c := w.containers()[len(w.containers())-1]
	for _, from := range list(c, "envFrom") {
		name := text(from, "configMapRef", "name")
		if name != "flashsale-"+component {
			continue // not of the chart
		}
		for k, v := range fieldTexts(pick(t, all, "ConfigMap/"+name), "data") {
			env = append(env, k+"="+filed(t, k, v, component))
		}
	}
	for _, e := range list(c, "env") {
		name, value := text(e, "name"), text(e, "value")
		if secret := fields(e, "valueFrom", "secretKeyRef"); secret != nil {
			value = madeUp(name, text(secret, "key"), component)
		}
		value = filed(t, name, value, component)
		for _, known := range env { // $(NAME) refers to a variable above it
			k, v, _ := strings.Cut(known, "=")
			value = strings.ReplaceAll(value, "$("+k+")", v)
		}
		require.NotRegexp(t, `\$\((MYSQL_PASSWORD)\)`, value, "defined above it")
		env = append(env, name+"="+value)
	}
	return env
}

// madeUp returns a value for a secret.
func madeUp(name, key, component string) string {
	switch name {
	case "CONTACT_KEYS", "WEBHOOK_KEYS":
		return base64.StdEncoding.EncodeToString([]byte("abcdefghijklmnopqrstuvwxyz-01234"))
	case "PAYMENTS_STRIPE_KEY":
		return "sk_live_abcdefghijklmnopqrstuvwxyz"
	case "MYSQL_DSN":
		return "user:password@tcp(db:3306)/" + component + "?tls=true"
	}
	return "abcdefghijklmnopqrstuvwxyz-0123456789-of-" + key
}

// filed returns value, or for a variable X_FILE the path of a file with a value for the secret X.
func filed(t *testing.T, name, value, component string) string {
	t.Helper()
	secret, ok := strings.CutSuffix(name, "_FILE")
	if !ok {
		return value
	}
	path, content := filepath.Join(t.TempDir(), secret), madeUp(secret, secret, component)
	if strings.HasPrefix(name, "TLS_") {
		content = pair(t)
	}
	require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
	return path
}

// pair returns a certificate and its key, always the same ones.
func pair(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	cert := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

// Rules are mounted as a directory, so that changed rules reach running pods and replace none.
func rulesAreMounted(t *testing.T) {
	with, other := kind("limits.rules=version: 1").objects(t), kind("limits.rules=version: 2").objects(t)
	require.Equal(t, "version: 1",
		strings.TrimSpace(text(pick(t, with, "ConfigMap/flashsale-limits"), "data", "rules.yaml")))
	for _, name := range services {
		w := deployment(t, with, name)
		c := w.containers()[len(w.containers())-1]
		file := ""
		for _, e := range environment(t, with, name) {
			if path, ok := strings.CutPrefix(e, "LIMIT_RULES="); ok {
				file = path
			}
		}
		mounted := false
		for _, m := range list(c, "volumeMounts") {
			if text(m, "mountPath") == filepath.Dir(file) {
				mounted = true
				require.Nil(t, at(m, "subPath"))
			}
		}
		require.True(t, mounted, "%s finds %s", name, file)
		require.Equal(t,
			[]any{map[string]any{"name": "limits", "configMap": map[string]any{"name": "flashsale-limits"}}}, at(w.spec,
				"volumes"))
		require.Equal(t, w.spec, deployment(t, other, name).spec)
	}
	for _, o := range kind().objects(t) {
		require.NotEqual(t, "ConfigMap/flashsale-limits", o.id(), "without rules the programs use their own")
	}
}
