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
		ProductId: p.ID, MerchantId: p.MerchantID, Name: p.Name, Description: p.Description, ImageUrl: p.ImageURL,
		Archived: p.Archived, Version: p.Version, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		Skus: views(p.SKUs, func(k merchants.SKU) api.SKU {
			return api.SKU{
				SkuId: k.ID, Name: k.Name, ListPrice: k.ListPrice, Currency: k.Currency,
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
	p := merchants.Product{Name: body.Name}
	if body.Description != nil {
		p.Description = *body.Description
	}
	if body.ImageUrl != nil {
		p.ImageURL = *body.ImageUrl
	}
	for _, k := range body.Skus {
		p.SKUs = append(p.SKUs, merchants.SKU{Name: k.Name, ListPrice: k.ListPrice, Currency: k.Currency})
	}
	created, err := m.merchants.CreateProduct(r.Context(), caller(r), p, key)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/merchant/products/"+created.ID)
	setETag(w, created.Version)
	httpserver.WriteJSON(w, http.StatusCreated, productView(*created))
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
		IfVersion: version, Name: body.Name, Description: body.Description, ImageURL: body.ImageUrl,
	}
	if body.Skus != nil {
		for i, k := range *body.Skus {
			sku := merchants.SKUPatch{Name: k.Name, ListPrice: k.ListPrice, Currency: k.Currency}
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
