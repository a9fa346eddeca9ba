package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
)

func TestTheSystemOfBeforeIsMeasuredWithTheSameSizes(t *testing.T) {
	cfg := Config{
		System: System{Origins: client.Single("http://127.0.0.1:1"), Edge: "127.0.0.1:2", RunDir: "a"},
		Before: &System{Origins: client.Single("http://127.0.0.1:3"), RunDir: "b"},
		Scale:  0.5, Connections: 256, Phase: Installed,
	}
	before := cfg.before()
	require.Equal(t, "127.0.0.1:3", before.seckill())
	require.Equal(t, "b", before.RunDir)
	require.Empty(t, before.Edge)
	require.Nil(t, before.Before)
	require.InDelta(t, cfg.Scale, before.Scale, 0)
	require.Equal(t, "127.0.0.1:1", cfg.seckill())
}

func TestTheReportOfBeforeFollows(t *testing.T) {
	window := Window{Name: "path inline", Took: time.Second, Accepted: 300, Landed: 100}
	r := Report{Phase: Installed, Scale: 1, Windows: []Window{window}}
	window.Accepted = 200
	r.Before = &Report{Phase: Installed, Scale: 1, Windows: []Window{window}}
	var out strings.Builder
	r.Markdown(&out)
	require.Contains(t, out.String(), "| 1.50 | 1.00 |\n")
	_, before, found := strings.Cut(out.String(), "The system of before")
	require.True(t, found)
	require.Contains(t, before, "| path inline | 0 | 1.00 s | 200 |")
	require.NotContains(t, before, "accepted of before")
}
