package seal_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/seal"
)

func key(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, seal.KeyBytes))
}

func open(t require.TestingT, encoded ...string) *seal.Keys {
	k, err := seal.NewKeys(encoded)
	require.NoError(t, err)
	return k
}

// A sealed text opens with its key for its order only, and no changed byte is accepted.
func TestSealedTextsOpenUnchangedOnly(t *testing.T) {
	keys := open(t, key(1), key(2))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		id, sealed := keys.Seal("4711", plain)
		require.Equal(t, keys.Current(), id)
		got, err := keys.Open("4711", id, sealed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, got))
		_, again := keys.Seal("4711", plain)
		require.NotEqual(t, sealed, again, "nonces are random")
		if len(plain) > 4 {
			require.NotContains(t, string(sealed), string(plain))
		}

		_, err = keys.Open("4712", id, sealed)
		require.Error(t, err, "another order")
		_, err = keys.Open("4711", open(t, key(2)).Current(), sealed)
		require.Error(t, err, "another key")
		changed := bytes.Clone(sealed)
		changed[rapid.IntRange(0, len(sealed)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, err = keys.Open("4711", id, changed)
		require.Error(t, err)
		_, err = keys.Open("4711", id, sealed[:rapid.IntRange(0, len(sealed)-1).Draw(t, "cut")])
		require.Error(t, err)
	})
}

func TestKeysRotate(t *testing.T) {
	id, sealed := open(t, key(1)).Seal("1", []byte("text"))
	both := open(t, key(2), key(1))
	got, err := both.Open("1", id, sealed)
	require.NoError(t, err)
	require.Equal(t, "text", string(got))
	require.NotEqual(t, id, both.Current())
	_, err = open(t, key(2)).Open("1", id, sealed)
	require.ErrorContains(t, err, id)
	require.NotContains(t, err.Error(), "text")
}

func TestWrongKeys(t *testing.T) {
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	for name, encoded := range map[string][]string{
		"none": {}, "empty": {""}, "no base64": {"?" + key(1)[1:]}, "short": {short}, "second": {key(1), short},
		"twice": {key(1), key(1)}, "blank": {" " + key(1)}, "URL alphabet": {base64.RawURLEncoding.EncodeToString(make([]byte, 32))},
		"long": {base64.StdEncoding.EncodeToString(make([]byte, 33))},
	} {
		_, err := seal.NewKeys(encoded)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), key(1)[:8], name)
	}
	require.Error(t, seal.CheckProduction([]string{seal.DevelopmentKey}))
	require.Error(t, seal.CheckProduction([]string{key(7)}), "one byte repeated")
	require.NoError(t, seal.CheckProduction([]string{base64.StdEncoding.EncodeToString([]byte("abcdefghijklmnopqrstuvwxyz012345"))}))
}

// Whatever is stored, Open returns an error or the text that was sealed, and never panics.
func FuzzOpen(f *testing.F) {
	keys := open(f, key(1))
	// Sealed once: the nonce is random, and each process of the fuzzer runs this again.
	id, golden := keys.Current(), "O2ixVKssusjkApGNG0FLcqxLrO7W2M3ZlmXSdEy51zk="
	sealed, err := base64.StdEncoding.DecodeString(golden)
	require.NoError(f, err)
	f.Add("1", id, sealed)
	f.Add("2", "", []byte{})
	f.Fuzz(func(t *testing.T, sn, keyID string, stored []byte) {
		got, err := keys.Open(sn, keyID, stored)
		if sn == "1" && keyID == id && bytes.Equal(stored, sealed) {
			require.NoError(t, err)
			require.Equal(t, "text", string(got))
			return
		}
		require.Error(t, err)
	})
}
