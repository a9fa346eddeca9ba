package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIntervalsAreDifferencesOfReadings(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	require.Empty(t, intervalsOf(nil))
	require.Empty(t, intervalsOf([]reading{{at: began}}))
	require.Equal(t, []interval{
		{took: 10 * time.Second, accepted: 100, landed: 50, oldest: time.Second},
		{from: 10 * time.Second, took: 20 * time.Second, accepted: 25, landed: 75, unavailable: 4},
	}, intervalsOf([]reading{
		{at: at(0), accepted: 0, created: 5000, unavailable: 2},
		{at: at(10), accepted: 1000, created: 5500, unavailable: 2, oldest: time.Second},
		{at: at(20), err: errors.New("metrics not readable")},
		{at: at(30), accepted: 1500, created: 7000, unavailable: 6},
	}))
}

func TestAgeOfTheOldestJournalEntry(t *testing.T) {
	now := time.UnixMilli(1_700_000_005_500)
	age, err := entryAge("1700000004000-12", now)
	require.NoError(t, err)
	require.Equal(t, 1500*time.Millisecond, age)
	age, err = entryAge("1700000009000-0", now)
	require.NoError(t, err)
	require.Zero(t, age, "a later clock")
	_, err = entryAge("abc", now)
	require.ErrorContains(t, err, `id "abc"`)
}
