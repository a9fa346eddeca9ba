// Package seal encrypts the contacts of buyers with AES-256-GCM. A sealed contact is bound to its order_sn, so that it
// cannot be moved to another order.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"flashsale.internal/services/order/internal/core"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// DevelopmentKey applies where none is set. Production refuses it.
var DevelopmentKey = base64.StdEncoding.EncodeToString([]byte(developmentOnly + "contact-keys-01"))

const developmentOnly = "development-only-"

// Errors of a contact that cannot be opened.
var (
	errUnknownKey = errors.New("its key is not in CONTACT_KEYS")
	errDamaged    = errors.New("it was changed, or belongs to another order")
)

// Keys implements core.Sealer. The first key encrypts, all of them decrypt. A key may encrypt 2^32 contacts, since
// nonces are random.
type Keys struct {
	current string
	byID    map[string]cipher.AEAD
}

var _ core.Sealer = (*Keys)(nil)

// NewKeys returns the keys of a list such as new,old, each in base64. Its errors continue a sentence that begins with
// the name of the list, and contain no key.
func NewKeys(encoded []string) (*Keys, error) {
	if len(encoded) == 0 {
		return nil, errors.New("is required and not set")
	}
	k := &Keys{byID: make(map[string]cipher.AEAD, len(encoded))}
	for i, text := range encoded {
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) != KeyBytes {
			return nil, fmt.Errorf("holds a key (number %d) that is not base64 of %d bytes", i+1, KeyBytes)
		}
		id := keyID(key)
		if k.byID[id] != nil {
			return nil, fmt.Errorf("holds the same key twice (number %d)", i+1)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("holds a key (number %d) that cannot be used: %w", i+1, err)
		}
		if k.byID[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("holds a key (number %d) that cannot be used: %w", i+1, err)
		}
		if i == 0 {
			k.current = id
		}
	}
	return k, nil
}

// CheckProduction reports a key that production refuses: one from the code, or one byte repeated.
func CheckProduction(encoded []string) error {
	for i, text := range encoded {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) == 0 {
			continue // reported by NewKeys
		}
		if strings.HasPrefix(string(key), developmentOnly) {
			return fmt.Errorf("holds a key (number %d) for development, which is refused with APP_ENV=production", i+1)
		}
		if strings.Count(string(key), string(key[:1])) == len(key) {
			return fmt.Errorf("holds a key (number %d) of one byte repeated, which is refused with APP_ENV=production",
				i+1)
		}
	}
	return nil
}

// keyID returns the name of a key in the tables and logs: 16 characters of its hash.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("flashsale contact key\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

// Current implements core.Sealer.
func (k *Keys) Current() string { return k.current }

// Seal implements core.Sealer. The result is a random nonce, the ciphertext and the tag.
func (k *Keys) Seal(orderSN string, plain []byte) (keyID string, sealed []byte) {
	return k.current, k.byID[k.current].Seal(nil, nil, plain, []byte(orderSN)) //nolint:gosec // it makes a random nonce
}

// Open implements core.Sealer.
func (k *Keys) Open(orderSN, keyID string, sealed []byte) ([]byte, error) {
	aead := k.byID[keyID]
	if aead == nil {
		return nil, fmt.Errorf("contact under key %s: %w", keyID, errUnknownKey)
	}
	plain, err := aead.Open(nil, nil, sealed, []byte(orderSN))
	if err != nil {
		return nil, fmt.Errorf("contact under key %s: %w", keyID, errDamaged)
	}
	return plain, nil
}
