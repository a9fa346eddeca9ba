package settings

import (
	"crypto/tls"
	"os"
)

// ClientCertificate names the files of the certificate with which the process authenticates to back ends.
type ClientCertificate struct {
	// File of the certificate (PEM) that the process presents to Redis, Sentinels and, with `tls=true` in the DSN, MySQL.
	// It is read at each connection, so a renewed one needs no restart.
	CertFile string `env:"TLS_CERT_FILE"`
	// File of its key (PEM); required with `TLS_CERT_FILE`.
	KeyFile string `env:"TLS_KEY_FILE"`
}

// Validate reports a file without the other one, and files that hold no pair.
func (c ClientCertificate) Validate(bool) error {
	switch {
	case c.CertFile == "" && c.KeyFile == "":
		return nil
	case c.KeyFile == "":
		return Wrong("TLS_CERT_FILE", "needs TLS_KEY_FILE")
	case c.CertFile == "":
		return Wrong("TLS_KEY_FILE", "needs TLS_CERT_FILE")
	}
	_, err := c.read()
	return err
}

// read returns the pair of the files. Its error is an *Error.
func (c ClientCertificate) read() (*tls.Certificate, error) {
	cert, err := os.ReadFile(c.CertFile)
	if err != nil {
		return nil, Wrong("TLS_CERT_FILE", "names a file that cannot be read: %v", err)
	}
	key, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return nil, Wrong("TLS_KEY_FILE", "names a file that cannot be read: %v", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, Wrong("TLS_CERT_FILE", "and TLS_KEY_FILE do not hold a certificate and its key: %v", err)
	}
	return &pair, nil
}

// ForHandshake returns the function for GetClientCertificate of a tls.Config, which reads the files at each handshake.
// It is nil without a certificate. Errors of the function are an *Error.
func (c ClientCertificate) ForHandshake() func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c.CertFile == "" {
		return nil
	}
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.read() }
}
