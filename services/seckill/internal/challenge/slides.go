package challenge

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wenlng/go-captcha-assets/resources/tiles"
	"github.com/wenlng/go-captcha/v2/slide"
)

// Size of the images, and times of drawing.
const (
	slideWidth, slideHeight = 300, 220
	drawPause               = 50 * time.Millisecond // between two images: a tenth of a core at most
	idlePause               = time.Second
	slideUses               = 4 // after these many uses an image is drawn anew
	backgroundUses          = 8
)

// Slide is a puzzle: the buyer moves the part to its place in the image, from (PieceX, PieceY) to the right.
type Slide struct {
	Image, Piece                           string // data URLs
	Width, Height, PieceWidth, PieceHeight int64
	PieceX, PieceY                         int64
}

// Slides holds puzzles that a loop draws while the process is not overloaded. Requests only take them: an image may be
// used again while no new one can be drawn.
type Slides struct {
	size int
	// needed reports whether images are to be drawn: some activity needs them, and there is no overload.
	needed func(ctx context.Context) bool
	log    *slog.Logger

	mu    sync.Mutex
	drawn []puzzle
}

type puzzle struct {
	Slide
	x    int64
	uses int
}

// NewSlides returns a store of at most size puzzles, about 60 KB each. Run draws them.
func NewSlides(size int, needed func(ctx context.Context) bool, log *slog.Logger) *Slides {
	return &Slides{size: size, needed: needed, log: log}
}

// Len returns the number of puzzles.
func (s *Slides) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.drawn)
}

// Take returns a puzzle and the x at which its part belongs; false if there is none. It does not wait.
func (s *Slides) Take() (Slide, int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.drawn) == 0 {
		return Slide{}, 0, false
	}
	p := &s.drawn[rand.IntN(len(s.drawn))] //nolint:gosec // the answer is secret, the choice of the image is not
	p.uses++
	return p.Slide, p.x, true
}

// next returns where the next puzzle goes; false if none is to be drawn.
func (s *Slides) next() (at int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.drawn) < s.size {
		return len(s.drawn), true
	}
	at, most := 0, 0
	for i := range s.drawn {
		if s.drawn[i].uses > most {
			at, most = i, s.drawn[i].uses
		}
	}
	return at, most >= slideUses
}

func (s *Slides) put(at int, p puzzle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == len(s.drawn) {
		s.drawn = append(s.drawn, p)
		return
	}
	s.drawn[at] = p
}

// Run draws puzzles until ctx ends.
func (s *Slides) Run(ctx context.Context) error {
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
		if at, ok := s.next(); ok && s.needed(ctx) {
			p, err := puzzle{}, error(nil)
			if pen == nil {
				pen, err = newArtist()
			}
			if err == nil {
				p, err = pen.draw()
			}
			if err != nil {
				s.log.ErrorContext(ctx, "draw a puzzle", "error", err)
			} else {
				s.put(at, p)
				pause = drawPause
			}
		}
		timer.Reset(pause)
	}
}

// artist draws puzzles on backgrounds of its own. It belongs to one goroutine.
type artist struct {
	graphs  []*slide.GraphImage
	captcha slide.Captcha
	left    int // uses of the background
}

func newArtist() (*artist, error) {
	shapes, err := tiles.GetTiles()
	if err != nil {
		return nil, fmt.Errorf("load the shapes of parts: %w", err)
	}
	a := &artist{}
	for _, t := range shapes {
		a.graphs = append(a.graphs, &slide.GraphImage{
			OverlayImage: t.OverlayImage, ShadowImage: t.ShadowImage, MaskImage: t.MaskImage,
		})
	}
	return a, nil
}

func (a *artist) draw() (puzzle, error) {
	if a.left == 0 {
		b := slide.NewBuilder()
		b.SetResources(slide.WithGraphImages(a.graphs), slide.WithBackgrounds([]image.Image{background()}))
		a.captcha, a.left = b.Make(), backgroundUses
	}
	a.left--
	made, err := a.captcha.Generate()
	if err != nil {
		return puzzle{}, err
	}
	img, err := made.GetMasterImage().ToBase64()
	if err != nil {
		return puzzle{}, err
	}
	piece, err := made.GetTileImage().ToBase64()
	if err != nil {
		return puzzle{}, err
	}
	at := made.GetData()
	return puzzle{x: int64(at.X), Slide: Slide{
		Image: img, Piece: piece, Width: slideWidth, Height: slideHeight,
		PieceWidth: int64(at.Width), PieceHeight: int64(at.Height), PieceX: int64(at.DX), PieceY: int64(at.DY),
	}}, nil
}

// background returns a picture of random colours and shapes, so that no collection of pictures answers a puzzle.
func background() image.Image {
	shade := func() color.NRGBA {
		return color.NRGBA{uint8(rand.IntN(256)), uint8(rand.IntN(256)), uint8(rand.IntN(256)), 255} //nolint:gosec // a picture
	}
	img := image.NewNRGBA(image.Rect(0, 0, slideWidth, slideHeight))
	from, to := shade(), shade()
	mix := func(a, b uint8, part float64) uint8 { return uint8(float64(a) + (float64(b)-float64(a))*part) }
	for y := range slideHeight {
		part := float64(y) / slideHeight
		row := color.NRGBA{mix(from.R, to.R, part), mix(from.G, to.G, part), mix(from.B, to.B, part), 255}
		draw.Draw(img, image.Rect(0, y, slideWidth, y+1), image.NewUniform(row), image.Point{}, draw.Src)
	}
	for range 60 {
		x, y, r := rand.IntN(slideWidth), rand.IntN(slideHeight), 6+rand.IntN(34) //nolint:gosec // a picture
		c := shade()
		c.A = 150
		mask := disc{image.Pt(x, y), r}
		draw.DrawMask(img, mask.Bounds(), image.NewUniform(c), image.Point{}, mask, mask.Bounds().Min, draw.Over)
	}
	return img
}

// disc is a mask in the form of a disc.
type disc struct {
	centre image.Point
	radius int
}

func (disc) ColorModel() color.Model { return color.AlphaModel }

func (d disc) Bounds() image.Rectangle {
	return image.Rect(d.centre.X-d.radius, d.centre.Y-d.radius, d.centre.X+d.radius, d.centre.Y+d.radius)
}

func (d disc) At(x, y int) color.Color {
	dx, dy := x-d.centre.X, y-d.centre.Y
	if dx*dx+dy*dy < d.radius*d.radius {
		return color.Alpha{A: 255}
	}
	return color.Alpha{}
}
