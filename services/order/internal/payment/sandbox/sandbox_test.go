package sandbox_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/payment/conformance"
	"flashsale.internal/services/order/internal/payment/sandbox"
	"flashsale.internal/services/order/internal/store"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]*gorm.DB{"MariaDB": ordertest.MariaDB(t), "SQLite": ordertest.SQLite(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var received []conformance.Callback
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				received = append(received, conformance.Callback{Header: r.Header, Body: body})
				w.WriteHeader(http.StatusNoContent)
			}))
			t.Cleanup(srv.Close)
			p := sandbox.New(sandbox.Config{Secrets: []string{"a-secret-of-the-sandbox"}, CallbackURL: srv.URL, Now: time.Now},
				store.NewSandboxBook(db, nil))
			var last atomic.Int64
			s := conformance.Subject{
				Provider: p,
				New: func(amount int64, currency string) core.Payment {
					id := strconv.FormatInt(last.Add(1), 10)
					return core.Payment{PaymentID: id, OrderSN: "7" + id, UserID: "u1", Amount: amount, Currency: currency}
				},
				Pay: func(ctx context.Context, pay core.Payment, _ core.Begun) ([]conformance.Callback, error) {
					received = nil
					err := p.SendCallback(ctx, pay, core.OutcomeSucceeded, pay.Amount)
					return received, err
				},
			}
			for _, c := range conformance.Cases() {
				require.NoError(t, c.Run(t.Context(), s), c.Name)
			}
		})
	}
}
