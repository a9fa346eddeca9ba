package cli

import (
	"fmt"
	"os"

	"flashsale.internal/flashctl/internal/productcsv"
	"flashsale.internal/pkg/auth"
)

type productsCmd struct {
	Import productsImportCmd `cmd:"" help:"Create or replace the products of a CSV file; may be repeated."`
}

type productsImportCmd struct {
	merchantFlag
	File string `arg:"" help:"The file; its columns are product_ref, product_name, description, image_url, sku_ref, sku_name, list_price and currency."`
}

// Run checks the whole file before the first call.
func (c *productsImportCmd) Run(e env) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	products, err := productcsv.Read(file)
	_ = file.Close()
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was imported", c.File, err)
	}
	m, err := e.as(c.caller(auth.Merchant))
	if err != nil {
		return err
	}
	defer m.Close()
	var created int
	for i, p := range products {
		isNew, err := m.PutProduct(e.ctx, p.RefProduct)
		if err != nil {
			return fmt.Errorf("%s: line %d, product %s: %w; %d of %d products were imported before", c.File, p.Line, p.Ref,
				err, i, len(products))
		}
		if isNew {
			created++
		}
	}
	_, err = fmt.Fprintf(e.out, "%d products: %d created, %d existed\n", len(products), created, len(products)-created)
	return err
}
