package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestLinesOfARow(t *testing.T) {
	t.Parallel()
	for text, lines := range map[string][]contract.PricedLine{
		"":       nil,
		"9:1:20": {{SKUID: "9", Qty: 1, Price: 20}},
		"9223372036854775807:9223372036854775807:9223372036854775807,3:2:1": {
			{SKUID: "9223372036854775807", Qty: 1<<63 - 1, Price: 1<<63 - 1}, {SKUID: "3", Qty: 2, Price: 1},
		},
	} {
		require.Equal(t, text, formatLines(lines))
		parsed, err := parseLines(text)
		require.NoError(t, err)
		require.Equal(t, lines, parsed)
	}
	for _, text := range []string{"9", "9:1", "x:1:1", "9:x:1", "9:1:x", "9:1:1,", ",", "9:1:1:1", "-9:1:1"} {
		_, err := parseLines(text)
		require.Error(t, err, text)
	}
}
