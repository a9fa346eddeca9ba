package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongFilesOfAClientCertificate(t *testing.T) {
	none := file(t, "no certificate")
	for says, c := range map[string]ClientCertificate{
		"TLS_CERT_FILE needs TLS_KEY_FILE":                                                  {CertFile: none},
		"TLS_KEY_FILE needs TLS_CERT_FILE":                                                  {KeyFile: none},
		"TLS_CERT_FILE names a file that cannot be read: open /nowhere":                     {CertFile: "/nowhere", KeyFile: none},
		"TLS_KEY_FILE names a file that cannot be read: open /nowhere":                      {CertFile: none, KeyFile: "/nowhere"},
		"TLS_CERT_FILE and TLS_KEY_FILE do not hold a certificate and its key: tls: failed": {CertFile: none, KeyFile: none},
	} {
		require.ErrorContains(t, Load(new(config), environ("TLS_CERT_FILE="+c.CertFile, "TLS_KEY_FILE="+c.KeyFile)), says)
	}
	require.NoError(t, ClientCertificate{}.Validate(true))
	require.Nil(t, ClientCertificate{}.ForHandshake())
}
