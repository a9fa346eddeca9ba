package demo

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
)

// checkBorder checks that each merchant reads its own sale, and nothing of the other one.
func checkBorder(ctx context.Context, t *table, runs [2]*run) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	t.headline("neither sees what belongs to the other")
	for i, r := range runs {
		other := runs[1-i]
		for _, read := range []struct {
			what string
			do   func(activityID string) error
		}{
			{"sale", func(id string) error { _, err := r.merchant.OwnActivity(ctx, id); return err }},
			{"stock", func(id string) error { _, err := r.merchant.Stock(ctx, id); return err }},
			{"orders", func(id string) error { _, err := r.merchant.Ledger(ctx, id); return err }},
		} {
			if err := read.do(r.activityID); err != nil {
				return fmt.Errorf("merchant %s reads its own %s: %w", r.sale.Merchant, read.what, err)
			}
			err := read.do(other.activityID)
			if err != nil && client.AsProblem(err) == nil {
				return err
			}
			code := client.CodeOf(err)
			what := fmt.Sprintf("%s reads the %s of %s", r.sale.Merchant, read.what, other.sale.Merchant)
			t.fact(what, string(contract.CodeNotFound), resultOf(code), code == contract.CodeNotFound)
		}
		list, err := r.merchant.OwnActivities(ctx)
		if err != nil {
			return err
		}
		own, foreign := int64(0), int64(0)
		for _, a := range list {
			switch a.ActivityID {
			case r.activityID:
				own++
			case other.activityID:
				foreign++
			}
		}
		t.count(fmt.Sprintf("list of %s: its own sale", r.sale.Merchant), 1, own)
		t.count(fmt.Sprintf("list of %s: sale of %s", r.sale.Merchant, other.sale.Merchant), 0, foreign)
	}
	return nil
}

// resultOf returns the code of a response, or "found" if it was successful.
func resultOf(code contract.Code) string {
	if code == "" {
		return "found"
	}
	return string(code)
}
