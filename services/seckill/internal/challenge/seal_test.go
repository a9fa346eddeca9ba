package challenge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/seckill/internal/core"
)

func sealOf(t require.TestingT, secrets ...string) seal {
	macs, err := core.NewSeal(secrets...)
	require.NoError(t, err)
	s, err := newSeal(macs, secrets...)
	require.NoError(t, err)
	return s
}

func TestSeal(t *testing.T) {
	old, both := sealOf(t, "old"), sealOf(t, "new", "old")
	c := content{contract.ChallengeClick, time.Unix(1_800_000_000, 0).UTC(), Points{{1, 2}, {299, 219}, {0, 7}, {150, 0}}}
	id, pass := old.id("7", "ann", c), old.pass("7", "ann", c.expires)
	require.NotEqual(t, id, old.id("7", "ann", c), "ids do not repeat")
	got, err := both.openID(id, "7", "ann")
	require.NoError(t, err)
	require.Equal(t, c, got)
	expires, err := both.openPass(pass, "7", "ann")
	require.NoError(t, err)
	require.Equal(t, c.expires, expires)
	for _, other := range [][2]string{{"8", "ann"}, {"7", "bob"}, {"7a", "nn"}} {
		_, err = both.openID(id, other[0], other[1])
		require.ErrorIs(t, err, errSeal)
		_, err = both.openPass(pass, other[0], other[1])
		require.ErrorIs(t, err, errSeal)
	}
	_, err = both.openPass(id, "7", "ann")
	require.ErrorIs(t, err, errSeal)
}

// Nothing but what was sealed opens, and each sealed text has one form. Ids do not repeat: the fuzzer's processes have
// different ones, of the same content.
func FuzzOpenIDAndPass(f *testing.F) {
	s := sealOf(f, "secret")
	at := time.Unix(1_800_000_000, 0).UTC()
	c := content{contract.ChallengePow, at, Points{}}
	id, pass := s.id("7", "ann", c), s.pass("7", "ann", at)
	for _, text := range []string{"", id, pass, id[1:], pass + "\n", id[:len(id)-1] + "\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if opened, err := s.openID(text, "7", "ann"); err == nil {
			require.Equal(t, c, opened)
			raw, err := encoding.DecodeString(text)
			require.NoError(t, err)
			require.Equal(t, encoding.EncodeToString(raw), text)
		}
		if _, err := s.openPass(text, "7", "ann"); err == nil {
			require.Equal(t, pass, text)
		}
	})
}
