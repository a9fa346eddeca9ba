package checks

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// privateAuthority is a certificate of an authority that no list of public ones has.
const privateAuthority = `-----BEGIN CERTIFICATE-----
MIIBkDCCATWgAwIBAgIUUph68pgQ1Q7xZGLJ4SE7GRJzgpQwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRcHJpdmF0ZSBhdXRob3JpdHkwIBcNMjYxMTI5MDM0MTMyWhgP
MjEyNjExMDUwMzQxMzJaMBwxGjAYBgNVBAMMEXByaXZhdGUgYXV0aG9yaXR5MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE3/yyWzurQ80Y8u1xmflKo+3kAwpJAfRg
5PFVr/EAtNI9pGe4NvKilQx+XMpgf4YZJNYPg/ylvz9REg4sGVdgkKNTMFEwHQYD
VR0OBBYEFB21AxoxF1dUvf9RIuq/1NL6EUsBMB8GA1UdIwQYMBaAFB21AxoxF1dU
vf9RIuq/1NL6EUsBMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIh
ANWqd/NKX1KfFD/ygcK1onSDeyYN9GNL7BoTnvmxGUIBAiEAj/EDznuPGHdekDMS
SjA4az2zZDiyMHD9hfh8/XYBWuY=
-----END CERTIFICATE-----
`

// The variable of the chart adds the authorities of the ConfigMap to those of the image, which has them as one file:
// the test gives crypto/x509 the directory as the kubelet makes it, of links. crypto/x509 reads the variable once, so no
// other test of the process may verify a certificate.
func authoritiesAreAddedToThePublicOnes(t *testing.T) {
	require.NotContains(t, production().text(t), "SSL_CERT_DIR")
	all := production("tls.caConfigMap=private", "tls.clientSecret=client", "limits.rules=version: 1").objects(t)
	const mounted = "/etc/flashsale/ca"
	variable := ""
	for _, w := range []workload{
		deployment(t, all, "seckill"), deployment(t, all, "order"), deployment(t, all, "inventory"),
		job(t, all, "order-migrate"), job(t, all, "inventory-migrate"), job(t, all, "topics"),
	} {
		require.Equal(t, map[string]any{"name": "private"}, entry(t, list(w.spec, "volumes"), "ca")["configMap"], w.id())
		require.Equal(t, "client", text(entry(t, list(w.spec, "volumes"), "client-certificate"), "secret", "secretName"), w.id())
		for _, c := range w.containers() {
			variable = text(entry(t, list(c, "env"), "SSL_CERT_DIR"), "value")
			require.Equal(t, map[string]any{"name": "ca", "mountPath": mounted, "readOnly": true},
				entry(t, list(c, "volumeMounts"), "ca"), "%s %s", w.id(), text(c, "name"))
			folder := text(entry(t, list(c, "volumeMounts"), "client-certificate"), "mountPath")
			require.Equal(t, folder+"/tls.crt", text(entry(t, list(c, "env"), "TLS_CERT_FILE"), "value"))
			require.Equal(t, folder+"/tls.key", text(entry(t, list(c, "env"), "TLS_KEY_FILE"), "value"))
		}
	}

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..2026/private.pem"), []byte(privateAuthority), 0o600))
	require.NoError(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/private.pem", filepath.Join(dir, "private.pem")))
	require.Contains(t, variable, mounted)
	t.Setenv("SSL_CERT_DIR", strings.Replace(variable, mounted, dir, 1))
	pool, err := x509.SystemCertPool()
	require.NoError(t, err)
	trusted := func(c *x509.Certificate) error {
		_, err := c.Verify(x509.VerifyOptions{
			Roots: pool, CurrentTime: c.NotAfter.Add(-time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		return err
	}
	public, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	require.NoError(t, err, "scripts/images copies this file into the images")
	count := 0
	for rest := append([]byte(privateAuthority), public...); ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.NoError(t, trusted(c), c.Subject)
	}
	require.Greater(t, count, 50, "all public authorities, and the private one")
}
