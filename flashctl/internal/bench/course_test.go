package bench

import (
	"bufio"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIntervalsAreDifferencesOfReadings(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	require.Empty(t, intervals(nil))
	require.Empty(t, intervals([]reading{{at: began}}))
	require.Equal(t, []Interval{
		{Took: 10 * time.Second, Accepted: 100, Landed: 50, Oldest: time.Second},
		{From: 10 * time.Second, Took: 20 * time.Second, Accepted: 25, Landed: 75, Unavailable: 4},
	}, intervals([]reading{
		{at: at(0), accepted: 0, created: 5000, unavailable: 2},
		{at: at(10), accepted: 1000, created: 5500, unavailable: 2, oldest: time.Second},
		{at: at(20), err: errors.New("metrics not readable")},
		{at: at(30), accepted: 1500, created: 7000, unavailable: 6},
	}))
}

func TestAgeOfTheOldestJournalEntry(t *testing.T) {
	now := time.UnixMilli(1_700_000_005_500)
	for name, c := range map[string]struct {
		reply string
		want  time.Duration
		err   string
	}{
		"an entry":        {"*1\r\n*2\r\n$17\r\n1700000004000-12\r\n*2\r\n$1\r\ne\r\n", 1500 * time.Millisecond, ""},
		"an empty stream": {"*0\r\n", 0, ""},
		"a later clock":   {"*1\r\n*2\r\n$17\r\n1700000009000-0\r\n", 0, ""},
		"an error":        {"-LOADING Redis is loading\r\n", 0, "LOADING"},
		"half a reply":    {"*1\r\n*2\r\n", 0, "EOF"},
		"no id":           {"*1\r\n*2\r\n$3\r\nabc\r\n", 0, `id "abc"`},
	} {
		t.Run(name, func(t *testing.T) {
			age, err := entryAge(bufio.NewReader(strings.NewReader(c.reply)), now)
			require.Equal(t, c.want, age)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}
