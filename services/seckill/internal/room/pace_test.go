package room

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceFollowsOverload(t *testing.T) {
	var p pace
	require.InDelta(t, 1, p.share(), 0)
	p.waited(slowWait - time.Millisecond)
	p.adjust()
	require.InDelta(t, 1, p.share(), 0)
	p.waited(slowWait)
	p.adjust()
	require.InDelta(t, 0.8, p.share(), 1e-9)
	for range 50 {
		p.shed()
		p.adjust()
	}
	require.InDelta(t, leastPace, p.share(), 1e-9)
	for range 45 {
		p.adjust()
	}
	require.InDelta(t, 1, p.share(), 1e-9)
}
