package challenge

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	altcha "github.com/altcha-org/altcha-lib-go"
	"github.com/stretchr/testify/require"
)

func payload(t *testing.T, p Work, number int64) string {
	t.Helper()
	raw, err := json.Marshal(altcha.Payload{
		Algorithm: p.Algorithm, Challenge: p.Challenge, Number: number, Salt: p.Salt, Signature: p.Signature,
	})
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(raw)
}

func TestPowOfOneChallenge(t *testing.T) {
	old, err := NewPow("old")
	require.NoError(t, err)
	p, err := NewPow("new", "old")
	require.NoError(t, err)
	pow, err := old.New("id-1", 300, time.Now().Add(time.Minute))
	require.NoError(t, err)
	found, err := altcha.SolveChallenge(pow.Challenge, pow.Salt, altcha.SHA256, 300, 0, nil)
	require.NoError(t, err)
	n := int64(found.Number)
	require.True(t, p.Solved("id-1", payload(t, pow, n)), "also after a rotation of the secret")
	require.False(t, p.Solved("id-2", payload(t, pow, n)))
	require.False(t, p.Solved("id-1", payload(t, pow, n+1)))
	stranger, err := NewPow("stranger")
	require.NoError(t, err)
	require.False(t, stranger.Solved("id-1", payload(t, pow, n)))
	weak := pow
	weak.Algorithm = "SHA-1"
	require.False(t, p.Solved("id-1", payload(t, weak, n)))
}

func FuzzPowPayload(f *testing.F) {
	p, err := NewPow("secret")
	require.NoError(f, err)
	f.Add("")
	f.Add("e30=")
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"algorithm":"SHA-256","salt":"a?id=1&","number":-1}`)))
	f.Fuzz(func(t *testing.T, text string) { require.False(t, p.Solved("1", text)) })
}

func FuzzParseVerdict(f *testing.F) {
	f.Add([]byte(`{"success":true,"hostname":"a","error-codes":[]}`))
	f.Add([]byte(`{"success":false,"error-codes":["invalid-input-secret"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := parseVerdict(raw); err != nil {
			require.Zero(t, v)
		}
	})
}

func TestSettings(t *testing.T) {
	good := Settings{Provider: Turnstile, SiteKey: "k", Secret: "s", Work: WorkForEveryone, Images: 1}
	require.NoError(t, good.Validate(true))
	for name, change := range map[string]func(*Settings){
		"CHALLENGE_PROVIDER":   func(s *Settings) { s.Provider = "other" },
		"CHALLENGE_SITE_KEY":   func(s *Settings) { s.SiteKey = "" },
		"CHALLENGE_SECRET":     func(s *Settings) { s.Secret = "" },
		"CHALLENGE_VERIFY_URL": func(s *Settings) { s.VerifyURL = "x" },
		"CHALLENGE_WORK":       func(s *Settings) { s.Work = "other" },
		"CHALLENGE_IMAGES":     func(s *Settings) { s.Images = 0 },
	} {
		s := good
		change(&s)
		require.ErrorContains(t, s.Validate(true), name)
	}
}
