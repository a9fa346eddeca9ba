package auth

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

func TestACachedTokenIsNotVerifiedAgain(t *testing.T) {
	v := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}})
	verified := 0
	key := v.key
	v.key = func(ctx context.Context, tok *jwt.Token) (any, error) { verified++; return key(ctx, tok) }

	token := sign(t, jwt.SigningMethodHS256, []byte(secret), "", good("roles", []string{"operator"}))
	for range 3 {
		id, err := v.Verify(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, Identity{UserID: "42", Roles: []Role{Operator}, MerchantID: contract.DefaultMerchant}, id)
	}
	require.Equal(t, 1, verified)

	// One character less is another token.
	_, err := v.Verify(t.Context(), token[:len(token)-1])
	require.Error(t, err)
	require.Equal(t, 2, verified)

	// A refused token is not cached.
	_, err = v.Verify(t.Context(), token[:len(token)-1])
	require.Error(t, err)
	require.Equal(t, 3, verified)

	// After a change of the keys every token is verified again.
	v.cache.clear()
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, 4, verified)
}

func TestCachedTokensExpire(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	c := newCache(8)
	c.add(hashOf("short"), Identity{UserID: "1"}, now.Add(time.Second), now, 0)
	c.add(hashOf("long"), Identity{UserID: "2"}, now.Add(time.Hour), now, 0)
	for _, at := range []struct {
		token string
		after time.Duration
		known bool
	}{
		{"short", time.Second - 1, true}, {"short", time.Second, false}, {"long", cachedFor - 1, true}, {"long", cachedFor, false}, {"none", 0, false},
	} {
		_, ok, _ := c.find(hashOf(at.token), now.Add(at.after))
		require.Equal(t, at.known, ok, "%s after %s", at.token, at.after)
	}
}

func TestEveryIdentityIsCachedUnchanged(t *testing.T) {
	now := time.Now()
	c := newCache(1 << 20)
	of := func(i int) Identity {
		id := Identity{UserID: strings.Repeat("u", i%59) + strconv.Itoa(i)}
		if i&1 > 0 {
			id.Roles = append(id.Roles, Merchant)
		}
		if i&2 > 0 {
			id.Roles = append(id.Roles, Operator)
		}
		return id
	}
	const n = 1000
	for i := range n {
		c.add(hashOf(strconv.Itoa(i)), of(i), now.Add(time.Hour), now, 0)
	}
	for i := range n {
		id, ok, _ := c.find(hashOf(strconv.Itoa(i)), now)
		require.True(t, ok)
		require.Equal(t, of(i), id)
	}
}

func TestTheCacheFitsTheMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	require.Equal(t, cachedTokens, cacheSize(), "without a limit")
	debug.SetMemoryLimit(240 << 20)
	require.Equal(t, 240<<20/8/tokenBytes, cacheSize())
	debug.SetMemoryLimit(64 << 30)
	require.Equal(t, cachedTokens, cacheSize())
}

// BenchmarkCache measures the memory of a cached token, which cacheSize relies on, and the time to find it.
func BenchmarkCache(b *testing.B) {
	const n = 400_000
	now := time.Now()
	hashes := make([]tokenHash, n)
	for i := range hashes {
		hashes[i] = hashOf(strconv.Itoa(i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := newCache(2 * n)
	for i, h := range hashes {
		c.add(h, Identity{UserID: strings.Repeat("u", 58) + strconv.Itoa(100_000+i)}, now.Add(time.Hour), now, 0)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	token := strings.Repeat("t", 300)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = hashOf(token)
		if _, ok, _ := c.find(hashes[i%n], now); !ok {
			b.Fatal("not in the cache")
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/token")
}

func TestATokenVerifiedByOldKeysIsNotCached(t *testing.T) {
	now := time.Now()
	c := newCache(8)
	_, _, keys := c.find(hashOf("a"), now)
	c.clear()
	c.add(hashOf("a"), Identity{UserID: "1"}, now.Add(time.Hour), now, keys)
	_, ok, _ := c.find(hashOf("a"), now)
	require.False(t, ok)
}

func TestTheCacheIsBounded(t *testing.T) {
	now := time.Now()
	c := newCache(100)
	for i := range 10_000 {
		c.add(hashOf(strconv.Itoa(i)), Identity{UserID: "1"}, now.Add(time.Hour), now, 0)
		require.LessOrEqual(t, c.tokens.Len(), 100)
	}
	for i := 9_950; i < 10_000; i++ {
		_, ok, _ := c.find(hashOf(strconv.Itoa(i)), now)
		require.True(t, ok, "%d is among the latest", i)
	}
}

func TestUnknownRolesOfATokenAreDropped(t *testing.T) {
	v := verifier(t, settings.Auth{Lenient: true, HS256Secrets: []string{secret}})
	roles := []string{"operator", "merchant", "operator"}
	for n := range 100 {
		roles = append(roles, "of-another-system-"+strconv.Itoa(n))
	}
	token := sign(t, jwt.SigningMethodHS256, []byte(secret), "", good("roles", roles))
	for range 2 { // first verified, then from the cache
		id, err := v.Verify(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, []Role{Merchant, Operator}, id.Roles)
	}
}

func TestTheTokensOfAWithdrawnKeyAreRefused(t *testing.T) {
	withdrawn, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	kept, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := newProvider(t)
	p.publish(t, jwk(&withdrawn.PublicKey, "withdrawn", ""), jwk(&kept.PublicKey, "kept", ""))
	v := p.verifier(t)
	token := sign(t, jwt.SigningMethodRS256, withdrawn, "withdrawn", good())
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)

	p.publish(t, jwk(&kept.PublicKey, "kept", ""))
	require.NoError(t, v.keys.fetch(t.Context()))
	_, err = v.Verify(t.Context(), token)
	require.Error(t, err)
}
