package bench

import (
	"fmt"
	"strconv"
)

// row holds the cells of one line of a table.
type row []string

func count(n int) string { return strconv.Itoa(n) }

// rate formats a number per second.
func rate(perSec float64) string { return strconv.FormatFloat(perSec, 'f', 0, 64) }

// part formats the ratio a/b, and a dash if b was not measured.
func part(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}
