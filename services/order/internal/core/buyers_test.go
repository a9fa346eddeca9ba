package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/shards"
)

// unreachable is a store of which any use panics.
type unreachable struct{ core.Store }

// An order_sn that carries another user's gene cannot be the caller's, so the database is not asked about it.
func TestAnotherUsersOrderSNIsNotFoundWithoutAQuery(t *testing.T) {
	provider := &provider{given: map[string]int64{}}
	s := core.New(unreachable{}, nil, shards.Genes{}, nil, []core.Provider{provider}, core.Options{})
	sn := ordersn.SN{Time: time.Now(), Worker: 1, Gene: ordersn.Gene("other")}.String()
	for name, ask := range map[string]func() error{
		"order":   func() error { _, err := s.Order(t.Context(), "me", sn); return err },
		"payment": func() error { _, err := s.StartPayment(t.Context(), "me", sn, providerName, core.Call{}); return err },
		"cancel":  func() error { _, err := s.Cancel(t.Context(), "me", sn); return err },
	} {
		t.Run(name, func(t *testing.T) {
			require.NotPanics(t, func() { require.Equal(t, contract.CodeNotFound, contract.CodeOf(ask())) })
		})
	}
}
