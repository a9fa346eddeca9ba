// Package challenge makes and verifies the challenges that buyers solve before they may take a path: proofs of work,
// puzzles, and the widgets of third parties.
package challenge

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	altcha "github.com/altcha-org/altcha-lib-go"

	"flashsale.internal/services/seckill/internal/core"
)

// maxPayload bounds the answer to a proof of work, in bytes.
const maxPayload = 1024

// Pow makes and verifies proofs of work in the format of ALTCHA.
type Pow struct{ keys []string }

var _ core.Pows = (*Pow)(nil)

// NewPow returns a Pow with keys derived from these secrets: the first signs, all verify.
func NewPow(secrets ...string) (*Pow, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no secret for proofs of work")
	}
	p := &Pow{}
	for _, secret := range secrets {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "flashsale proof of work", 32)
		if err != nil {
			return nil, fmt.Errorf("derive the key of proofs of work: %w", err)
		}
		p.keys = append(p.keys, string(key))
	}
	return p, nil
}

// New implements core.Pows. The salt holds the id, so that a solution belongs to one challenge.
func (p *Pow) New(captchaID string, most int64, expires time.Time) (core.Pow, error) {
	c, err := altcha.CreateChallenge(altcha.ChallengeOptions{
		MaxNumber: most, HMACKey: p.keys[0], Expires: &expires, Params: url.Values{"id": {captchaID}},
	})
	if err != nil {
		return core.Pow{}, fmt.Errorf("create a proof of work: %w", err)
	}
	return core.Pow{
		Algorithm: c.Algorithm, Challenge: c.Challenge, Salt: c.Salt, Signature: c.Signature, Max: c.MaxNumber,
	}, nil
}

// Solved implements core.Pows. The payload is base64 of JSON, as ALTCHA's widget makes it.
func (p *Pow) Solved(captchaID, payload string) bool {
	if len(payload) > maxPayload {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(payload)
	if err != nil {
		return false
	}
	var answer altcha.Payload
	if err := json.Unmarshal(raw, &answer); err != nil {
		return false
	}
	if answer.Algorithm != string(altcha.SHA256) || altcha.ExtractParams(answer).Get("id") != captchaID {
		return false
	}
	for _, key := range p.keys {
		// The id has the expiry, by Redis time; the library would compare it with the clock of this process.
		if ok, err := altcha.VerifySolution(answer, key, false); err == nil && ok {
			return true
		}
	}
	return false
}
