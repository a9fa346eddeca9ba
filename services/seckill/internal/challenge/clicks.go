package challenge

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	imageUses = contract.ChallengeImageUses
	idlePause = time.Second
	// While the load shedder refuses requests, drawing pauses for this many times as long as an image took. Otherwise it
	// pauses for as long as an image took, and so uses half a core at most.
	shedPause = 9
)

// Click is an image with characters: the buyer clicks those of the prompt, in their order.
type Click struct {
	Image, Prompt                            string // data URLs
	Width, Height, PromptWidth, PromptHeight int64
}

// Point is a place in an image, in pixels from its left upper corner.
type Point struct{ X, Y int64 }

func (p Point) outside() bool { return p.X < 0 || p.X > imageWidth || p.Y < 0 || p.Y > imageHeight }

// Points are the centres of the characters to click, in their order.
type Points [clickLetters]Point

// match reports whether each place that the buyer clicked is on its character.
func (p Points) match(clicked []Point) bool {
	for i := range clicked {
		x, y := clicked[i].X-p[i].X, clicked[i].Y-p[i].Y
		if x*x+y*y > clickRadius*clickRadius {
			return false
		}
	}
	return len(clicked) == len(p)
}

// drawing is an image with its solution and the users who got it.
type drawing struct {
	Click
	points Points
	users  []string
}

// Clicks holds images that a loop draws. An image is given to imageUses users at most, and to none twice.
type Clicks struct {
	size int
	// needed reports whether some activity needs images, overloaded whether requests are refused for overload.
	needed     func(ctx context.Context) bool
	overloaded func() bool
	log        *slog.Logger

	mu    sync.Mutex
	drawn [imageUses][]*drawing // by the number of users who got the image
}

// NewClicks returns a store of at most size images, about 20 KB each. Run draws them.
func NewClicks(size int, needed func(context.Context) bool, overloaded func() bool, log *slog.Logger) *Clicks {
	return &Clicks{size: size, needed: needed, overloaded: overloaded, log: log}
}

// Take returns one of the images that the fewest users got, and its solution; false if there is none that this user has
// not got. It does not wait.
func (c *Clicks) Take(userID string) (Click, Points, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uses, drawn := range c.drawn {
		if len(drawn) == 0 {
			continue
		}
		first := rand.IntN(len(drawn)) //nolint:gosec // the solution is secret, the choice of the image is not
		for i := range drawn {
			at := (first + i) % len(drawn)
			d := drawn[at]
			if slices.Contains(d.users, userID) {
				continue
			}
			c.remove(uses, at)
			if d.users = append(d.users, userID); len(d.users) < imageUses {
				c.drawn[uses+1] = append(c.drawn[uses+1], d)
			}
			return d.Click, d.points, true
		}
	}
	return Click{}, Points{}, false
}

// remove removes an image. The order of the others is of no meaning.
func (c *Clicks) remove(uses, at int) {
	last := len(c.drawn[uses]) - 1
	c.drawn[uses][at] = c.drawn[uses][last]
	c.drawn[uses][last] = nil
	c.drawn[uses] = c.drawn[uses][:last]
}

// Any reports whether an image is left, for any user.
func (c *Clicks) Any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, drawn := range c.drawn {
		if len(drawn) > 0 {
			return true
		}
	}
	return false
}

// fresh returns the number of images that no user got.
func (c *Clicks) fresh() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.drawn[0])
}

// put adds an image. If there are too many, the one that the most users got is dropped.
func (c *Clicks) put(d *drawing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drawn[0] = append(c.drawn[0], d)
	held, most := 0, 0
	for uses := range c.drawn {
		if n := len(c.drawn[uses]); n > 0 {
			held, most = held+n, uses
		}
	}
	if held > c.size {
		c.remove(most, 0)
	}
}

// Run draws images until ctx ends.
func (c *Clicks) Run(ctx context.Context) error {
	var pen *artist
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		pause := idlePause
		if c.fresh() < c.size && c.needed(ctx) {
			begin := time.Now()
			d, err := (*drawing)(nil), error(nil)
			if pen == nil {
				pen, err = newArtist()
			}
			if err == nil {
				d, err = pen.draw()
			}
			if err != nil {
				c.log.ErrorContext(ctx, "draw an image", "error", err)
			} else {
				c.put(d)
				if pause = time.Since(begin); c.overloaded() {
					pause *= shedPause
				}
			}
		}
		timer.Reset(pause)
	}
}
