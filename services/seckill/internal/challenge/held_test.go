package challenge

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// A user holds four images at once, until they are answered or expire. All users of an address hold 300.
func TestHeldImagesAreBounded(t *testing.T) {
	h, now := newHeld(), time.Now()
	begin := func(user, address string) (id string, refused *contract.Refusal, counts bool) {
		of, err := h.begin(now, now.Add(ttl), user, address)
		if err != nil {
			return "", contract.RefusalOf(err), !errors.As(err, new(uncounted))
		}
		id = user + " " + strconv.Itoa(len(h.given))
		h.name(of, id)
		return id, nil, false
	}
	var first string
	for i := range userImages {
		id, refused, _ := begin("ann", "")
		require.Nil(t, refused)
		if i == 0 {
			first = id
			now = now.Add(10 * time.Second)
		}
	}
	_, refused, counts := begin("ann", "")
	require.NotNil(t, refused, "a fifth image")
	require.Equal(t, contract.CodeRateLimited, refused.Code)
	require.Equal(t, ttl-10*time.Second, refused.RetryAfter, "when the first expires")
	require.True(t, counts)
	for range 2 { // of which the second is of no effect
		h.answered(first)
	}
	_, refused, _ = begin("ann", "")
	require.Nil(t, refused)
	_, refused, _ = begin("ann", "")
	require.NotNil(t, refused)
	now = now.Add(ttl)
	_, refused, _ = begin("ann", "")
	require.Nil(t, refused, "they have expired")

	var last string
	for i := range addressImages {
		last, refused, _ = begin("user"+strconv.Itoa(i), "office")
		require.Nil(t, refused)
	}
	_, refused, counts = begin("bob", "office")
	require.NotNil(t, refused, "image 301 of an address")
	require.Equal(t, contract.CodeRateLimited, refused.Code)
	require.Equal(t, noImage, refused.RetryAfter)
	require.False(t, counts, "due to others")
	_, refused, _ = begin("bob", "home")
	require.Nil(t, refused)
	h.answered(last)
	_, refused, _ = begin("bob", "office")
	require.Nil(t, refused)

	given := len(h.given)
	for range 1000 { // at a start, most requests find no image
		none, err := h.begin(now, now.Add(ttl), "eve", "cafe")
		require.NoError(t, err)
		h.end(none)
	}
	require.Len(t, h.given, given)
	require.NotContains(t, h.users, "eve")
	require.NotContains(t, h.addresses, "cafe")
	now = now.Add(ttl)
	_, refused, _ = begin("eve", "")
	require.Nil(t, refused)
	require.Len(t, h.given, 1)
	require.Len(t, h.byID, 1)
	require.Len(t, h.users, 1)
	require.Empty(t, h.addresses, "nothing stays of what has ended")
}
