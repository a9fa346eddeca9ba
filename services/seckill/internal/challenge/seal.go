package challenge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/internal/core"
)

// The id of a challenge is base64url of nonce | AES-GCM(version | kind | expiry | points). Its answer is encrypted, and
// it opens only for its user and activity. A pass is base64url of version | expiry | MAC.
const (
	idVersion = 2
	idNonce   = 12
	idPoints  = 1 + 1 + 8 // offset
	idPlain   = idPoints + 2*2*clickLetters
	idBytes   = idNonce + idPlain + 16

	passVersion = 1
	passBytes   = 1 + 8 + core.MACLen
)

// sealedKinds are the kinds of challenges; the id of a challenge has the index.
var sealedKinds = []contract.ChallengeKind{
	contract.ChallengeNone, contract.ChallengePow, contract.ChallengeClick, contract.ChallengeProvider,
}

var errSeal = errors.New("seal does not verify")

// encoding of ids and passes. Strict demands that spare bits are zero.
var encoding = base64.RawURLEncoding.Strict()

// seal encrypts the ids of challenges and signs passes. The first secret does so, all of them open.
type seal struct {
	macs *core.Seal
	ids  []cipher.AEAD
}

func newSeal(macs *core.Seal, secrets ...string) (seal, error) {
	s := seal{macs: macs}
	for _, secret := range secrets {
		aead, err := newAEAD(secret)
		if err != nil {
			return seal{}, err
		}
		s.ids = append(s.ids, aead)
	}
	return s, nil
}

// content is the content of a challenge's id.
type content struct {
	kind    contract.ChallengeKind
	expires time.Time
	points  Points // the answer to a click challenge
}

// newAEAD returns the encryption of challenges with a key that is derived from secret.
func newAEAD(secret string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "flashsale challenge id", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// id returns the id of a challenge.
func (s seal) id(activityID, userID string, c content) string {
	raw := make([]byte, idNonce, idBytes)
	_, _ = rand.Read(raw) // never fails
	plain := make([]byte, 0, idPlain)
	plain = append(plain, idVersion, byte(slices.Index(sealedKinds, c.kind)))
	plain = binary.BigEndian.AppendUint64(plain, uint64(c.expires.Unix()))
	for _, p := range c.points {
		for _, n := range []int64{p.X, p.Y} {
			plain = binary.BigEndian.AppendUint16(plain, uint16(min(max(n, 0), math.MaxUint16)))
		}
	}
	return encoding.EncodeToString(s.ids[0].Seal(raw, raw, plain, owner(activityID, userID)))
}

// openID returns the content of the id of a challenge for this user and activity.
func (s seal) openID(id, activityID, userID string) (content, error) {
	if len(id) != encoding.EncodedLen(idBytes) {
		return content{}, errSeal
	}
	var raw [idBytes]byte
	if n, err := encoding.Decode(raw[:], []byte(id)); err != nil || n != idBytes {
		return content{}, errSeal
	}
	for _, aead := range s.ids {
		plain, err := aead.Open(nil, raw[:idNonce], raw[idNonce:], owner(activityID, userID))
		if err != nil {
			continue
		}
		sec := binary.BigEndian.Uint64(plain[2:10])
		if plain[0] != idVersion || plain[1] == 0 || int(plain[1]) >= len(sealedKinds) || sec>>62 != 0 {
			break
		}
		c := content{kind: sealedKinds[plain[1]], expires: time.Unix(int64(sec), 0).UTC()}
		for i := range c.points {
			at := plain[idPoints+4*i:]
			c.points[i] = Point{int64(binary.BigEndian.Uint16(at)), int64(binary.BigEndian.Uint16(at[2:]))}
		}
		return c, nil
	}
	return content{}, errSeal
}

// owner returns what the id of a challenge is bound to. An activity_id has digits only.
func owner(activityID, userID string) []byte { return []byte(activityID + "/" + userID) }

// pass returns the pass of a solved challenge.
func (s seal) pass(activityID, userID string, expires time.Time) string {
	raw := make([]byte, 0, passBytes)
	raw = append(raw, passVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(expires.Unix()))
	raw = s.macs.AppendMAC(raw, "challenge pass", raw, activityID, userID)
	return encoding.EncodeToString(raw)
}

// openPass verifies that the pass was issued to this user for this activity. The caller checks whether it has expired.
func (s seal) openPass(token, activityID, userID string) (expires time.Time, err error) {
	if len(token) != encoding.EncodedLen(passBytes) {
		return time.Time{}, errSeal
	}
	var raw [passBytes]byte
	if n, err := encoding.Decode(raw[:], []byte(token)); err != nil || n != passBytes || raw[0] != passVersion {
		return time.Time{}, errSeal
	}
	sec := binary.BigEndian.Uint64(raw[1:9])
	if sec>>62 != 0 || !s.macs.Verifies(raw[9:], "challenge pass", raw[:9], activityID, userID) {
		return time.Time{}, errSeal
	}
	return time.Unix(int64(sec), 0).UTC(), nil
}
