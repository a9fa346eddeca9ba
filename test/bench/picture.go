package main

import (
	"fmt"
	"strings"
)

// Size of the picture in pixels, and of its margins.
const (
	pictureWidth  = 760
	pictureHeight = 300
	marginLeft    = 60
	marginTop     = 30
	marginBottom  = 40
)

// curve is one line of a picture.
type curve struct {
	name   string
	color  string
	values []float64
}

// drawCurves returns an SVG of curves with the same number of values, one for each unit of the horizontal axis.
func drawCurves(title, unit string, curves []curve) string {
	top, n := 1.0, 1
	for _, c := range curves {
		n = max(n, len(c.values))
		for _, v := range c.values {
			top = max(top, v)
		}
	}
	top = axisTop(top)
	width := float64(pictureWidth - marginLeft - 20)
	height := float64(pictureHeight - marginTop - marginBottom)
	x := func(i int) float64 { return marginLeft + width*(float64(i)+0.5)/float64(n) }
	y := func(v float64) float64 { return marginTop + height*(1-v/top) }

	var out strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`,
		pictureWidth, pictureHeight)
	p(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	p(`<text x="%d" y="18" font-weight="bold">%s</text>`, marginLeft, title)
	for i := range 5 {
		v := top * float64(i) / 4
		p(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`, marginLeft, y(v), pictureWidth-20, y(v))
		p(`<text x="%d" y="%.1f" text-anchor="end">%.0f</text>`, marginLeft-8, y(v)+4, v)
	}
	for i := 0; i < n; i += max(1, n/12) {
		p(`<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(i), pictureHeight-marginBottom+18, i+1)
	}
	p(`<text x="%d" y="%d" text-anchor="end">%s</text>`, pictureWidth-20, pictureHeight-6, unit)
	for k, c := range curves {
		var points []string
		for i, v := range c.values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
		}
		p(`<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, c.color, strings.Join(points, " "))
		p(`<text x="%d" y="18" fill="%s">%s</text>`, 400+110*k, c.color, c.name)
	}
	p(`</svg>`)
	return out.String()
}

// axisTop returns the least number of the form 1, 2, 4 or 8 times a power of ten that is not below v.
func axisTop(v float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, factor := range []float64{1, 2, 4, 8} {
			if unit*factor >= v {
				return unit * factor
			}
		}
	}
}
