package main

import (
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/command"
)

func TestEpochNewRequiresATime(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, args := range [][]string{nil, {"--since"}, {"--since", "yesterday"}, {"--since", "2026-11-23T10:00:00Z", "x"}, {"x"}} {
		require.ErrorIs(t, newEpoch(t.Context(), log, args, io.Discard), command.ErrUsage, "%v", args)
	}
	require.ErrorIs(t, epochStatus(t.Context(), log, []string{"x"}, io.Discard), command.ErrUsage)
}
