package productcsv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/productcsv"
	"flashsale.internal/pkg/contract"
)

const header = "product_ref,product_name,sku_ref,sku_name,list_price,currency\n"

func TestRowsOfOneProductAreItsSKUs(t *testing.T) {
	file := "\ufeffsku_ref,list_price,currency,sku_name,product_ref,product_name,description\r\n" +
		"L-RED,99.00,EUR,red,L,\"Lamp, \"\"bright\"\"\",\"two\nlines\"\r\n" +
		"C-1,12000,JPY,one,C,Chair,\r\n" +
		"L-BLUE,99.5,EUR,blue,L,\"Lamp, \"\"bright\"\"\",\"two\nlines\"\r\n"
	got, err := productcsv.Read(strings.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, []productcsv.Product{
		{RefProduct: client.RefProduct{Ref: "L", Name: `Lamp, "bright"`, Description: "two\nlines", SKUs: []client.RefSKU{
			{Ref: "L-RED", Name: "red", ListPrice: 9900, Currency: "EUR"}, {Ref: "L-BLUE", Name: "blue", ListPrice: 9950, Currency: "EUR"},
		}}, Line: 2},
		{RefProduct: client.RefProduct{Ref: "C", Name: "Chair", SKUs: []client.RefSKU{
			{Ref: "C-1", Name: "one", ListPrice: 12000, Currency: "JPY"},
		}}, Line: 4},
	}, got)
}

func TestAnErrorNamesLineAndColumn(t *testing.T) {
	for file, want := range map[string]string{
		"":                                    "the file is empty",
		header:                                "the file has no product",
		"product_ref\n":                       "line 1: the column product_name is missing",
		strings.ReplaceAll(header, ",", ";"):  `line 1, column 1: "product_ref;product_name`,
		"price," + header:                     `line 1, column 1: "price" is none of`,
		"sku_ref," + header:                   "line 1, column 4: there are two columns sku_ref",
		header + "L,Lamp,L-1,red,9,000,EUR\n": "line 2 has not as many cells as the header",
		header + "L,Lamp,L-1,red,9.00,EUR\nL,Lamp,L-2,red,\"9,000\",EUR\n": `line 3, list_price: "9,000" is no plain decimal of EUR, such as 1234.56`,
		header + "L,Lamp,L-1,red,9.000,EUR\n":                              `line 2, list_price: "9.000" is no plain decimal`,
		header + "L,Lamp,L-1,red,0.00,EUR\n":                               "line 2, list_price: 0.00 is not 0.01 to 1000000000.00",
		header + "L,Lamp,L-1,red,1000000000.01,EUR\n":                      "line 2, list_price:",
		header + "L,Lamp,L-1,red,,EUR\n":                                   "line 2, list_price:",
		header + "L,Lamp,L-1,red,9.00,€\n":                                 "line 2, currency:",
		header + "L,Lamp,L-1,red,9.00,eur\n":                               "line 2, currency:",
		header + ",Lamp,L-1,red,9.00,EUR\n":                                "line 2, product_ref:",
		header + "L,Lamp,,red,9.00,EUR\n":                                  "line 2, sku_ref:",
		header + "L,Lamp,-1,red,9.00,EUR\n":                                "line 2, sku_ref:",
		header + "L,Lamp,'4006381333931000,red,9.00,EUR\n":                 "line 2, sku_ref:",
		header + "L,Lamp,4.00638E+15,red,9.00,EUR\n":                       "line 2, sku_ref:",
		header + "L,,L-1,red,9.00,EUR\n":                                   "line 2, product_name:",
		header + "L,Lamp,L-1, ,9.00,EUR\n":                                 "line 2, sku_name:",
		header + "L,\"La\nmp\",L-1,red,9.00,EUR\n":                         "line 2, product_name:",
		header + "L,L\xe4mp,L-1,red,9.00,EUR\n":                            "line 2, product_name: is not UTF-8",
		header + "L,Lamp,L-1,red,9.00,EUR\nL,Lamb,L-2,red,9.00,EUR\n":      "line 3, product_name: is not that of product L in line 2",
		header + "L,Lamp,L-1,red,9.00,EUR\nC,Chair,L-1,red,9.00,EUR\n":     "line 3, sku_ref: L-1 is the SKU of line 2",
		header + "L,Lamp,\"L-1,red,9.00,EUR\n":                             "parse error on line 2",
	} {
		_, err := productcsv.Read(strings.NewReader(file))
		require.ErrorContains(t, err, want, "%q", file)
	}
	many := header
	for i := range 101 {
		many += fmt.Sprintf("L,Lamp,L-%d,red,9.00,EUR\n", i)
	}
	_, err := productcsv.Read(strings.NewReader(many))
	require.ErrorContains(t, err, "line 102, product_ref: product L has more than 100 SKUs")
}

// Whatever a file holds, what is read can be stored, and each SKU is read once.
func FuzzRead(f *testing.F) {
	f.Add(header + "L,Lamp,L-1,red,9.00,EUR\nL,Lamp,L-2,blue,9,EUR\n")
	f.Add("\ufeff" + header + "L,\"La,mp\",L-1,red,\"9,000\",EUR\r\n")
	f.Add(header + "L,Lamp,L-1,red,1.500,KWD\n")
	f.Fuzz(func(t *testing.T, file string) {
		products, err := productcsv.Read(strings.NewReader(file))
		if err != nil {
			require.Empty(t, products)
			return
		}
		refs, skus := map[string]bool{}, map[string]bool{}
		for _, p := range products {
			require.True(t, contract.ValidRef(p.Ref) && !refs[p.Ref] && len(p.SKUs) > 0 && len(p.SKUs) <= 100, p.Ref)
			refs[p.Ref] = true
			for _, k := range p.SKUs {
				require.True(t, contract.ValidRef(k.Ref) && !skus[k.Ref], k.Ref)
				skus[k.Ref] = true
				require.Contains(t, file, strings.TrimRight(contract.Decimal(k.ListPrice, k.Currency), ".0"), "the amount as the file writes it")
			}
		}
		require.NotEmpty(t, refs)
	})
}
