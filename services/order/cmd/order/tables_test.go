package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/sqldb/dbtest"
)

func TestTablesAreChangedByTheCommand(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	t.Setenv("APP_ENV", "development")
	t.Setenv("MYSQL_DSN", dbtest.MariaDBDSN(t))
	t.Setenv("ORDER_TABLES", "3")
	require.ErrorContains(t, migrate(t.Context(), log, true), "ORDER_TABLES is 3 and must be 1, 2, 4, 8 or 16")
	t.Setenv("ORDER_TABLES", "2")
	require.NoError(t, migrate(t.Context(), log, true))
	for _, args := range [][]string{nil, {"four"}, {"1", "2"}, {"--all"}} {
		require.ErrorIs(t, changeTables(t.Context(), log, args, &strings.Builder{}), command.ErrUsage, "%q", args)
	}
	for _, tt := range []struct{ arg, out string }{
		{"2", "Number of order tables: 2, as before.\n"},
		{"1", "0 orders copied\n0 orders compared\nNumber of order tables: 1. The old ones have the suffix _old.\n"},
		{"--drop-old", "dropped orders_1_00_old\ndropped orders_1_01_old\n"},
		{"--drop-old", "there are no old tables\n"},
	} {
		var out strings.Builder
		require.NoError(t, changeTables(t.Context(), log, []string{tt.arg}, &out))
		require.Equal(t, tt.out, out.String())
	}
	require.ErrorContains(t, changeTables(t.Context(), log, []string{"5"}, &strings.Builder{}), "must be 1, 2, 4, 8 or 16")
}
