package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChallengeAsText(t *testing.T) {
	for _, c := range []Challenge{{}, {ChallengePow, 50}, {ChallengeClick, 1}, {ChallengeProvider, MaxChallengeDifficulty}} {
		got, err := ParseChallenge(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	require.Empty(t, Challenge{ChallengeNone, 50}.String())
	require.Error(t, Challenge{"other", 50}.Validate())
	require.Error(t, Challenge{ChallengePow, 0}.Validate())
	require.NoError(t, Challenge{ChallengeNone, 0}.Validate())
}

// A parsed challenge is valid and has one form only.
func FuzzParseChallenge(f *testing.F) {
	for _, s := range []string{"", "pow:50", "click:1000", "provider:1", "pow:0", "pow:01", "none:5", "pow", "pow:+5", "x:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseChallenge(s)
		if err != nil {
			require.Zero(t, c)
			return
		}
		require.NoError(t, c.Validate())
		require.Equal(t, s, c.String())
	})
}
