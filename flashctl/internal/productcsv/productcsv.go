// Package productcsv reads the products of a shop from a CSV file. It refuses what can be read in two ways.
package productcsv

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
)

// The columns of a file, in any order. A row is one SKU with its product.
var (
	required = []string{"product_ref", "product_name", "sku_ref", "sku_name", "list_price", "currency"}
	optional = []string{"description", "image_url"}
)

const maxSKUs = 100 // of a product

// Product is a product of a file. Line is that of its first SKU.
type Product struct {
	client.RefProduct
	Line int
}

var name = contract.Text{Most: 200}

const byteOrderMark = "\ufeff"

// Read returns the products of a file in UTF-8, in the order of their first SKUs. Its errors name line and column.
func Read(file io.Reader) ([]Product, error) {
	text := bufio.NewReader(file)
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // spreadsheets mark UTF-8 by it
		_, _ = text.Discard(len(mark))
	}
	in := csv.NewReader(text)
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, malformed(err)
	}
	if err := checkHeader(header); err != nil {
		return nil, err
	}
	t := table{products: map[string]*Product{}, skus: map[string]int{}}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return t.list()
		}
		if err != nil {
			return nil, malformed(err)
		}
		r := row{cells: map[string]string{}, lines: map[string]int{}}
		for i, column := range header {
			r.cells[column] = record[i]
			r.lines[column], _ = in.FieldPos(i)
			if !utf8.ValidString(record[i]) {
				return nil, r.wrong(column, "is not UTF-8")
			}
		}
		if err := t.add(r); err != nil {
			return nil, err
		}
	}
}

// malformed explains an error of the CSV reader. It names the line.
func malformed(err error) error {
	if p := (*csv.ParseError)(nil); errors.As(err, &p) && errors.Is(err, csv.ErrFieldCount) {
		return fmt.Errorf("line %d has not as many cells as the header; a cell with a comma is quoted", p.StartLine)
	}
	return err
}

func checkHeader(header []string) error {
	seen := map[string]bool{}
	for i, column := range header {
		switch {
		case !slices.Contains(required, column) && !slices.Contains(optional, column):
			return fmt.Errorf("line 1, column %d: %q is none of %s, %s", i+1, column, strings.Join(required, ", "), strings.Join(optional, ", "))
		case seen[column]:
			return fmt.Errorf("line 1, column %d: there are two columns %s", i+1, column)
		}
		seen[column] = true
	}
	for _, column := range required {
		if !seen[column] {
			return fmt.Errorf("line 1: the column %s is missing", column)
		}
	}
	return nil
}

// row is one SKU; cells and lines are by column.
type row struct {
	cells map[string]string
	lines map[string]int
}

func (r row) wrong(column, format string, args ...any) error {
	return fmt.Errorf("line %d, %s: %s", r.lines[column], column, fmt.Sprintf(format, args...))
}

// table collects the rows.
type table struct {
	order    []*Product
	products map[string]*Product // by ref
	skus     map[string]int      // lines by ref
}

func (t *table) list() ([]Product, error) {
	if len(t.order) == 0 {
		return nil, errors.New("the file has no product")
	}
	list := make([]Product, len(t.order))
	for i, p := range t.order {
		list[i] = *p
	}
	return list, nil
}

func (t *table) add(r row) error {
	sku, err := r.sku()
	if err != nil {
		return err
	}
	p := Product{RefProduct: client.RefProduct{
		Ref: r.cells["product_ref"], Name: r.cells["product_name"], Description: r.cells["description"], ImageURL: r.cells["image_url"],
	}, Line: r.lines["product_ref"]}
	known := t.products[p.Ref]
	if known == nil {
		known = &p
		t.products[p.Ref], t.order = known, append(t.order, known)
	}
	column := ""
	switch {
	case p.Name != known.Name:
		column = "product_name"
	case p.Description != known.Description:
		column = "description"
	case p.ImageURL != known.ImageURL:
		column = "image_url"
	}
	if column != "" {
		return r.wrong(column, "is not that of product %s in line %d", p.Ref, known.Line)
	}
	if line, twice := t.skus[sku.Ref]; twice {
		return r.wrong("sku_ref", "%s is the SKU of line %d", sku.Ref, line)
	}
	if len(known.SKUs) == maxSKUs {
		return r.wrong("product_ref", "product %s has more than %d SKUs", p.Ref, maxSKUs)
	}
	t.skus[sku.Ref] = r.lines["sku_ref"]
	known.SKUs = append(known.SKUs, sku)
	return nil
}

// sku checks the cells of a row.
func (r row) sku() (client.RefSKU, error) {
	sku := client.RefSKU{Ref: r.cells["sku_ref"], Name: r.cells["sku_name"], Currency: r.cells["currency"]}
	for _, column := range []string{"product_ref", "sku_ref"} {
		if !contract.ValidRef(r.cells[column]) {
			return sku, r.wrong(column, "%q is not 1 to 64 of A-Z a-z 0-9 _ . -, the first of A-Z a-z 0-9", r.cells[column])
		}
	}
	for _, column := range []string{"product_name", "sku_name"} {
		if contract.CheckText(column, r.cells[column], name) != nil {
			return sku, r.wrong(column, "must be one line of 1 to 200 characters")
		}
	}
	if !contract.IsCurrency(sku.Currency) {
		return sku, r.wrong("currency", "%q is no code of ISO 4217, such as EUR", sku.Currency)
	}
	amount, err := contract.MinorUnits(r.cells["list_price"], sku.Currency)
	if err != nil {
		return sku, r.wrong("list_price", "%v", err)
	}
	if amount < 1 || amount > contract.MaxPrice {
		return sku, r.wrong("list_price", "%s is not %s to %s", r.cells["list_price"],
			contract.Decimal(1, sku.Currency), contract.Decimal(contract.MaxPrice, sku.Currency))
	}
	sku.ListPrice = amount
	return sku, nil
}
