package inventory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// Kind and difficulty of the challenge may change on a draft and while the sale is open; the gate has them.
func TestChallengeOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 5)
	at := "/v1/merchant/activities/" + id
	challenge := func() contract.Challenge {
		a, err := s.gate.Audit(t.Context(), id)
		require.NoError(t, err)
		return a.Challenge
	}
	shown := string(s.do("GET", at, "").body)
	require.Contains(t, shown, `"captcha":"none"`)
	require.Contains(t, shown, `"captcha_difficulty":50`)
	require.Equal(t, "captcha", s.do("PATCH", at, `{"captcha":"riddle"}`).field())
	require.Equal(t, "captcha", s.do("PATCH", at, `{"captcha":true}`).field())
	for _, wrong := range []string{"0", "1001", "-1"} {
		require.Equal(t, "captcha_difficulty", s.do("PATCH", at, `{"captcha_difficulty":`+wrong+`}`).field())
	}
	require.Equal(t, 200, s.do("PATCH", at, `{"captcha_difficulty":7}`).status)
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	require.Zero(t, challenge())

	require.Contains(t, string(s.do("PATCH", at, `{"captcha":"pow"}`).body), `"captcha":"pow"`)
	require.Equal(t, contract.Challenge{Kind: contract.ChallengePow, Difficulty: 7}, challenge())
	require.Equal(t, 200, s.do("PATCH", at, `{"captcha":"click","captcha_difficulty":1000}`).status)
	require.Equal(t, contract.Challenge{Kind: contract.ChallengeClick, Difficulty: 1000}, challenge())
	require.Equal(t, 200, s.do("PATCH", at, `{"captcha":"none"}`).status)
	require.Zero(t, challenge())
}
