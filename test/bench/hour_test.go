package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/load"
)

func TestHourIsPrintedAndDrawnByMinute(t *testing.T) {
	slots := []arrivalsSlot{
		{
			Arrived: 90_000, Paths: 60_000, Refused: 120_000, Unavailable: 7, Accepted: 59_400,
			Path:     load.Summary{P99: 900 * time.Millisecond},
			Purchase: load.Summary{P99: 30 * time.Millisecond}, Waited: load.Summary{P99: 20 * time.Second},
		},
		{Arrived: 6000, Paths: 6000, Accepted: 6600},
	}
	table := hourTable(slots, time.Minute)
	var out strings.Builder
	table.markdown(&out)
	require.Contains(t, out.String(), "| 1 | 1500 | 1000 | 2000 | 7 | 990 | 900 ms | 30.0 ms | 20000 ms |\n")
	require.Contains(t, out.String(), "| 2 | 100 | 100 | 0 | 0 | 110 |")

	svg := drawHour("an hour", slots, time.Minute)
	require.Equal(t, 3, strings.Count(svg, "<polyline"))
	require.Contains(t, svg, ">2000</text>", "the axis ends above 1500")
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
}

func TestAxisEndsAtARoundNumber(t *testing.T) {
	for v, want := range map[float64]float64{0.5: 1, 1: 1, 3: 4, 81: 100, 1500: 2000, 8000: 8000} {
		require.InDelta(t, want, axisTop(v), 0)
	}
}
