package purchase

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
)

// Buyer is a user with a token.
type Buyer struct {
	UserID string
	*client.Caller
}

// NewBuyers returns n buyers with a token each. User ids begin with the present time, so that no two calls share a
// user.
func NewBuyers(ctx context.Context, c *client.Client, n int) ([]Buyer, error) {
	prefix := "u" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-"
	buyers := make([]Buyer, n)
	err := Each(ctx, 64, n, func(ctx context.Context, i int) error {
		id := prefix + strconv.Itoa(i+1)
		token, err := c.Token(ctx, id)
		if err != nil {
			return fmt.Errorf("token for %s: %w", id, err)
		}
		buyers[i] = Buyer{UserID: id, Caller: c.As(token)}
		return nil
	})
	return buyers, err
}

// Each calls do for 0 to n-1, at most width at a time, and returns the first error.
func Each(ctx context.Context, width, n int, do func(ctx context.Context, i int) error) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(width)
	for i := range n {
		if inner.Err() != nil {
			break
		}
		g.Go(func() error { return do(inner, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
