package merchants

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// Product is what a merchant sells.
type Product struct {
	ID          string
	MerchantID  string // its owner; never changes
	Ref         string // the merchant's own reference, "" for none; unique for the merchant
	Name        string
	Description string
	ImageURL    string
	Archived    bool  // its SKUs are offered for no further activity
	Version     int64 // rises with every change
	SKUs        []SKU
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// SKU is one variant of a product.
type SKU struct {
	ID        string
	ProductID string
	Ref       string // the merchant's own reference, "" for none; unique for the merchant
	Name      string
	ListPrice int64
	Currency  string
	Archived  bool // its product is; read with SKUs only
}

// ProductFilter selects products. The zero value selects those that are not archived.
type ProductFilter struct {
	Archived bool   // only archived ones
	Name     string // a part of the product's name or of a SKU's, without case; "" for any
}

// ProductPatch changes what is not nil. SKUs with an id are changed, those without are added.
type ProductPatch struct {
	IfVersion *int64 // refuses the patch if the product has another version

	Ref, Name, Description, ImageURL *string
	SKUs                             []SKUPatch
}

// SKUPatch changes or adds a SKU. The currency of a SKU never changes: activities were priced in it.
type SKUPatch struct {
	ID        string
	Ref       *string
	Name      *string
	ListPrice *int64
	Currency  *string
}

// CreateProduct creates a product with its SKUs. It belongs to the caller's merchant. If the key is not nil and an
// earlier call of the caller had it, CreateProduct returns the product of that call as it is now.
func (s *Service) CreateProduct(
	ctx context.Context, by core.Caller, p Product, key *core.IdempotencyKey,
) (*Product, error) {
	owner, err := by.Owner()
	if err != nil {
		return nil, err
	}
	p.MerchantID, p.CreatedAt = owner, s.clock()
	p.UpdatedAt, p.Version = p.CreatedAt, 1
	if err := p.validate(); err != nil {
		return nil, err
	}
	c := core.Change{
		At: p.CreatedAt, Who: by.UserID, Role: by.Role(), Action: "product.create", Object: "product", Detail: p.Name,
	}
	return s.Deps.Products.CreateProduct(ctx, key.Of(owner), p, c, s.Quotas.moreSKUs(len(p.SKUs)))
}

// Product returns one product, refused with not_found if there is none.
func (s *Service) Product(ctx context.Context, in core.Scope, id string) (*Product, error) {
	p, err := s.Deps.Products.Product(ctx, in, id)
	if err == nil && p == nil {
		err = core.NotFound()
	}
	return p, err
}

// Products lists products, newest first.
func (s *Service) Products(ctx context.Context, in core.Scope, f ProductFilter, p core.Page) ([]Product, error) {
	return s.Deps.Products.Products(ctx, in, f, p)
}

// ArchiveProduct takes the SKUs of a product from the offer for further activities. Published ones go on.
func (s *Service) ArchiveProduct(ctx context.Context, by core.Caller, id string) (*Product, error) {
	return s.setArchived(ctx, by, id, "product.archive", true)
}

// UnarchiveProduct offers the SKUs of a product again.
func (s *Service) UnarchiveProduct(ctx context.Context, by core.Caller, id string) (*Product, error) {
	return s.setArchived(ctx, by, id, "product.unarchive", false)
}

func (s *Service) setArchived(
	ctx context.Context, by core.Caller, id, action string, archived bool,
) (*Product, error) {
	now := s.clock()
	c := core.Change{At: now, Who: by.UserID, Role: by.Role(), Action: action, Object: "product", ObjectID: id}
	return s.Deps.Products.ChangeProduct(ctx, by.Scope(), id, c, Growth{}, func(p *Product) (bool, error) {
		if p.Archived == archived {
			return false, nil
		}
		p.Archived, p.UpdatedAt = archived, now
		p.Version++
		return true, nil
	})
}

// PatchProduct changes a product. Activities keep the prices they were made with.
func (s *Service) PatchProduct(ctx context.Context, by core.Caller, id string, patch ProductPatch) (*Product, error) {
	now := s.clock()
	c := core.Change{At: now, Who: by.UserID, Role: by.Role(), Action: "product.patch", Object: "product", ObjectID: id}
	return s.Deps.Products.ChangeProduct(ctx, by.Scope(), id, c, s.Quotas.moreSKUs(patch.added()), func(p *Product) (bool, error) {
		if err := requireVersion(patch.IfVersion, p.Version); err != nil {
			return false, err
		}
		set(&p.Ref, patch.Ref)
		set(&p.Name, patch.Name)
		set(&p.Description, patch.Description)
		set(&p.ImageURL, patch.ImageURL)
		for i, sp := range patch.SKUs {
			sku, err := skuToPatch(p, i, sp)
			if err != nil {
				return false, err
			}
			set(&sku.Ref, sp.Ref)
			set(&sku.Name, sp.Name)
			set(&sku.ListPrice, sp.ListPrice)
		}
		p.Version++
		p.UpdatedAt = now
		return true, p.validate()
	})
}

// added is the number of SKUs that the patch adds.
func (patch ProductPatch) added() (n int) {
	for _, sp := range patch.SKUs {
		if sp.ID == "" {
			n++
		}
	}
	return n
}

func skuToPatch(p *Product, i int, sp SKUPatch) (*SKU, error) {
	if sp.ID == "" {
		p.SKUs = append(p.SKUs, SKU{})
		sku := &p.SKUs[len(p.SKUs)-1]
		set(&sku.Currency, sp.Currency)
		return sku, nil
	}
	for j := range p.SKUs {
		if sku := &p.SKUs[j]; sku.ID == sp.ID {
			if sp.Currency != nil && *sp.Currency != sku.Currency {
				return nil, contract.InvalidField(fmt.Sprintf("skus[%d].currency", i), "cannot change")
			}
			return sku, nil
		}
	}
	return nil, contract.InvalidField(fmt.Sprintf("skus[%d].sku_id", i), "no such SKU of this product")
}

func (p *Product) validate() error {
	if err := contract.CheckText("name", p.Name, oneLine); err != nil {
		return err
	}
	if err := validateRef("ref", p.Ref); err != nil {
		return err
	}
	if len(p.SKUs) < 1 || len(p.SKUs) > maxItems {
		return contract.InvalidField("skus", "must have 1 to 100 elements")
	}
	if err := validatePresentation(p.Description, p.ImageURL); err != nil {
		return err
	}
	refs := map[string]bool{}
	for i, k := range p.SKUs {
		field := fmt.Sprintf("skus[%d].", i)
		if err := contract.CheckText(field+"name", k.Name, oneLine); err != nil {
			return err
		}
		if err := validateRef(field+"ref", k.Ref); err != nil {
			return err
		}
		if refs[k.Ref] {
			return contract.InvalidField(field+"ref", "another SKU of the product has it")
		}
		refs[k.Ref] = k.Ref != ""
		switch {
		case k.ListPrice < 1 || k.ListPrice > contract.MaxPrice:
			return contract.InvalidField(field+"list_price", "must be 1 to 100000000000")
		case k.ID == "" && !contract.IsCurrency(k.Currency): // that of a stored SKU never changes
			return contract.InvalidField(field+"currency", "must be a code of ISO 4217, such as EUR")
		}
	}
	return nil
}

// validateRef checks a merchant's own reference, which may be empty.
func validateRef(field, ref string) error {
	if ref != "" && !contract.ValidRef(ref) {
		return contract.InvalidField(field, "must be 1 to 64 of A-Z a-z 0-9 _ . -, the first of A-Z a-z 0-9")
	}
	return nil
}

// validatePresentation checks what buyers see of a product or an activity besides its name.
func validatePresentation(description, imageURL string) error {
	if err := contract.CheckText("description", description, paragraphs); err != nil {
		return err
	}
	if len(imageURL) > 500 || !webAddress(imageURL) {
		return contract.InvalidField("image_url",
			"must be an http or https address, or a path of this site, of at most 500 characters")
	}
	return nil
}

// webAddress reports whether a page may show this address: an absolute one over http(s), or a relative one of this
// site.
func webAddress(s string) bool {
	if s == "" {
		return true
	}
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	if u.Scheme == "" {
		return u.Host == "" && s[0] == '/'
	}
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// requireVersion refuses a change with state_conflict (412) if it is for another version than the object has. A nil
// version is that of a change without a condition.
func requireVersion(required *int64, version int64) error {
	if required == nil || *required == version {
		return nil
	}
	return contract.Refuse(contract.CodeStateConflict, "it was changed meanwhile: read it again").
		With("version", version).FailedPrecondition()
}
