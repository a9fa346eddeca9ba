package ordersn_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ordersn"
)

func TestFileLeaseOutlivesRestarts(t *testing.T) {
	dir := t.TempDir()
	last := int64(0)
	for round := range 6 {
		l, err := ordersn.OpenFileLease(dir)
		require.NoError(t, err)
		_, err = ordersn.OpenFileLease(dir)
		require.Error(t, err, "a second process on one directory")
		g := ordersn.NewGenerator(l, nil)
		for range 300 {
			sn, err := g.Next("u")
			require.NoError(t, err)
			n := number(t, sn)
			require.Greater(t, n, last)
			last = n
		}
		if round%2 == 0 { // else: killed; the mark stays ahead of the issued times
			require.NoError(t, l.Close())
			_, ok := l.Worker(time.Now().UnixMilli())
			require.False(t, ok, "closed")
			require.NoError(t, l.Close(), "again")
			continue
		}
		ordersn.Kill(l)
	}
}

func TestFileLeaseAfterTheClockWasSetBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ordersn.high-water")
	future := time.Now().Add(time.Hour).UnixMilli()
	require.NoError(t, os.WriteFile(path, []byte(strconv.FormatInt(future, 10)), 0o600))
	l, err := ordersn.OpenFileLease(dir)
	require.NoError(t, err)
	g := ordersn.NewGenerator(l, nil)
	for range 1000 {
		text, err := g.Next("u")
		require.NoError(t, err)
		sn, err := ordersn.Parse(text)
		require.NoError(t, err)
		require.Greater(t, sn.Time.UnixMilli(), future)
	}
	require.NoError(t, l.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	high, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	require.NoError(t, err)
	require.Greater(t, high, future)
}

func TestFileLeaseWrittenAhead(t *testing.T) {
	dir := t.TempDir()
	l, err := ordersn.OpenFileLease(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	far := time.Now().Add(time.Minute).UnixMilli()
	_, ok := l.Worker(far)
	require.True(t, ok)
	text, err := os.ReadFile(filepath.Join(dir, "ordersn.high-water"))
	require.NoError(t, err)
	high, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, high, far)
}

func TestFileLeaseRefusesAnInvalidFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ordersn.high-water"), []byte("soon"), 0o600))
	_, err := ordersn.OpenFileLease(dir)
	require.ErrorContains(t, err, "does not hold a number")
	_, err = ordersn.OpenFileLease(filepath.Join(dir, "nowhere"))
	require.Error(t, err)
}
