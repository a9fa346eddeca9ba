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
)

// maxPayload bounds the answer to a proof of work, in bytes.
const maxPayload = 1024

// Work is a proof of work: the buyer finds the number n up to Max for which SHA-256(Salt + n) is Challenge.
type Work struct {
	Algorithm, Challenge, Salt, Signature string
	Max                                   int64
}

// Pow makes and verifies proofs of work in the format of ALTCHA. Both are cheap and need no state.
type Pow struct{ keys []string }

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

// New returns a proof of work. The salt holds the id, so that a solution belongs to one challenge.
func (p *Pow) New(challengeID string, most int64, expires time.Time) (Work, error) {
	c, err := altcha.CreateChallenge(altcha.ChallengeOptions{
		MaxNumber: most, HMACKey: p.keys[0], Expires: &expires, Params: url.Values{"id": {challengeID}},
	})
	if err != nil {
		return Work{}, fmt.Errorf("create a proof of work: %w", err)
	}
	return Work{
		Algorithm: c.Algorithm, Challenge: c.Challenge, Salt: c.Salt, Signature: c.Signature, Max: c.MaxNumber,
	}, nil
}

// Solved reports whether the payload is a solution of the challenge of that id. The payload is base64 of JSON, as ALTCHA's widget makes it.
func (p *Pow) Solved(challengeID, payload string) bool {
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
	if answer.Algorithm != string(altcha.SHA256) || altcha.ExtractParams(answer).Get("id") != challengeID {
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
