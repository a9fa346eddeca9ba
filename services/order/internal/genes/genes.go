// Package genes checks and issues ids that carry the gene of a user.
package genes

import (
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/order/internal/core"
)

// ByUser implements core.Genes: the gene is a hash of the user id.
type ByUser struct{}

var _ core.Genes = ByUser{}

// Belongs implements core.Genes.
func (ByUser) Belongs(orderSN, userID string) bool { return ordersn.Belongs(orderSN, userID) }

// NewPaymentID implements core.Genes. An id has 55 random bits, not all zero, and the 8 bits of the user's gene.
func (ByUser) NewPaymentID(userID string) (string, error) {
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
