package ordersn_test

import (
	"hash/fnv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ordersn"
)

// Stored orders are found by these values, which must never change.
func TestGoldenGenes(t *testing.T) {
	for user, gene := range map[string]uint8{
		"": 0x25, "1": 0xfc, "42": 0x23, "u-42": 0xe1, "alice": 0x07, "Alice": 0x67, "A-z_0.9": 0x25,
	} {
		h := fnv.New64a()
		_, _ = h.Write([]byte(user))
		require.Equal(t, uint8(h.Sum64()), ordersn.Gene(user), "FNV-1a 64")
		require.Equal(t, gene, ordersn.Gene(user), "%q", user)
	}
}

func TestGoldenLayout(t *testing.T) {
	sn, err := ordersn.Parse("246290604621824001")
	require.NoError(t, err)
	require.Equal(t, ordersn.SN{Time: time.Date(2026, 11, 11, 15, 10, 56, 0, time.UTC), Gene: 1}, sn)
	require.Equal(t, "246290604621824001", sn.String())
	// All bits of each field.
	last, err := ordersn.Parse("9223372036854775807")
	require.NoError(t, err)
	require.Equal(t, ordersn.SN{Time: time.Date(2094, 9, 7, 15, 47, 35, 551e6, time.UTC), Worker: 255, Sequence: 63, Gene: 255}, last)
	require.Equal(t, "4194304", ordersn.SN{Time: time.Date(2025, 1, 1, 0, 0, 0, 1e6, time.UTC)}.String())
	require.Equal(t, "16384", ordersn.SN{Time: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Worker: 1}.String())
	require.Equal(t, "256", ordersn.SN{Time: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Sequence: 1}.String())
}

func TestBelongs(t *testing.T) {
	sn := ordersn.SN{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Worker: 3, Gene: ordersn.Gene("42")}.String()
	require.True(t, ordersn.Belongs(sn, "42"))
	require.False(t, ordersn.Belongs(sn, "43"))
	for _, malformed := range []string{"", "0", "-1", "x", "035", "9223372036854775808"} {
		require.False(t, ordersn.Belongs(malformed, "42"), malformed)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("246290604621824001")
	f.Add("0")
	f.Fuzz(func(t *testing.T, s string) {
		sn, err := ordersn.Parse(s)
		if err != nil {
			return
		}
		if sn.String() != s {
			t.Fatalf("%s became %s", s, sn)
		}
	})
}
