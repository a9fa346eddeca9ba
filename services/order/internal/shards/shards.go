// Package shards assigns ids to users by the gene in the id.
package shards

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/order/internal/core"
)

// Genes implements core.Shards.
type Genes struct{}

var _ core.Shards = Genes{}

// Belongs implements core.Shards.
func (Genes) Belongs(orderSN, userID string) bool { return ordersn.Belongs(orderSN, userID) }

// NewPaymentID implements core.Shards. An id has 55 random bits, not all zero, and the 8 bits of the user's gene.
func (Genes) NewPaymentID(userID string) (string, error) {
	var b [8]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return "", err
		}
		random := binary.BigEndian.Uint64(b[:]) >> 9 // 55 bits
		if random != 0 {
			return strconv.FormatUint(random<<8|uint64(ordersn.Gene(userID)), 10), nil
		}
	}
}
