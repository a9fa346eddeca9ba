package core

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func seal(t require.TestingT, secrets ...string) *Seal {
	s, err := NewSeal(secrets...)
	require.NoError(t, err)
	return s
}

func TestPathVerifiesForItsBuyerAndActivityOnly(t *testing.T) {
	s := seal(t, "new", "old")
	expires := noon.Add(5 * time.Minute)
	token, err := s.path("7", "alice", "123", expires)
	require.NoError(t, err)
	require.Len(t, token, 44)

	p, err := s.openPath(token, "7", "alice")
	require.NoError(t, err)
	require.Equal(t, path{orderSN: "123", expires: expires}, p)

	for name, open := range map[string]func() (path, error){
		"another user":     func() (path, error) { return s.openPath(token, "7", "bob") },
		"another activity": func() (path, error) { return s.openPath(token, "8", "alice") },
		"parts shifted":    func() (path, error) { return s.openPath(token, "7a", "lice") },
		"empty":            func() (path, error) { return s.openPath("", "7", "alice") },
		"cut":              func() (path, error) { return s.openPath(token[:43], "7", "alice") },
		"longer":           func() (path, error) { return s.openPath(token+"A", "7", "alice") },
		"with line break":  func() (path, error) { return s.openPath(token[:43]+"\n", "7", "alice") },
		"other alphabet":   func() (path, error) { return s.openPath(strings.Repeat("+", 44), "7", "alice") },
		"another secret":   func() (path, error) { return seal(t, "third").openPath(token, "7", "alice") },
		"a ticket": func() (path, error) {
			// With a user id of 7 characters a ticket is as long as a path.
			return s.openPath(s.ticket("7", "alice12", "123", expires), "7", "alice12")
		},
	} {
		_, err := open()
		require.Error(t, err, name)
	}
}

func TestEachBitOfAPathIsVerified(t *testing.T) {
	s := seal(t, "k")
	token, err := s.path("7", "alice", "123", noon)
	require.NoError(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	for i := range raw {
		for bit := range 8 {
			changed := append([]byte(nil), raw...)
			changed[i] ^= 1 << bit
			_, err := s.openPath(base64.RawURLEncoding.EncodeToString(changed), "7", "alice")
			require.Error(t, err, "byte %d bit %d", i, bit)
		}
	}
}

func TestOldSecretVerifiesAndNewOneSigns(t *testing.T) {
	old, both, next := seal(t, "old"), seal(t, "new", "old"), seal(t, "new")
	byOld, err := old.path("7", "alice", "123", noon)
	require.NoError(t, err)
	byBoth, err := both.path("7", "alice", "123", noon)
	require.NoError(t, err)

	_, err = both.openPath(byOld, "7", "alice")
	require.NoError(t, err)
	_, err = next.openPath(byBoth, "7", "alice")
	require.NoError(t, err)
	_, err = old.openPath(byBoth, "7", "alice")
	require.Error(t, err)
	_, err = NewSeal("new", "")
	require.Error(t, err)
	_, err = NewSeal()
	require.Error(t, err)
}

func TestTicketVerifiesForItsPurchaseOnly(t *testing.T) {
	s := seal(t, "k")
	token := s.ticket("7", "alice", "123", noon)
	got, err := s.openTicket(token, "7", "123")
	require.NoError(t, err)
	require.Equal(t, ticket{userID: "alice", expires: noon}, got)
	for _, bad := range []string{"", "A", token[1:], token + "AAAA", token[:10] + "\n" + token[10:], strings.Repeat("A", 500)} {
		_, err := s.openTicket(bad, "7", "123")
		require.Error(t, err, bad)
	}
	_, err = s.openTicket(token, "7", "124")
	require.Error(t, err)
	_, err = s.openTicket(token, "8", "123")
	require.Error(t, err)
}

func TestPathsAndTicketsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := seal(t, "k")
		activity := strconv.FormatInt(rapid.Int64Min(1).Draw(t, "activity"), 10)
		user := rapid.StringMatching(`[A-Za-z0-9_.\-]{1,64}`).Draw(t, "user")
		sn := strconv.FormatInt(rapid.Int64Min(1).Draw(t, "sn"), 10)
		at := time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "at"), 0).UTC()
		token, err := s.path(activity, user, sn, at)
		require.NoError(t, err)
		p, err := s.openPath(token, activity, user)
		require.NoError(t, err)
		require.Equal(t, path{sn, at}, p)
		got, err := s.openTicket(s.ticket(activity, user, sn, at), activity, sn)
		require.NoError(t, err)
		require.Equal(t, ticket{user, at}, got)
	})
}

// Only sealed tokens verify. All others fail without a panic.
func FuzzOpenPath(f *testing.F) {
	s := seal(f, "k")
	good, err := s.path("7", "alice", "123", noon)
	require.NoError(f, err)
	for _, c := range []string{"", good, good[:43], "AQ", strings.Repeat("A", 44), strings.Repeat("_", 44), good[:42] + "\r\n"} {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if p, err := s.openPath(token, "7", "alice"); err == nil && (token != good || p.orderSN != "123") {
			t.Fatalf("%q opens as %+v", token, p)
		}
		if got, err := s.openTicket(token, "7", "123"); err == nil {
			t.Fatalf("%q opens as a ticket of %+v", token, got)
		}
	})
}
