// Package httpfield has what HTTP says about limits: the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-11 (lists of structured fields, RFC 9651), Retry-After (RFC 9110), and whose request
// it is, by address.
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
	Window time.Duration // whole seconds are told, at least one
}

// Limit is one item of RateLimit: Remaining requests now, and what is there is renewed within Reset.
type Limit struct {
	Name      string
	Remaining int64
	Reset     time.Duration
}

// Seconds is d in whole seconds, rounded up: nobody comes back too early.
func Seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// AppendPolicy appends `"name";q=10;w=60`. A window with a part of a second is told as the whole seconds that it takes, with
// the quota of that time.
func AppendPolicy(b []byte, p Policy) []byte {
	window := max(1, Seconds(p.Window))
	quota := p.Quota
	if told := time.Duration(window) * time.Second; p.Window > 0 && told != p.Window {
		quota = int64(float64(quota) * (float64(told) / float64(p.Window)))
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

// appendName appends a String of RFC 9651. Characters that it cannot have are left out.
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

// RetryAfter is the field's value: wait in whole seconds, at least one, and up to spread (a part of it) more, so that those
// who were refused together do not come back together.
func RetryAfter(wait time.Duration, spread float64) string {
	seconds := max(1, Seconds(wait))
	if extra := int64(float64(seconds)*spread + 1); spread > 0 {
		seconds += rand.Int64N(extra + 1) //nolint:gosec // jitter
	}
	return strconv.FormatInt(seconds, 10)
}

var errSyntax = errors.New("not a list of limits")

// ParsePolicies reads a RateLimit-Policy field.
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

// ParseLimits reads a RateLimit field.
func ParseLimits(field string) ([]Limit, error) {
	var out []Limit
	err := parse(field, func(name string, params map[string]int64) error {
		r, ok := params["r"]
		if !ok {
			return fmt.Errorf("%q tells no remaining quota", name)
		}
		out = append(out, Limit{Name: name, Remaining: r, Reset: time.Duration(params["t"]) * time.Second})
		return nil
	})
	return out, err
}

const maxSeconds = 1 << 33 // so that a Duration holds it

// parse reads the items of a list: strings with parameters whose values are numbers; others are passed over.
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
				continue // a flag
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
