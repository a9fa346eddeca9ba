package core

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
)

// The id of a challenge is base64url of nonce | AES-GCM(version | kind | expiry | x). Its answer is encrypted, and it
// opens only for its user and activity. A pass is base64url of version | expiry | MAC.
const (
	captchaVersion = 1
	captchaNonce   = 12
	captchaPlain   = 1 + 1 + 8 + 2
	captchaBytes   = captchaNonce + captchaPlain + 16

	passVersion = 1
	passBytes   = 1 + 8 + macLen
)

// sealedKinds are the kinds of challenges; the id of a challenge has the index.
var sealedKinds = []contract.CaptchaKind{
	contract.CaptchaNone, contract.CaptchaPow, contract.CaptchaSlide, contract.CaptchaProvider,
}

// captcha is the content of a challenge's id.
type captcha struct {
	kind    contract.CaptchaKind
	expires time.Time
	x       int64 // the answer to a puzzle
}

// newAEAD returns the encryption of challenges with a key that is derived from secret.
func newAEAD(secret string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "flashsale captcha id", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// captcha returns the id of a challenge.
func (s *Seal) captcha(activityID, userID string, c captcha) string {
	raw := make([]byte, captchaNonce, captchaBytes)
	_, _ = rand.Read(raw) // never fails
	plain := make([]byte, 0, captchaPlain)
	plain = append(plain, captchaVersion, byte(slices.Index(sealedKinds, c.kind)))
	plain = binary.BigEndian.AppendUint64(plain, uint64(c.expires.Unix()))
	plain = binary.BigEndian.AppendUint16(plain, uint16(min(max(c.x, 0), math.MaxUint16)))
	return encoding.EncodeToString(s.keys[0].aead.Seal(raw, raw, plain, captchaOwner(activityID, userID)))
}

// openCaptcha returns the content of the id of a challenge for this user and activity.
func (s *Seal) openCaptcha(id, activityID, userID string) (captcha, error) {
	if len(id) != encoding.EncodedLen(captchaBytes) {
		return captcha{}, errSeal
	}
	var raw [captchaBytes]byte
	if n, err := encoding.Decode(raw[:], []byte(id)); err != nil || n != captchaBytes {
		return captcha{}, errSeal
	}
	owner := captchaOwner(activityID, userID)
	for _, key := range s.keys {
		plain, err := key.aead.Open(nil, raw[:captchaNonce], raw[captchaNonce:], owner)
		if err != nil {
			continue
		}
		sec := binary.BigEndian.Uint64(plain[2:10])
		if plain[0] != captchaVersion || plain[1] == 0 || int(plain[1]) >= len(sealedKinds) || sec>>62 != 0 {
			break
		}
		return captcha{
			kind: sealedKinds[plain[1]], expires: time.Unix(int64(sec), 0).UTC(),
			x: int64(binary.BigEndian.Uint16(plain[10:])),
		}, nil
	}
	return captcha{}, errSeal
}

func captchaOwner(activityID, userID string) []byte {
	return appendPart(appendPart(nil, activityID), userID)
}

// pass returns the pass of a solved challenge.
func (s *Seal) pass(activityID, userID string, expires time.Time) string {
	raw := make([]byte, 0, passBytes)
	raw = append(raw, passVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(expires.Unix()))
	raw = s.keys[0].mac(raw, "captcha pass", raw, activityID, userID)
	return encoding.EncodeToString(raw)
}

// openPass verifies that the pass was issued to this user for this activity. The caller checks whether it has expired.
func (s *Seal) openPass(token, activityID, userID string) (expires time.Time, err error) {
	if len(token) != encoding.EncodedLen(passBytes) {
		return time.Time{}, errSeal
	}
	var raw [passBytes]byte
	if n, err := encoding.Decode(raw[:], []byte(token)); err != nil || n != passBytes || raw[0] != passVersion {
		return time.Time{}, errSeal
	}
	sec := binary.BigEndian.Uint64(raw[1:9])
	if sec>>62 != 0 || !s.verifies(raw[9:], "captcha pass", raw[:9], activityID, userID) {
		return time.Time{}, errSeal
	}
	return time.Unix(int64(sec), 0).UTC(), nil
}
