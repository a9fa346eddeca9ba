package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
)

// unusableStore is a store whose every method panics.
type unusableStore struct{ core.Store }

// An order_sn with the gene of another user cannot be the caller's, so no query is made for it.
func TestAnotherUsersOrderSNIsNotFoundWithoutAQuery(t *testing.T) {
	t.Parallel()
	provider := &provider{refunded: map[string]int64{}}
	s := core.New(unusableStore{}, nil, genes.ByUser{}, nil, []core.Provider{provider}, nil, core.Options{})
	sn := ordersn.SN{Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), Worker: 1, Gene: ordersn.Gene("other")}.String()
	for name, call := range map[string]func() error{
		"order":       func() error { _, err := s.Order(t.Context(), "me", sn); return err },
		"payment":     func() error { _, err := s.StartPayment(t.Context(), "me", sn, providerName, core.Call{}); return err },
		"contact":     func() error { _, err := s.Contact(t.Context(), "me", sn); return err },
		"put contact": func() error { return s.PutContact(t.Context(), "me", sn, core.Contact{}) },
		"cancel":      func() error { _, err := s.Cancel(t.Context(), "me", sn); return err },
	} {
		t.Run(name, func(t *testing.T) {
			require.NotPanics(t, func() { require.Equal(t, contract.CodeNotFound, contract.CodeOf(call())) })
		})
	}
}
