package auth

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"flashsale.internal/pkg/contract"
)

// mappedPrefix begins every mapped user id. A claim that begins with it is mapped too, so that no claim can equal the
// mapped id of another one.
const mappedPrefix = "u_"

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// UserID returns the user id of a user claim: the claim itself if it is a valid user id, else u_ and the base32 of its
// SHA-256. Orders and reservations hold these ids, so the mapping must never change.
func UserID(claim string) string {
	if contract.ValidUserID(claim) && !strings.HasPrefix(claim, mappedPrefix) {
		return claim
	}
	sum := sha256.Sum256([]byte(claim))
	return mappedPrefix + lowerBase32.EncodeToString(sum[:])
}
