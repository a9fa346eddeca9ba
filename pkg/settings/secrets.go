package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"strings"
)

// MinSecretLen is the shortest secret, in bytes, that production accepts.
const MinSecretLen = 32

// developmentOnly is the prefix of every secret in code and examples. Production refuses it.
const developmentOnly = "development-only-"

// Secrets that apply in development if none is set.
const (
	DevelopmentAuthSecret     = developmentOnly + "secret-of-the-buyers-tokens"
	DevelopmentInternalSecret = developmentOnly + "secret-of-the-internal-calls"
	DevelopmentSessionSecret  = developmentOnly + "secret-of-the-sessions"
)

// fileSuffix follows the name of a secret's variable in the name of the variable with the path of its file.
const fileSuffix = "_FILE"

// maxSecretFile is the length in bytes above which the file of a secret is refused.
const maxSecretFile = 64 << 10

// withFiles returns environ with the content of the file of each secret that is given as NAME_FILE. One newline at the
// end of the file is not part of the secret.
func withFiles(environ map[string]string, all []leaf) (map[string]string, error) {
	for _, l := range all {
		variable := l.key + fileSuffix
		path := environ[variable]
		switch {
		case !l.secret || path == "":
			continue
		case environ[l.key] != "":
			return nil, Wrong(l.key, "and %s are both set; set one of them", variable)
		}
		secret, err := readSecret(path)
		if err != nil {
			return nil, Wrong(variable, "names a file that %v", err)
		}
		environ = maps.Clone(environ)
		environ[l.key] = secret
	}
	return environ, nil
}

// readSecret returns the secret in a file. Its errors continue the sentence "the file ...".
func readSecret(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the operator chooses the path
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	if len(raw) > maxSecretFile {
		return "", fmt.Errorf("has more than %d bytes", maxSecretFile)
	}
	secret := strings.TrimSuffix(string(raw), "\n")
	if secret == "" {
		return "", errors.New("is empty")
	}
	return secret, nil
}

// checkDistinct reports two settings that hold an equal secret. It compares every secret of a list.
func checkDistinct(environ map[string]string, all []leaf) error {
	purposes := map[string]string{} // variable by secret
	for _, l := range all {
		if !l.secret || environ[l.key] == "" {
			continue
		}
		secrets := []string{environ[l.key]}
		if l.typ.Kind() == reflect.Slice {
			secrets = strings.Split(environ[l.key], ",")
		}
		for _, secret := range secrets {
			other, known := purposes[secret]
			// A back end may have the same password as another: the operator of the two decides that.
			if known && other != l.key && (!strings.HasSuffix(other, "_PASSWORD") || !strings.HasSuffix(l.key, "_PASSWORD")) {
				return Wrong(l.key,
					"holds a secret that %s holds too; with APP_ENV=production each purpose needs its own",
					other)
			}
			purposes[secret] = l.key
		}
	}
	return nil
}

// CheckSecrets reports the first wrong one of a list such as new,old.
func CheckSecrets(variable string, secrets []string, production bool) error {
	if len(secrets) == 0 {
		return Wrong(variable, "is required and not set")
	}
	for _, secret := range secrets {
		if secret == "" {
			return Wrong(variable, "holds an empty secret")
		}
		if err := CheckSecret(variable, secret, production); err != nil {
			return err
		}
	}
	return nil
}

// CheckSecret reports a missing secret, and one with blanks around it, which is probably a mistake; in production
// also a short one and one from the code.
func CheckSecret(variable, secret string, production bool) error {
	switch {
	case secret == "":
		return Wrong(variable, "is required and not set")
	case strings.TrimSpace(secret) != secret:
		return Wrong(variable, "has a blank before or after a secret")
	case production && strings.HasPrefix(secret, developmentOnly):
		return Wrong(variable, "is a secret for development and is refused with APP_ENV=production")
	case production && len(secret) < MinSecretLen:
		return Wrong(variable, "has %d bytes and must have at least %d with APP_ENV=production", len(secret),
			MinSecretLen)
	case production && strings.Count(secret, secret[:1]) == len(secret):
		return Wrong(variable, "is one character repeated and is refused with APP_ENV=production")
	}
	return nil
}
