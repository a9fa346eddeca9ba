package cli

import (
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"flashsale.internal/flashctl/client"
)

// errDifferences makes flashctl reconcile exit with status 1.
var errDifferences = errors.New("some differences were not repaired")

type reconcileCmd struct{ activityArg }

// Run makes one call without retries: a repeated call would compare again and return only what the first one left.
func (c *reconcileCmd) Run(e env) error {
	o, err := e.asWithTimeout(time.Minute, operator())
	if err != nil {
		return err
	}
	defer o.Close()
	done, err := o.Reconcile(e.ctx, c.Activity)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	list := func(label string, repairs []client.Repair) {
		for _, r := range repairs {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%+d\t%s\n", label, cmp.Or(r.OrderSN, "-"), cmp.Or(r.SKUID, "-"), r.Delta,
				r.Why)
		}
	}
	if len(done.Repairs)+len(done.Differences) > 0 {
		_, _ = fmt.Fprintln(w, "\tORDER_SN\tSKU\tDELTA\tWHY")
	}
	list("repaired", done.Repairs)
	list("left", done.Differences)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "%d repairs, %d left, compared at %s\n",
		len(done.Repairs), len(done.Differences), done.ComparedAt.Format(time.RFC3339))
	if err != nil {
		return err
	}
	if len(done.Differences) > 0 {
		return errDifferences
	}
	return nil
}
