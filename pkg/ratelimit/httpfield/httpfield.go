// Package httpfield implements the HTTP side of limits: the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 (lists of structured fields, RFC 9651), Retry-After (RFC 9110), and the
// address of the client.
package httpfield

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Policy is one item of RateLimit-Policy: Quota requests per Window.
type Policy struct {
	Name   string
	Quota  int64
	Window time.Duration // written in whole seconds, at least one
}

// Limit is one item of RateLimit: Remaining requests are left, and the quota is restored within Reset.
type Limit struct {
	Name      string
	Remaining int64
	Reset     time.Duration
}

// Seconds returns d in whole seconds, rounded up so that no client retries too early.
func Seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// AppendPolicy appends `"name";q=10;w=60`. A window with a fraction of a second is rounded up to whole seconds, and
// its quota scaled to that time.
func AppendPolicy(b []byte, p Policy) []byte {
	window := max(1, Seconds(p.Window))
	quota := p.Quota
	if rounded := time.Duration(window) * time.Second; p.Window > 0 && rounded != p.Window {
		quota = int64(float64(quota) * (float64(rounded) / float64(p.Window)))
	}
	b = appendName(b, p.Name)
	b = strconv.AppendInt(append(b, ";q="...), quota, 10)
	return strconv.AppendInt(append(b, ";w="...), window, 10)
}

// AppendLimit appends `"name";r=3;t=12`.
func AppendLimit(b []byte, l Limit) []byte {
	b = appendName(b, l.Name)
	b = strconv.AppendInt(append(b, ";r="...), max(0, l.Remaining), 10)
	return strconv.AppendInt(append(b, ";t="...), Seconds(l.Reset), 10)
}

// appendName appends a String of RFC 9651, without the characters that it cannot contain.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ' && c <= '~':
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// RetryAfter returns the value of the field: wait in whole seconds, at least one. If spread is positive, it is extended
// at random by up to that fraction, plus one second, so that clients refused together do not all retry together.
func RetryAfter(wait time.Duration, spread float64) string {
	seconds := max(1, Seconds(wait))
	if extra := int64(float64(seconds)*spread + 1); spread > 0 {
		seconds += rand.Int64N(extra + 1) //nolint:gosec // jitter
	}
	return strconv.FormatInt(seconds, 10)
}

var errSyntax = errors.New("not a list of limits")

// ParsePolicies parses a RateLimit-Policy field.
func ParsePolicies(field string) ([]Policy, error) {
	var out []Policy
	err := parse(field, func(name string, params map[string]int64) error {
		q, ok := params["q"]
		if !ok {
			return fmt.Errorf("%q has no quota", name)
		}
		out = append(out, Policy{Name: name, Quota: q, Window: time.Duration(params["w"]) * time.Second})
		return nil
	})
	return out, err
}

// ParseLimits parses a RateLimit field.
func ParseLimits(field string) ([]Limit, error) {
	var out []Limit
	err := parse(field, func(name string, params map[string]int64) error {
		r, ok := params["r"]
		if !ok {
			return fmt.Errorf("%q has no remaining quota", name)
		}
		out = append(out, Limit{Name: name, Remaining: r, Reset: time.Duration(params["t"]) * time.Second})
		return nil
	})
	return out, err
}

const maxSeconds = 1 << 33 // fits into a Duration

// parse parses the items of a list: strings with parameters. It skips parameters whose values are not numbers.
func parse(field string, item func(name string, params map[string]int64) error) error {
	rest := strings.Trim(field, " ")
	for rest != "" {
		name, after, err := parseString(rest)
		if err != nil {
			return err
		}
		params := map[string]int64{}
		for strings.HasPrefix(after, ";") {
			after = strings.TrimLeft(after[1:], " ")
			n := 0
			for n < len(after) && strings.IndexByte("abcdefghijklmnopqrstuvwxyz0123456789_-.*", after[n]) >= 0 {
				n++
			}
			key := after[:n]
			if after = after[n:]; key == "" || key[0] < 'a' || key[0] > 'z' {
				return errSyntax
			}
			if !strings.HasPrefix(after, "=") {
				continue // a boolean parameter
			}
			n, quoted := 1, false
			for n < len(after) && (quoted || strings.IndexByte(";, ", after[n]) < 0) {
				if after[n] == '"' {
					quoted = !quoted
				}
				n++
			}
			if v, err := strconv.ParseInt(after[1:n], 10, 64); err == nil {
				if v < 0 || v > maxSeconds {
					return fmt.Errorf("%s=%d is out of range", key, v)
				}
				params[key] = v
			} else if n == 1 {
				return errSyntax
			}
			after = after[n:]
		}
		if err := item(name, params); err != nil {
			return err
		}
		after = strings.TrimLeft(after, " \t")
		if after == "" {
			return nil
		}
		if after[0] != ',' {
			return errSyntax
		}
		if rest = strings.TrimLeft(after[1:], " \t"); rest == "" {
			return errSyntax
		}
	}
	return nil
}

func parseString(s string) (name, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", errSyntax
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || (s[i] != '"' && s[i] != '\\') {
				return "", "", errSyntax
			}
			b.WriteByte(s[i])
		case c < ' ' || c > '~':
			return "", "", errSyntax
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errSyntax
}
