package procstat_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/procstat"
)

func TestThisProcess(t *testing.T) {
	before, err := procstat.CPU(os.Getpid())
	require.NoError(t, err)
	machine, err := procstat.Machine()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for range 10_000_000 { // uses processor time
		}
		now, err := procstat.CPU(os.Getpid())
		later, err2 := procstat.Machine()
		// Linux updates the two at different moments
		return err == nil && err2 == nil && now > before && later > machine
	}, 30*time.Second, time.Millisecond)

	now, peak, err := procstat.Memory(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, now, int64(1<<20))
	require.GreaterOrEqual(t, peak, now)

	_, err = procstat.CPU(1 << 30)
	require.Error(t, err)
	_, _, err = procstat.Memory(1 << 30)
	require.Error(t, err)
}
