package cluster

import (
	"context"
	"testing"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/test/cluster/installation"
)

// An uninstall leaves the data and nothing else, and an install finds the data again.
func TestUninstallLeavesTheData(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	b := installation.NewBuyers(installation.OpenSale(t, installation.Client(t, client.Options{Attempts: 60}), 100))
	for n := range 20 {
		b.Shop(ctx, n)
	}
	b.Compare(t)
	install := installation.Uninstall(ctx, t)
	install()
	b.Compare(t)
}
