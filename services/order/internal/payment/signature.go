// Package payment signs and verifies the callbacks of payment providers.
package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header carries a callback's signature: t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">.
const Header = "Payment-Signature"

// Tolerance is the largest accepted difference between a callback's time and the local time, in either direction.
const Tolerance = 5 * time.Minute

const (
	maxHeader     = 512
	maxSignatures = 5 // one per secret while secrets are rotated
)

var (
	errMalformed = errors.New("signature header is malformed")
	errTime      = errors.New("signature is too old or from the future")
	errWrong     = errors.New("signature is wrong")
)

// Sign returns the value of Header for a body.
func Sign(secret string, body []byte, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

// RequestText returns the text that the signature of a request to a provider covers; that of a callback covers its body.
func RequestText(r *http.Request, body []byte) []byte {
	return fmt.Appendf(nil, "%s %s\n%s", r.Method, r.URL.RequestURI(), body)
}

// Verify checks the value of Header over the unparsed body. It accepts a signature by any of the secrets; there is
// more than one while secrets are rotated.
func Verify(secrets []string, header string, body []byte, now time.Time) error {
	t, at, signatures, err := parse(header)
	if err != nil {
		return err
	}
	if d := now.Sub(at); d > Tolerance || d < -Tolerance {
		return errTime
	}
	ok := false
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		want := mac(secret, t, body)
		for _, s := range signatures {
			ok = hmac.Equal(want, s) || ok
		}
	}
	if !ok {
		return errWrong
	}
	return nil
}

// parse splits the header into one t and one or more v1. It ignores other names, which later versions may add.
func parse(header string) (t string, at time.Time, signatures [][]byte, err error) {
	if header == "" || len(header) > maxHeader {
		return "", time.Time{}, nil, errMalformed
	}
	for element := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(element), "=")
		if !ok {
			return "", time.Time{}, nil, errMalformed
		}
		switch name {
		case "t":
			unix, err := strconv.ParseInt(value, 10, 64)
			// Only the canonical form is accepted, so that the signed text equals the parsed number. The bound keeps
			// time arithmetic exact.
			if err != nil || t != "" || unix < 0 || unix > 1<<40 || strconv.FormatInt(unix, 10) != value {
				return "", time.Time{}, nil, errMalformed
			}
			t, at = value, time.Unix(unix, 0)
		case "v1":
			sum, err := hex.DecodeString(value)
			if err != nil || len(sum) != sha256.Size || len(signatures) == maxSignatures {
				return "", time.Time{}, nil, errMalformed
			}
			signatures = append(signatures, sum)
		}
	}
	if t == "" || len(signatures) == 0 {
		return "", time.Time{}, nil, errMalformed
	}
	return t, at, signatures, nil
}

func mac(secret, t string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(t))
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}
