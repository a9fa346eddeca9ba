package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
)

// meter returns the given measurements, one at each call.
type meter struct {
	next []func() ([]stockgate.Memory, error)
}

func (m *meter) MeasureMemory(context.Context) ([]stockgate.Memory, error) {
	f := m.next[0]
	m.next = m.next[1:]
	return f()
}

func TestMemoryWatchLogsEachChangeOnce(t *testing.T) {
	master := func(used int64, full bool) func() ([]stockgate.Memory, error) {
		return func() ([]stockgate.Memory, error) {
			return []stockgate.Memory{{Addr: "a", Used: used, Max: 100, Full: full}, {Addr: "b", Used: 1, Max: 100}}, nil
		}
	}
	failed := func() ([]stockgate.Memory, error) { return nil, errors.New("no reply") }
	m := &meter{next: []func() ([]stockgate.Memory, error){
		master(10, false), master(95, true), failed, master(96, true), master(20, false),
	}}
	var out bytes.Buffer
	tel := telemetry.Discard(t)
	tel.Log = slog.New(slog.NewTextHandler(&out, nil))
	w, err := NewMemoryWatch(m, tel)
	require.NoError(t, err)
	for range 5 {
		w.measure(t.Context())
	}
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("purchases get journal_full")), out.String())
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("memory for purchases again")), out.String())
}
