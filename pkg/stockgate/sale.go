package stockgate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/contract"
)

// Sale is the public description of an activity, as buyers see it.
type Sale struct {
	ActivityID   string     `json:"activity_id"`
	Title        string     `json:"title"`
	Description  string     `json:"description,omitempty"`
	ImageURL     string     `json:"image_url,omitempty"` // http or https, or a path of the site; "" for none
	State        GateState  `json:"state"`               // as the merchant has set it
	StartsAt     time.Time  `json:"starts_at"`
	EndsAt       time.Time  `json:"ends_at"`
	PerUserLimit int64      `json:"per_user_limit"`
	PayWithinS   int64      `json:"pay_within_s"` // seconds
	Items        []SaleItem `json:"items"`
	Version      int64      `json:"version"` // a lower version never replaces a higher one
	// DegradedSale is set if the sale may go on without Redis. Then this gate may lack purchases that inventory has made
	// since.
	DegradedSale bool        `json:"degraded_sale,omitempty"`
	Seller       *SaleSeller `json:"seller,omitempty"` // nil if the merchant has stored no profile
	Notice       *SaleNotice `json:"notice,omitempty"` // nil for none
}

// SaleSeller is what buyers read of the merchant of a sale.
type SaleSeller struct {
	Name     string `json:"name"`
	TermsURL string `json:"terms_url,omitempty"` // https
	Delivery string `json:"delivery,omitempty"`
}

// SaleNotice is a line of the merchant to the buyers of a sale.
type SaleNotice struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"` // when it was written
}

// SaleItem is one SKU of a sale.
type SaleItem struct {
	SKUID     string `json:"sku_id"`
	Name      string `json:"name"`
	ImageURL  string `json:"image_url,omitempty"`  // as that of the sale
	Price     int64  `json:"price"`                // minor units
	ListPrice int64  `json:"list_price,omitempty"` // minor units; 0 if unknown
	Currency  string `json:"currency"`
	Total     int64  `json:"total"`
}

// PutSale stores a sale and registers its gate. A sale with a lower version than the stored one changes nothing, which
// is no error. The gate need not exist yet. Two round trips, O(size); some more if the stored version is higher.
func (g *Gate) PutSale(ctx context.Context, s Sale) error {
	if s.Version < 0 || s.Version >= maxExact {
		return fmt.Errorf("stockgate: version %d is out of range", s.Version)
	}
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("stockgate: sale: %w", err)
	}
	reply, err := g.run(ctx, scriptSale, s.ActivityID, body, s.Version, "")
	if err == nil && reply == "old" {
		if _, err = g.Sale(ctx, s.ActivityID); errors.Is(err, ErrNoSale) { // a higher version that cannot be decoded
			_, err = g.run(ctx, scriptSale, s.ActivityID, body, s.Version, "anyway")
		}
	}
	if err != nil {
		return err
	}
	return g.Register(ctx, s.ActivityID)
}

// ReplaceSale is PutSale that also replaces a sale of a higher version: that of a database which was restored since.
func (g *Gate) ReplaceSale(ctx context.Context, s Sale) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("stockgate: sale: %w", err)
	}
	if _, err := g.run(ctx, scriptSale, s.ActivityID, body, s.Version, "anyway"); err != nil {
		return err
	}
	return g.Register(ctx, s.ActivityID)
}

// Sale reads one sale. It fails with ErrNoSale if the sale is absent or cannot be decoded; PutSale replaces the latter.
// One round trip.
func (g *Gate) Sale(ctx context.Context, activityID string) (Sale, error) {
	sales, err := g.sales(ctx, []string{activityID})
	if err != nil {
		return Sale{}, err
	}
	if len(sales) == 0 {
		return Sale{}, ErrNoSale
	}
	return sales[0], nil
}

// Sales reads all sales that can be decoded, sorted by start and activity id. Two round trips (one per node on a
// Cluster), O(sales).
func (g *Gate) Sales(ctx context.Context) ([]Sale, error) {
	activityIDs, err := g.Registered(ctx)
	if err != nil {
		return nil, err
	}
	sales, err := g.sales(ctx, activityIDs)
	slices.SortFunc(sales, func(a, b Sale) int {
		return cmp.Or(a.StartsAt.Compare(b.StartsAt), compareIDs(a.ActivityID, b.ActivityID))
	})
	return sales, err
}

func (g *Gate) sales(ctx context.Context, activityIDs []string) ([]Sale, error) {
	if len(activityIDs) == 0 {
		return nil, nil
	}
	bodies, err := call(ctx, g, func(ctx context.Context) ([]string, error) {
		p := g.rdb.Pipeline()
		replies := make([]*redis.StringCmd, len(activityIDs))
		for i, activityID := range activityIDs {
			replies[i] = p.Get(ctx, keyOf(activityID, "sale"))
		}
		if _, err := p.Exec(ctx); !hasReplies(err, replies) {
			return nil, err
		}
		bodies := make([]string, len(activityIDs)) // empty if the sale is absent
		for i, r := range replies {
			if r.Err() != nil && !errors.Is(r.Err(), redis.Nil) && !wrongType(r.Err()) {
				return nil, r.Err()
			}
			bodies[i] = r.Val()
		}
		return bodies, nil
	})
	if err != nil {
		return nil, err
	}
	sales := make([]Sale, 0, len(activityIDs))
	for i, body := range bodies {
		var sale Sale
		if json.Unmarshal([]byte(body), &sale) == nil && sale.ActivityID == activityIDs[i] {
			sales = append(sales, sale)
		}
	}
	return sales, nil
}

// Registered returns the ids of all activities with a registered gate, ascending; ended ones too. One round trip,
// O(gates).
func (g *Gate) Registered(ctx context.Context) ([]string, error) {
	members, err := call(ctx, g, func(ctx context.Context) ([]string, error) {
		return g.rdb.SMembers(ctx, keyActivities).Result()
	})
	if err != nil {
		return nil, err
	}
	activityIDs := slices.DeleteFunc(members, func(m string) bool { return !contract.ValidID(m) })
	slices.SortFunc(activityIDs, compareIDs)
	return activityIDs, nil
}

// Unregister removes a gate from the registry. The keys of a finished gate expire without a call; the caller
// unregisters it when they have expired. Preload and PutSale register it again. One round trip, O(1).
func (g *Gate) Unregister(ctx context.Context, activityID string) error {
	if err := validateActivity(activityID); err != nil {
		return err
	}
	_, err := call(ctx, g, func(ctx context.Context) (int64, error) {
		return g.rdb.SRem(ctx, keyActivities, activityID).Result()
	})
	return err
}

// Register adds gates to the registry that Registered reads. On a Cluster the registry is on another node than most
// gates, so a failover may lose the registration of a gate that still exists. One script call for 256 gates, O(gates).
func (g *Gate) Register(ctx context.Context, activityIDs ...string) error {
	members := make([]any, len(activityIDs))
	for i, activityID := range activityIDs {
		members[i] = activityID
	}
	for batch := range slices.Chunk(members, batchSize) {
		if _, err := g.runWith(ctx, scriptRegister, []string{keyActivities}, batch...); err != nil {
			return err
		}
	}
	return nil
}
