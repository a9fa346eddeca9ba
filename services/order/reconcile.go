package order

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/record"
	"flashsale.internal/services/order/internal/store"
)

// ReconcilePayments records the charges and refunds that the payment providers have made since a time and that the order
// database lacks, and writes what it did to out. keep leaves charges unchanged whose order does not exist. The
// running service publishes the events that follow, and makes the refunds.
func ReconcilePayments(
	ctx context.Context, cfg Payments, deps Deps, since time.Time, keep bool, out io.Writer,
) error {
	rec, err := record.New(deps.Telemetry)
	if err != nil {
		return err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	providers, _, err := cfg.providers(deps, admission.None(deps.Telemetry))
	if err != nil {
		return err
	}
	svc := core.New(store.New(deps.DB, deps.Telemetry, nil, store.WithClock(deps.DatabaseNow)), nil, genes.ByUser{}, rec,
		providers, nil, core.Options{Now: deps.Now})
	charges, refunds := map[core.ReconcileResult]int{}, map[core.ReconcileResult]int{}
	err = svc.ReconcilePayments(ctx, since, keep, func(r core.Reconciled) {
		kind, counts := "charge", charges
		if r.Refund {
			kind, counts = "refund", refunds
		}
		counts[r.Result]++
		if why := listed[r.Result]; why != "" {
			fmt.Fprintf(out, "%s %s of %s: order %s, %d %s: %s\n", kind, r.PaymentID, r.Provider, r.OrderSN, r.Amount,
				r.Currency, why)
		}
	})
	fmt.Fprintf(out, "charges since %s: %s\n", since.UTC().Format(time.RFC3339), summary(charges))
	fmt.Fprintf(out, "refunds since %s: %s\n", since.UTC().Format(time.RFC3339), summary(refunds))
	if err != nil {
		return fmt.Errorf("reconcile payments, not complete: %w", err)
	}
	return nil
}

// listed explains the results of which each charge or refund is listed.
var listed = map[core.ReconcileResult]string{
	core.ReconcileDiffers:  "recorded here with another amount, currency or provider: not changed",
	core.ReconcileForeign:  "not a payment of this service: not changed",
	core.ReconcileNoOrder:  "the order does not exist: recorded, and refunded in full",
	core.ReconcileByHand:   "an operator has settled it by hand, too: the money may have been returned twice",
	core.ReconcileNoCharge: "the provider has no such charge: not changed",
}

func summary(counts map[core.ReconcileResult]int) string {
	total, text := 0, ""
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		total += counts[result]
		text += fmt.Sprintf(", %s=%d", result, counts[result])
	}
	return fmt.Sprintf("total=%d", total) + text
}
