package auth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
)

// The ids are in tables and in Redis, so a change of the mapping would lose every buyer's orders. The expected values
// were calculated by another program.
func TestGoldenUserIDs(t *testing.T) {
	for claim, want := range map[string]string{
		"42":                                   "42",
		"a.b-c_1":                              "a.b-c_1",
		"u":                                    "u",
		"U_1":                                  "U_1",
		strings.Repeat("a", 64):                strings.Repeat("a", 64),
		"9e107d9d-372b-4e6b-8f5c-1d2f4a5b6c7d": "9e107d9d-372b-4e6b-8f5c-1d2f4a5b6c7d",
		"a b":                                  "u_zbuhucfklvxnebcdfd5gu2l2xduw3q2cshumea2k5dby436mnvsq",
		"ann@example.com":                      "u_ohkpkx3s7iji362grindsakqpsaew5brmsehitlwtv7uwftjmr3a",
		"auth0|507f1f77bcf86cd799439011":       "u_gftnwk4wnhl3xq4jksrnw63nhhunkd6znuqbufh54e7osya3xtla",
		"u_":                                   "u_cfh3fkpifyumzjov4kjf22cmquiopiukmvyzkuk2mhpyokls3e5q",
		"u_1":                                  "u_emepffrvtggr2uaeysgurwbuut5iuxsabcp3h5azbqlubwkstfqa",
		"王小明":                                  "u_vt4xttcyjyoptqmmmw77v2pfhs6bqy2psacca4wmcfv5lnzxlpwq",
		"é":                                    "u_jkmvk7sagpbvhhpc5nsuoiaxzlk7svl7pidclie7dq7w4k5gtrga",
		strings.Repeat("a", 65):                "u_mnjwdrelxhvlcqmy45xkrk37djawqxlk2yvksfdngaou6f7lblqa",
	} {
		require.Equal(t, want, UserID(claim), claim)
	}
}

func TestDifferentClaimsAreDifferentUsers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claim := rapid.OneOf(rapid.String(), rapid.StringMatching(`u_[a-z2-7]{0,52}`), rapid.StringMatching(`[A-Za-z0-9_.-]{1,65}`)).
			Draw(t, "claim")
		id := UserID(claim)
		require.True(t, contract.ValidUserID(id))
		require.NotEqual(t, id, UserID("x"+claim))
		if strings.HasPrefix(id, mappedPrefix) {
			require.NotEqual(t, claim, id, "no claim is its own mapped id")
			require.NotEqual(t, id, UserID(id), "a claim that equals a mapped id is another user")
		} else {
			require.Equal(t, claim, id)
		}
	})
}
