package sweep

import (
	"testing"
	"time"
)

func TestDoubled(t *testing.T) {
	for times, want := range []float64{1, 2, 4, 8, 16, 30, 30} {
		if got := doubled(time.Minute, 30*time.Minute, times); got.Minutes() != want {
			t.Errorf("%d: %v", times, got)
		}
	}
	if got := doubled(time.Minute, 30*time.Minute, 1_000_000); got != 30*time.Minute {
		t.Error(got)
	}
}
