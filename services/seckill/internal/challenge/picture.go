package challenge

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math/rand/v2"

	"github.com/golang/freetype"
	"github.com/golang/freetype/truetype"
	"github.com/wenlng/go-captcha/v2/base/option"
	"github.com/wenlng/go-captcha/v2/click"
	"golang.org/x/image/font/gofont/gobold"
)

// Sizes in pixels, and numbers of characters. The best answer without sight names four of the six columns in order,
// which is right once in 360 times, and a height in each, which is right for 40 % of the characters: TestBlindAnswers.
const (
	imageWidth, imageHeight   = 300, 220
	promptWidth, promptHeight = 150, 40
	shownLetters              = 6
	clickLetters              = 4  // of the prompt
	clickRadius               = 22 // a circle of 44 pixels holds a character, and is as wide as a fingertip
	letterLeast, letterMost   = 34, 42
	imageQuality              = 80 // of JPEG, in percent
	backgroundUses            = 8
)

// characters cannot be mistaken for one another when they are turned by up to 40 degrees, as N and Z or C and U could.
var characters = []string{"A", "C", "E", "H", "K", "L", "M", "P", "S", "T", "X", "Y"}

// artist draws images on backgrounds of its own. It belongs to one goroutine.
type artist struct {
	font    *truetype.Font
	captcha click.Captcha
	left    int // uses of the background
}

func newArtist() (*artist, error) {
	font, err := freetype.ParseFont(gobold.TTF)
	if err != nil {
		return nil, fmt.Errorf("read the font of the characters: %w", err)
	}
	return &artist{font: font}, nil
}

func (a *artist) draw() (*drawing, error) {
	if a.left == 0 {
		a.captcha, a.left = a.on(background()), backgroundUses
	}
	a.left--
	made, err := a.captcha.Generate()
	if err != nil {
		return nil, err
	}
	d := &drawing{Click: Click{
		Width: imageWidth, Height: imageHeight, PromptWidth: promptWidth, PromptHeight: promptHeight,
	}}
	for i := range d.points {
		at := made.GetData()[i]
		if at == nil {
			return nil, fmt.Errorf("an image of %d characters instead of %d", i, clickLetters)
		}
		d.points[i] = Point{int64(at.X + at.Width/2), int64(at.Y + at.Height/2)}
	}
	if d.Image, err = made.GetMasterImage().ToBase64WithQuality(imageQuality); err != nil {
		return nil, err
	}
	d.Prompt, err = made.GetThumbImage().ToBase64()
	return d, err
}

// on returns the library's generator of images on this background.
func (a *artist) on(background image.Image) click.Captcha {
	b := click.NewBuilder(
		click.WithImageSize(option.Size{Width: imageWidth, Height: imageHeight}),
		click.WithRangeThumbImageSize(option.Size{Width: promptWidth, Height: promptHeight}),
		click.WithRangeLen(option.RangeVal{Min: shownLetters, Max: shownLetters}),
		click.WithRangeVerifyLen(option.RangeVal{Min: clickLetters, Max: clickLetters}),
		click.WithRangeSize(option.RangeVal{Min: letterLeast, Max: letterMost}),
		click.WithRangeAnglePos([]option.RangeVal{{Min: 0, Max: 40}, {Min: 320, Max: 359}}),
		click.WithRangeThumbBgCirclesNum(12),
	)
	b.SetResources(click.WithChars(characters), click.WithFonts([]*truetype.Font{a.font}),
		click.WithBackgrounds([]image.Image{background}))
	return b.Make()
}

// background returns a picture of random dark colours and shapes, on which the light characters are read, so that no
// collection of pictures shows what is a character.
func background() image.Image {
	shade := func() color.NRGBA {
		return color.NRGBA{uint8(rand.IntN(160)), uint8(rand.IntN(160)), uint8(rand.IntN(160)), 255} //nolint:gosec // a picture
	}
	img := image.NewNRGBA(image.Rect(0, 0, imageWidth, imageHeight))
	from, to := shade(), shade()
	mix := func(a, b uint8, part float64) uint8 { return uint8(float64(a) + (float64(b)-float64(a))*part) }
	for y := range imageHeight {
		part := float64(y) / imageHeight
		row := color.NRGBA{mix(from.R, to.R, part), mix(from.G, to.G, part), mix(from.B, to.B, part), 255}
		draw.Draw(img, image.Rect(0, y, imageWidth, y+1), image.NewUniform(row), image.Point{}, draw.Src)
	}
	for range 60 {
		x, y, r := rand.IntN(imageWidth), rand.IntN(imageHeight), 6+rand.IntN(34) //nolint:gosec // a picture
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
