package challenge

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

func newClicks(size int, needed func() bool) *Clicks {
	return NewClicks(size, func(context.Context) bool { return needed() }, func() bool { return false },
		slog.New(slog.DiscardHandler))
}

// An image is given to four users and to none twice. Those that the fewest users got come first.
func TestAnImageIsUsedFourTimes(t *testing.T) {
	c := newClicks(2, func() bool { return true })
	_, _, ok := c.Take("ann")
	require.False(t, ok)
	for i := range 2 {
		c.put(&drawing{Click: Click{Image: strconv.Itoa(i)}})
	}
	uses := map[string]int{}
	for i := range 2 * imageUses {
		image, _, ok := c.Take("user" + strconv.Itoa(i))
		require.True(t, ok)
		uses[image.Image]++
		if i == 1 {
			require.Len(t, uses, 2, "the unused one first")
		}
	}
	require.Equal(t, map[string]int{"0": imageUses, "1": imageUses}, uses)
	_, _, ok = c.Take("eve")
	require.False(t, ok)

	c.put(&drawing{})
	_, _, ok = c.Take("ann")
	require.True(t, ok)
	_, _, ok = c.Take("ann")
	require.False(t, ok, "the same user")
	_, _, ok = c.Take("bob")
	require.True(t, ok)
}

// Images are drawn only while they are needed, up to the bound. Fresh ones replace those that users got.
func TestDrawing(t *testing.T) {
	var needed atomic.Bool
	asked := make(chan struct{}, 1)
	c := newClicks(2, func() bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return needed.Load()
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-asked
	require.Zero(t, c.fresh())
	needed.Store(true)
	require.Eventually(t, func() bool { return c.fresh() == 2 }, time.Minute, 10*time.Millisecond)
	_, _, ok := c.Take("ann")
	require.True(t, ok)
	require.Eventually(t, func() bool { return c.fresh() == 2 }, time.Minute, 10*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	for range 2 {
		_, _, ok = c.Take("ann")
		require.True(t, ok)
	}
	_, _, ok = c.Take("eve")
	require.True(t, ok, "two images, used once each: the first one was dropped")
}

// Images are drawn while Redis is unavailable, for a sale that goes on without it; but not where no sale has images.
func TestImagesAreDrawnWithoutRedis(t *testing.T) {
	seal, err := core.NewSeal("secret-of-paths-secret-of-paths-")
	require.NoError(t, err)
	var has atomic.Bool
	var unavailable atomic.Bool
	unavailable.Store(true)
	c, err := New(Deps{
		Settings: Settings{Images: 2, Work: WorkForEveryone}, Secrets: []string{"secret-of-paths-secret-of-paths-"},
		HasClicks: func(context.Context) (bool, error) {
			if unavailable.Load() {
				return false, core.ErrUnavailable
			}
			return has.Load(), nil
		},
	}, seal, telemetry.Discard(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	require.Eventually(t, func() bool { return c.clicks.fresh() == 2 }, time.Minute, 10*time.Millisecond, "not known")
	cancel()
	require.NoError(t, <-ended)

	unavailable.Store(false)
	require.False(t, c.clicks.needed(t.Context()))
	unavailable.Store(true)
	require.False(t, c.clicks.needed(t.Context()), "as last read")
	unavailable.Store(false)
	has.Store(true)
	require.True(t, c.clicks.needed(t.Context()))
	unavailable.Store(true)
	require.True(t, c.clicks.needed(t.Context()), "as last read")
}

// The best answer without sight is right at most once in 2,000 times. It names a column for each character, each order
// being as likely as another, and in each column the place that lies on the most characters.
func TestBlindAnswers(t *testing.T) {
	pen, err := newArtist()
	require.NoError(t, err)
	const images = 250
	var seen [shownLetters][]Point
	for range images {
		d, err := pen.draw()
		require.NoError(t, err)
		var columns [shownLetters]bool
		for _, p := range d.points {
			require.False(t, p.outside())
			column := min(int(p.X)*shownLetters/imageWidth, shownLetters-1)
			columns[column] = true
			seen[column] = append(seen[column], p)
		}
		used := 0
		for _, c := range columns {
			if c {
				used++
			}
		}
		require.GreaterOrEqual(t, used, clickLetters-1, "characters are apart")
		require.True(t, d.points.match(d.points[:]))
		swapped := []Point{d.points[1], d.points[0], d.points[2], d.points[3]}
		require.False(t, d.points.match(swapped), "the order counts")
		require.False(t, d.points.match(d.points[:3]))
		near, far := d.points, d.points
		near[2].Y += clickRadius
		far[3].X -= clickRadius + 1
		require.True(t, d.points.match(near[:]))
		require.False(t, d.points.match(far[:]))
	}
	best := 0.0 // share of characters that the best place of a column is on, of the best column
	for _, points := range seen {
		for x := int64(0); x < imageWidth; x += 4 {
			for y := int64(0); y < imageHeight; y += 4 {
				on := 0
				for _, p := range points {
					if dx, dy := p.X-x, p.Y-y; dx*dx+dy*dy <= clickRadius*clickRadius {
						on++
					}
				}
				best = max(best, float64(on)/float64(len(points)))
			}
		}
	}
	orders := 1.0
	for i := range clickLetters {
		orders *= float64(shownLetters - i)
	}
	right := best * best * best * best / orders
	t.Logf("best share of a place %.2f: a blind answer is right once in %.0f times", best, 1/right)
	require.Less(t, right, 1.0/2000)
}

// BenchmarkDraw measures an image with its prompt, encoded. docs/challenge.md states the figure.
func BenchmarkDraw(b *testing.B) {
	pen, err := newArtist()
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		d, err := pen.draw()
		require.NoError(b, err)
		b.ReportMetric(float64(len(d.Image)+len(d.Prompt)), "bytes/image")
	}
}
