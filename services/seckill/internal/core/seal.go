package core

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A path is base64url of version | order_sn | expiry | MAC. 33 bytes make 44 characters without a spare bit, so each
// path has exactly one encoding. The MAC is HMAC-SHA256, cut to 16 bytes.
const (
	// MACLen is the length of a MAC in bytes.
	MACLen = 16

	pathVersion = 1
	pathBytes   = 1 + 8 + 8 + MACLen
	pathChars   = pathBytes / 3 * 4

	ticketVersion  = 1
	ticketMinBytes = 1 + 8 + 1 + MACLen
	ticketMaxChars = (ticketMinBytes + 64 + 2) / 3 * 4
)

var errSeal = errors.New("seal does not verify")

// encoding of paths and tickets. Strict demands that spare bits are zero.
var encoding = base64.RawURLEncoding.Strict()

// Seal signs and verifies paths and tickets. The first secret signs, all of them verify.
type Seal struct{ keys []*sealKey }

// sealKey is one secret with a pool of HMAC states, because creating a state costs as much as computing a MAC.
type sealKey struct{ states sync.Pool }

// macState holds the state and the buffers for one MAC.
type macState struct {
	hash.Hash
	text []byte // input of the MAC
	sum  [sha256.Size]byte
}

func newSealKey(secret string) *sealKey {
	key := []byte(secret)
	return &sealKey{sync.Pool{New: func() any {
		return &macState{Hash: hmac.New(sha256.New, key), text: make([]byte, 0, 256)}
	}}}
}

// NewSeal returns a Seal with these secrets, the signing one first.
func NewSeal(secrets ...string) (*Seal, error) {
	s := &Seal{}
	for _, secret := range secrets {
		if secret == "" {
			return nil, errors.New("a path secret is empty")
		}
		s.keys = append(s.keys, newSealKey(secret))
	}
	if len(s.keys) == 0 {
		return nil, errors.New("no path secret")
	}
	return s, nil
}

// path is the content of a verified path.
type path struct {
	orderSN string
	expires time.Time
}

// ticket is the content of a verified ticket.
type ticket struct {
	userID  string
	expires time.Time
}

func (s *Seal) path(activityID, userID, orderSN string, expires time.Time) (string, error) {
	sn, err := strconv.ParseUint(orderSN, 10, 63)
	if err != nil {
		return "", err
	}
	raw := make([]byte, 0, pathBytes)
	raw = append(raw, pathVersion)
	raw = binary.BigEndian.AppendUint64(raw, sn)
	raw = binary.BigEndian.AppendUint64(raw, uint64(expires.Unix()))
	raw = s.AppendMAC(raw, "path", raw, activityID, userID)
	return encoding.EncodeToString(raw), nil
}

// openPath verifies that the path was issued for this user and activity. The caller checks whether it has expired.
func (s *Seal) openPath(token, activityID, userID string) (path, error) {
	if len(token) != pathChars {
		return path{}, errSeal
	}
	// Decode skips line breaks, so the decoded length has to be checked too.
	var raw [pathBytes]byte
	if n, err := encoding.Decode(raw[:], []byte(token)); err != nil || n != pathBytes || raw[0] != pathVersion {
		return path{}, errSeal
	}
	signed := raw[:pathBytes-MACLen]
	if !s.Verifies(raw[pathBytes-MACLen:], "path", signed, activityID, userID) {
		return path{}, errSeal
	}
	sn, sec := binary.BigEndian.Uint64(raw[1:9]), binary.BigEndian.Uint64(raw[9:17])
	if sn == 0 || sn>>63 != 0 || sec>>62 != 0 {
		return path{}, errSeal
	}
	return path{orderSN: strconv.FormatUint(sn, 10), expires: time.Unix(int64(sec), 0).UTC()}, nil
}

// ticket returns a signed ticket. It holds the user id, because an EventSource sends no Authorization header and
// streams are counted by user.
func (s *Seal) ticket(activityID, userID, orderSN string, expires time.Time) string {
	raw := make([]byte, 0, ticketMinBytes+len(userID))
	raw = append(raw, ticketVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(expires.Unix()))
	raw = append(raw, byte(len(userID)))
	raw = append(raw, userID...)
	raw = s.AppendMAC(raw, "ticket", raw, activityID, orderSN)
	return encoding.EncodeToString(raw)
}

func (s *Seal) openTicket(token, activityID, orderSN string) (ticket, error) {
	if len(token) > ticketMaxChars || strings.ContainsAny(token, "\r\n") {
		return ticket{}, errSeal
	}
	raw, err := encoding.DecodeString(token)
	if err != nil || len(raw) < ticketMinBytes || raw[0] != ticketVersion || len(raw) != ticketMinBytes+int(raw[9]) {
		return ticket{}, errSeal
	}
	signed := raw[:len(raw)-MACLen]
	if !s.Verifies(raw[len(raw)-MACLen:], "ticket", signed, activityID, orderSN) {
		return ticket{}, errSeal
	}
	sec := binary.BigEndian.Uint64(raw[1:9])
	if sec>>62 != 0 {
		return ticket{}, errSeal
	}
	return ticket{userID: string(signed[10:]), expires: time.Unix(int64(sec), 0).UTC()}, nil
}

// AppendMAC appends the MAC of signed and fields to dst. The MAC holds the purpose: what is signed for one purpose never
// verifies for another.
func (s *Seal) AppendMAC(dst []byte, purpose string, signed []byte, fields ...string) []byte {
	return s.keys[0].mac(dst, purpose, signed, fields...)
}

// Verifies reports whether got is the MAC of these by one of the secrets.
func (s *Seal) Verifies(got []byte, purpose string, signed []byte, fields ...string) bool {
	ok := false
	for _, key := range s.keys {
		var sum [sha256.Size]byte
		ok = hmac.Equal(got, key.mac(sum[:0], purpose, signed, fields...)) || ok
	}
	return ok
}

// mac appends the MAC of signed and fields to dst. Its input holds the purpose, so that a ticket never verifies as a
// path, and the length of each part, so that no two lists of parts have the same input.
func (k *sealKey) mac(dst []byte, purpose string, signed []byte, fields ...string) []byte {
	s, _ := k.states.Get().(*macState)
	defer k.states.Put(s)
	s.text = appendPart(appendPart(s.text[:0], purpose), signed)
	for _, f := range fields {
		s.text = appendPart(s.text, f)
	}
	s.Reset()
	s.Write(s.text)
	return append(dst, s.Sum(s.sum[:0])[:MACLen]...)
}

func appendPart[T string | []byte](dst []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(part))), part...)
}
