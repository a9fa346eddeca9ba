package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/problem"
)

// SignInternal adds the internal secret to a request to another service of the system.
func SignInternal(r *http.Request, secret string) { r.Header.Set("Authorization", "Bearer "+secret) }

// TrySecrets calls send with the first secret, and with the next one after each response 401: while the secrets are
// rotated, the other service may still run with the old one. That service refuses a request with another secret
// unread. send signs its request with the secret and returns the status of the response.
func TrySecrets(secrets []string, send func(secret string) (status int, err error)) error {
	for _, secret := range secrets {
		if status, err := send(secret); err != nil || status != http.StatusUnauthorized {
			return err
		}
	}
	return nil
}

// Internal admits only requests with one of the internal secrets. Without a secret it refuses all requests.
func Internal(secrets ...string) func(http.Handler) http.Handler {
	var accepted [][sha256.Size]byte
	for _, secret := range secrets {
		if secret != "" {
			accepted = append(accepted, sha256.Sum256([]byte(secret)))
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, err := bearer(r)
			// Hashes have one length, so that the duration of the comparison reveals nothing, not even the secret's
			// length.
			got := sha256.Sum256([]byte(token))
			equal := 0
			for _, want := range accepted {
				equal |= subtle.ConstantTimeCompare(want[:], got[:])
			}
			if err != nil || equal != 1 {
				problem.Write(w, r, slog.New(slog.DiscardHandler),
					contract.Refuse(contract.CodeUnauthenticated, "This call needs the internal secret."))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
