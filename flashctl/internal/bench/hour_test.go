package bench

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/internal/latency"
	"flashsale.internal/flashctl/internal/load"
)

func TestHourIsPrintedAndDrawnByMinute(t *testing.T) {
	r := Report{Hour: &Hour{
		Users: 1000, For: time.Hour, Slot: time.Minute, Behind: 2 * time.Second,
		Result: load.ArrivalsResult{Took: 61 * time.Minute, Slots: []load.ArrivalsSlot{
			{
				Arrived: 90_000, Paths: 60_000, Refused: 120_000, Unavailable: 7, Accepted: 59_400,
				Path:     latency.Summary{P99: 900 * time.Millisecond},
				Purchase: latency.Summary{P99: 30 * time.Millisecond}, Waited: latency.Summary{P99: 20 * time.Second},
			},
			{Arrived: 6000, Paths: 6000, Accepted: 6600},
		}},
		First: map[string]Memory{"seckill": {Now: 100 << 20}}, Last: map[string]Memory{"seckill": {Now: 700 << 20}},
	}}
	var out strings.Builder
	r.Markdown(&out)
	require.Contains(t, out.String(), "| 1 | 1500 | 1000 | 2000 | 7 | 990 | 900 ms | 30 ms | 20.0 s |\n")
	require.Contains(t, out.String(), "| 2 | 100 | 100 | 0 | 0 | 110 |")
	require.Contains(t, out.String(), "| seckill | 100 | 700 |")

	var svg strings.Builder
	drawn, err := r.HourPicture(&svg)
	require.NoError(t, err)
	require.True(t, drawn)
	require.Equal(t, 3, strings.Count(svg.String(), "<polyline"))
	require.Contains(t, svg.String(), ">2000</text>", "the axis ends above 1500")
	for d := xml.NewDecoder(strings.NewReader(svg.String())); ; {
		if _, err := d.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	drawn, err = (&Report{}).HourPicture(&svg)
	require.NoError(t, err)
	require.False(t, drawn)
}

func TestAxisEndsAtARoundNumber(t *testing.T) {
	for v, want := range map[float64]float64{0.5: 1, 1: 1, 3: 4, 81: 100, 1500: 2000, 8000: 8000} {
		require.InDelta(t, want, axisTop(v), 0)
	}
}
