package store

import (
	"fmt"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
)

// formatLines encodes the lines of an order for its row: "sku_id:qty:price" joined by commas.
func formatLines(lines []contract.PricedLine) string {
	b := make([]byte, 0, 24*len(lines))
	for i, l := range lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, l.SKUID...), ':')
		b = append(strconv.AppendInt(b, l.Qty, 10), ':')
		b = strconv.AppendInt(b, l.Price, 10)
	}
	return string(b)
}

// parseLines decodes the lines of a row.
func parseLines(text string) ([]contract.PricedLine, error) {
	if text == "" {
		return nil, nil
	}
	lines := make([]contract.PricedLine, 0, strings.Count(text, ",")+1)
	for part := range strings.SplitSeq(text, ",") {
		sku, rest, _ := strings.Cut(part, ":")
		qty, price, _ := strings.Cut(rest, ":")
		l := contract.PricedLine{SKUID: sku}
		var err1, err2 error
		l.Qty, err1 = strconv.ParseInt(qty, 10, 64)
		l.Price, err2 = strconv.ParseInt(price, 10, 64)
		if !contract.ValidID(sku) || err1 != nil || err2 != nil {
			return nil, fmt.Errorf("lines %q are malformed", text)
		}
		lines = append(lines, l)
	}
	return lines, nil
}
