package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

func productView(p merchants.Product) api.Product {
	return api.Product{
		ProductId: p.ID, MerchantId: p.MerchantID, Ref: optional(p.Ref), Name: p.Name, Description: p.Description, ImageUrl: p.ImageURL,
		Archived: p.Archived, Version: p.Version, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		Skus: views(p.SKUs, func(k merchants.SKU) api.SKU {
			return api.SKU{
				SkuId: k.ID, Ref: optional(k.Ref), Name: k.Name, ListPrice: k.ListPrice, Currency: k.Currency,
				CurrencyDigits: contract.CurrencyDigits(k.Currency),
			}
		}),
	}
}

// CreateProduct implements api.ServerInterface.
func (m *Merchant) CreateProduct(w http.ResponseWriter, r *http.Request, params api.CreateProductParams) {
	var body api.NewProduct
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	key, ok := m.creationKey(w, r, params.IdempotencyKey, body)
	if !ok {
		return
	}
	created, err := m.merchants.CreateProduct(r.Context(), caller(r), newProduct(body), key)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	m.respondCreated(w, *created)
}

func (m *Merchant) respondCreated(w http.ResponseWriter, p merchants.Product) {
	w.Header().Set("Location", "/v1/merchant/products/"+p.ID)
	setETag(w, p.Version)
	httpserver.WriteJSON(w, http.StatusCreated, productView(p))
}

// newProduct returns the product that a body describes.
func newProduct(body api.NewProduct) merchants.Product {
	p := merchants.Product{
		Ref: given(body.Ref), Name: body.Name, Description: given(body.Description), ImageURL: given(body.ImageUrl),
	}
	for _, k := range body.Skus {
		p.SKUs = append(p.SKUs, merchants.SKU{
			Ref: given(k.Ref), Name: k.Name, ListPrice: k.ListPrice, Currency: k.Currency,
		})
	}
	return p
}

// PutProduct implements api.ServerInterface.
func (m *Merchant) PutProduct(w http.ResponseWriter, r *http.Request, ref string) {
	var body api.NewProduct
	err := httpserver.DecodeJSON(w, r, &body)
	switch {
	case err != nil:
	case !contract.ValidRef(ref):
		err = contract.InvalidField("ref", "must be 1 to 64 of A-Z a-z 0-9 _ . -, the first of A-Z a-z 0-9")
	case body.Ref != nil && *body.Ref != ref:
		err = contract.InvalidField("ref", "must be the ref of the URL")
	}
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	product := newProduct(body)
	product.Ref = ref
	p, created, err := m.merchants.PutProduct(r.Context(), caller(r), product)
	if err == nil && created {
		m.respondCreated(w, *p)
		return
	}
	m.respondProduct(w, r, p, err)
}

// ListProducts implements api.ServerInterface.
func (m *Merchant) ListProducts(w http.ResponseWriter, r *http.Request, params api.ListProductsParams) {
	p, ok := m.page(w, r)
	if !ok {
		return
	}
	in, ok := m.listed(w, r)
	if !ok {
		return
	}
	name, ok := m.searched(w, r)
	if !ok {
		return
	}
	filter := merchants.ProductFilter{Name: name}
	if params.Archived != nil {
		filter.Archived = *params.Archived
		if got := r.URL.Query().Get("archived"); got != strconv.FormatBool(filter.Archived) { // such as 1 or T
			m.refuse(w, r, contract.InvalidField("archived", "must be true or false"))
			return
		}
	}
	list, err := m.merchants.Products(r.Context(), in, filter, p)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	list, next := cutPage(list, p, func(p merchants.Product) string { return p.ID })
	httpserver.WriteJSON(w, http.StatusOK, api.ProductList{Items: views(list, productView), NextCursor: next})
}

// ArchiveProduct implements api.ServerInterface.
func (m *Merchant) ArchiveProduct(w http.ResponseWriter, r *http.Request, id string) {
	m.productStep(w, r, id, m.merchants.ArchiveProduct)
}

// UnarchiveProduct implements api.ServerInterface.
func (m *Merchant) UnarchiveProduct(w http.ResponseWriter, r *http.Request, id string) {
	m.productStep(w, r, id, m.merchants.UnarchiveProduct)
}

func (m *Merchant) productStep(
	w http.ResponseWriter, r *http.Request, id string,
	do func(ctx context.Context, by core.Caller, id string) (*merchants.Product, error),
) {
	if m.validID(w, r, id) && m.requireNoFields(w, r) {
		p, err := do(r.Context(), caller(r), id)
		m.respondProduct(w, r, p, err)
	}
}

func (m *Merchant) respondProduct(w http.ResponseWriter, r *http.Request, p *merchants.Product, err error) {
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	setETag(w, p.Version)
	httpserver.WriteJSON(w, http.StatusOK, productView(*p))
}

// ListCurrencies implements api.ServerInterface.
func (m *Merchant) ListCurrencies(w http.ResponseWriter, _ *http.Request) {
	httpserver.WriteJSON(w, http.StatusOK, api.CurrencyList{
		Items: views(contract.Currencies(), func(code string) api.Currency {
			return api.Currency{Currency: code, CurrencyDigits: contract.CurrencyDigits(code)}
		}),
	})
}

// GetProduct implements api.ServerInterface.
func (m *Merchant) GetProduct(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	p, err := m.merchants.Product(r.Context(), caller(r).Scope(), id)
	m.respondProduct(w, r, p, err)
}

// PatchProduct implements api.ServerInterface.
func (m *Merchant) PatchProduct(w http.ResponseWriter, r *http.Request, id string, _ api.PatchProductParams) {
	if !m.validID(w, r, id) {
		return
	}
	version, ok := m.ifMatch(w, r)
	if !ok {
		return
	}
	var body api.ProductPatch
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		m.refuse(w, r, err)
		return
	}
	patch := merchants.ProductPatch{
		IfVersion: version, Ref: body.Ref, Name: body.Name, Description: body.Description, ImageURL: body.ImageUrl,
	}
	if body.Skus != nil {
		for i, k := range *body.Skus {
			sku := merchants.SKUPatch{Ref: k.Ref, Name: k.Name, ListPrice: k.ListPrice, Currency: k.Currency}
			if k.SkuId != nil {
				if !contract.ValidID(*k.SkuId) {
					m.refuse(w, r, contract.InvalidField(fmt.Sprintf("skus[%d].sku_id", i), "not an id"))
					return
				}
				sku.ID = *k.SkuId
			}
			patch.SKUs = append(patch.SKUs, sku)
		}
	}
	p, err := m.merchants.PatchProduct(r.Context(), caller(r), id, patch)
	m.respondProduct(w, r, p, err)
}
