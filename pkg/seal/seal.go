// Package seal encrypts what the tables must not show, contacts of buyers and secrets of webhooks, with AES-256-GCM. A
// sealed text is bound to the object that it belongs to, so that it cannot be moved to another one.
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
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// DevelopmentKey applies where none is set. Production refuses it.
var DevelopmentKey = base64.StdEncoding.EncodeToString([]byte(developmentOnly + "contact-keys-01"))

const developmentOnly = "development-only-"

// Errors of a text that cannot be opened.
var (
	errUnknownKey = errors.New("its key is not configured")
	errDamaged    = errors.New("it was changed, or belongs to another object")
)

// Keys encrypts and decrypts. The first key encrypts, all of them decrypt. A key may encrypt 2^32 texts, since nonces
// are random.
type Keys struct {
	current string
	byID    map[string]cipher.AEAD
}

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
	sum := sha256.Sum256(append([]byte("flashsale contact key\x00"), key...)) // the tables have these names
	return hex.EncodeToString(sum[:8])
}

// Current names the key with which Seal encrypts.
func (k *Keys) Current() string { return k.current }

// Seal encrypts a text of one object. keyID names the key for Open. sealed is a random nonce, the ciphertext and the tag.
func (k *Keys) Seal(object string, plain []byte) (keyID string, sealed []byte) {
	return k.current, k.byID[k.current].Seal(nil, nil, plain, []byte(object)) //nolint:gosec // it makes a random nonce
}

// Open fails if the key is not configured, and if the text was changed or sealed for another object.
func (k *Keys) Open(object, keyID string, sealed []byte) ([]byte, error) {
	aead := k.byID[keyID]
	if aead == nil {
		return nil, fmt.Errorf("sealed under key %s: %w", keyID, errUnknownKey)
	}
	plain, err := aead.Open(nil, nil, sealed, []byte(object))
	if err != nil {
		return nil, fmt.Errorf("sealed under key %s: %w", keyID, errDamaged)
	}
	return plain, nil
}
