package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
)

func TestPaymentsAreReconciledByTheCommand(t *testing.T) {
	dsn, log := dbtest.MariaDBDSN(t), slog.New(slog.DiscardHandler)
	t.Setenv("APP_ENV", "development")
	t.Setenv("MYSQL_DSN", dsn)
	db, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	require.NoError(t, order.Migrate(t.Context(), db, log))
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	require.NoError(t, db.Table("sandbox_charges").Create(map[string]any{
		"payment_id": 513, "order_sn": 257, "user_id": "u1", "amount": 5, "currency": "EUR", "created_at": at,
	}).Error)
	reconcile := func(args ...string) (string, error) {
		var out strings.Builder
		err := reconcilePayments(t.Context(), log, args, &out)
		return out.String(), err
	}
	_, err = reconcile("--since", at.Format(time.RFC3339))
	require.ErrorContains(t, err, "PAYMENT_PROVIDERS")
	t.Setenv("PAYMENT_PROVIDERS", "sandbox")
	for _, args := range [][]string{nil, {"--since", "yesterday"}, {"--since", at.Format(time.RFC3339), "now"}, {"--all"}} {
		_, err := reconcile(args...)
		require.ErrorIs(t, err, command.ErrUsage, "%q", args)
	}
	const refunds = "refunds since 2026-11-21T10:00:00Z: total=0\n"
	for _, tt := range []struct{ arg, out string }{
		{"--keep-missing", "charges since 2026-11-21T10:00:00Z: total=1, kept=1\n" + refunds},
		{"--keep-missing=false", "charge 513 of sandbox: order 257, 5 EUR: the order does not exist: recorded, and refunded in full\n" +
			"charges since 2026-11-21T10:00:00Z: total=1, no_order=1\n" + refunds},
		{"--keep-missing=false", "charges since 2026-11-21T10:00:00Z: total=1, known=1\n" + refunds},
	} {
		out, err := reconcile("--since", at.Format(time.RFC3339), tt.arg)
		require.NoError(t, err)
		require.Equal(t, tt.out, out)
	}
}
