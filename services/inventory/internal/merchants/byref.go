package merchants

import (
	"context"
	"fmt"
	"slices"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// putAttempts bounds the attempts of one PutProduct while other calls change the same product.
const putAttempts = 3

// PutProduct creates the product with this ref for the caller's merchant, or makes the one that has it like p. SKUs are
// matched by their refs, which all of p need. SKUs that p lacks stay: sales refer to them. If the product is like p
// already, nothing is written. created reports whether it was created. It refuses with state_conflict (ref) if a SKU of
// another product has one of the refs.
func (s *Service) PutProduct(ctx context.Context, by core.Caller, p Product) (out *Product, created bool, err error) {
	owner, err := by.Owner()
	if err != nil {
		return nil, false, err
	}
	for i, k := range p.SKUs {
		if k.Ref == "" {
			return nil, false, contract.InvalidField(fmt.Sprintf("skus[%d].ref", i), "is required")
		}
	}
	if err := p.validate(); err != nil {
		return nil, false, err
	}
	for attempt := 1; ; attempt++ {
		known, err := s.Deps.Products.ProductByRef(ctx, core.OfMerchant(owner), p.Ref)
		switch {
		case err != nil:
			return nil, false, err
		case known == nil:
			out, err = s.CreateProduct(ctx, by, p, nil)
			created = err == nil
		default:
			out, err = s.replaceProduct(ctx, by, *known, p)
		}
		if contract.CodeOf(err) != contract.CodeStateConflict || attempt == putAttempts {
			return out, created, err
		}
	}
}

// replaceProduct makes a product like another, unless it is already.
func (s *Service) replaceProduct(ctx context.Context, by core.Caller, known, p Product) (*Product, error) {
	patch := ProductPatch{IfVersion: &known.Version, Name: &p.Name, Description: &p.Description, ImageURL: &p.ImageURL}
	differs := known.Name != p.Name || known.Description != p.Description || known.ImageURL != p.ImageURL
	for _, k := range p.SKUs {
		sku := SKUPatch{Ref: &k.Ref, Name: &k.Name, ListPrice: &k.ListPrice, Currency: &k.Currency}
		i := slices.IndexFunc(known.SKUs, func(old SKU) bool { return old.Ref == k.Ref })
		if i >= 0 {
			sku.ID = known.SKUs[i].ID
		}
		differs = differs || i < 0 || known.SKUs[i].Name != k.Name || known.SKUs[i].ListPrice != k.ListPrice ||
			known.SKUs[i].Currency != k.Currency
		patch.SKUs = append(patch.SKUs, sku)
	}
	if !differs {
		return &known, nil
	}
	return s.PatchProduct(ctx, by, known.ID, patch)
}
