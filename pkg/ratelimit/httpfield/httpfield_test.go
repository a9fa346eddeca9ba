package httpfield

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFields(t *testing.T) {
	require.Equal(t, `"buy-user";q=10;w=60`, string(AppendPolicy(nil, Policy{"buy-user", 10, time.Minute})))
	require.Equal(t, `"x";q=100;w=1`, string(AppendPolicy(nil, Policy{"x", 10, 100 * time.Millisecond})))
	require.Equal(t, `"x";q=20;w=3`, string(AppendPolicy(nil, Policy{"x", 17, 2500 * time.Millisecond})))
	require.Equal(t, `"buy-user";r=3;t=12`, string(AppendLimit(nil, Limit{"buy-user", 3, 11*time.Second + 1})))
	require.Equal(t, `"a\"b\\c";r=0;t=0`, string(AppendLimit(nil, Limit{"a\"b\\c\r\né", -1, -1})))
}

func TestParse(t *testing.T) {
	ps, err := ParsePolicies(`"a";q=10;w=60;pk=:Zm9v:, "b";q=1;qu="concurrent-requests";w=1;x`)
	require.NoError(t, err)
	require.Equal(t, []Policy{{"a", 10, time.Minute}, {"b", 1, time.Second}}, ps)
	ls, err := ParseLimits(` "a";r=0;t=2 ,"b";r=5 `)
	require.NoError(t, err)
	require.Equal(t, []Limit{{"a", 0, 2 * time.Second}, {"b", 5, 0}}, ls)
	for _, bad := range []string{
		`a;r=1`, `"a"`, `"a`, `"a";r=`, `"a";r=-1`, `"a";r=1,`, `"a";R=1`, `"a\x";r=1`,
		`"a";r=99999999999999`, `"a";r=1 "b";r=1`, "\"\x00\";r=1",
	} {
		_, err := ParseLimits(bad)
		require.Error(t, err, bad)
	}
}

// Trap 28: a Retry-After of the whole window delays clients too long; rounding down makes them retry too early;
// without a spread all retry at once.
func TestTrap28RetryAfter(t *testing.T) {
	require.Equal(t, "1", RetryAfter(0, -1))
	require.Equal(t, "1", RetryAfter(time.Millisecond, -1))
	require.Equal(t, "2", RetryAfter(time.Second+1, -1))
	seen := map[string]bool{}
	for range 1000 {
		v := RetryAfter(10*time.Second, 0.2)
		n, err := strconv.Atoi(v)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, 10)
		require.LessOrEqual(t, n, 13)
		seen[v] = true
	}
	require.Len(t, seen, 4)
}

func FuzzFields(f *testing.F) {
	f.Add("name", int64(10), int64(time.Minute), `"a";r=1;t=2, "b";r=3`)
	f.Add("\"\\\x00", int64(-1), int64(-1), `"a";q=10;w=60;pk=:Zm9v:`)
	f.Fuzz(func(t *testing.T, name string, n, d int64, field string) {
		n, d = n%maxSeconds, d%int64(100*365*24*time.Hour)
		got, err := ParseLimits(string(AppendLimit(nil, Limit{name, n, time.Duration(d)})))
		if err != nil || len(got) != 1 || got[0].Remaining != max(0, n) || got[0].Reset < time.Duration(d) {
			t.Fatalf("%q %d %d: %+v %v", name, n, d, got, err)
		}
		if _, err := ParsePolicies(string(AppendPolicy(nil,
			Policy{name, max(0, n), max(time.Duration(d).Abs(), time.Second)}))); err != nil && n < 1<<20 {
			t.Fatal(err)
		}
		// fields that were parsed are formatted so that they parse to the same
		if ls, err := ParseLimits(field); err == nil {
			var b []byte
			for i, l := range ls {
				if i > 0 {
					b = append(b, ", "...)
				}
				b = AppendLimit(b, l)
			}
			again, err := ParseLimits(string(b))
			if err != nil || len(again) != len(ls) {
				t.Fatalf("%q became %q: %v", field, b, err)
			}
			for i := range ls {
				if again[i] != ls[i] {
					t.Fatalf("%q became %q", field, b)
				}
			}
		}
	})
}

func request(remote string, forwarded ...string) *http.Request {
	r := &http.Request{RemoteAddr: remote, Header: http.Header{}}
	for _, f := range forwarded {
		r.Header.Add("X-Forwarded-For", f)
	}
	return r
}

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

func TestClientIP(t *testing.T) {
	for _, c := range []struct {
		remote    string
		forwarded []string
		want      string
	}{
		{"203.0.113.7:1234", nil, "203.0.113.7"},
		{"203.0.113.7:1234", []string{"1.2.3.4"}, "203.0.113.7"}, // no trusted proxy wrote it
		{"10.0.0.1:1234", nil, "10.0.0.1"},
		{"10.0.0.1:1234", []string{"1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1:1234", []string{"9.9.9.9, 1.2.3.4, 10.0.0.2"}, "1.2.3.4"}, // the client forged 9.9.9.9
		{"10.0.0.1:1234", []string{"9.9.9.9", "1.2.3.4", "10.0.0.2"}, "1.2.3.4"},
		{"10.0.0.1:1234", []string{"9.9.9.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:1234", []string{"9.9.9.9, ,"}, "10.0.0.1"},
		{"10.0.0.1:1234", []string{"1.2.3.4:5678"}, "1.2.3.4"},
		{"[fd00::1]:1234", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"[::ffff:10.0.0.1]:1234", []string{"::ffff:1.2.3.4"}, "1.2.3.4"},
		{"[fe80::1%eth0]:1234", nil, "fe80::1"},
		{"10.0.0.1:1", []string{strings.Repeat("10.0.0.3, ", 100) + "10.0.0.9"}, "10.0.0.3"},
	} {
		a, ok := ClientIP(request(c.remote, c.forwarded...), proxies)
		require.True(t, ok)
		require.Equal(t, c.want, a.String(), "%s %q", c.remote, c.forwarded)
	}
	_, ok := ClientIP(request("@"), proxies)
	require.False(t, ok)
}

func TestSubject(t *testing.T) {
	require.Equal(t, "1.2.3.4", Subject(netip.MustParseAddr("1.2.3.4")))
	require.Equal(t, "2001:db8:1:2::/64", Subject(netip.MustParseAddr("2001:db8:1:2:3:4:5:6")))
	require.Equal(t, Subject(netip.MustParseAddr("2001:db8:1:2::1")), Subject(netip.MustParseAddr("2001:db8:1:2:ffff::")))
}

// FuzzClientIP: whatever a client sends, the result is the address of the connection or the last entry that is not a
// trusted proxy.
func FuzzClientIP(f *testing.F) {
	f.Add("1.2.3.4:5", "6.7.8.9")
	f.Add("10.0.0.1:5", "6.7.8.9, 10.0.0.2")
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		direct, ok := ClientIP(request(remote), nil)
		if !ok {
			return
		}
		if a, _ := ClientIP(request(remote, forwarded), nil); a != direct {
			t.Fatalf("%q: an untrusted header made %s of %s", forwarded, a, direct)
		}
		if a, ok := ClientIP(request("10.0.0.1:1", forwarded+", 203.0.113.7"), proxies); !ok || a.String() != "203.0.113.7" {
			t.Fatalf("%q made %s of 203.0.113.7", forwarded, a)
		}
	})
}
