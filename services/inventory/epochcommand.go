package inventory

import (
	"context"
	"fmt"
	"io"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/store"
)

// NewEpoch draws a new epoch of the database, after it or that of the order service was restored from a backup. since
// is the time of the backup less 5 min. The service imports what orders and gates have since then; until that is
// complete, no gate sells. NewEpoch refuses a time in the future.
func NewEpoch(ctx context.Context, db *gorm.DB, since time.Time, out io.Writer) error {
	s := store.New(db)
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	if since.After(now) {
		return fmt.Errorf("--since %s is in the future", since.Format(time.RFC3339))
	}
	e, err := s.DrawEpoch(ctx, since.UTC(), core.CauseOperator, "", now)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The epoch is %s. Orders since %s will be imported. Gates sell nothing until that is complete.\n",
		e.Value, e.Since.Format(time.RFC3339))
	if e.Since.Before(since.Truncate(time.Millisecond)) {
		fmt.Fprintln(out, "An earlier import was not complete, so the new one starts from its time.")
	}
	fmt.Fprintln(out, "Start the service, and follow the import with: inventory epoch status")
	return nil
}

// mostFindings bounds the findings that EpochStatus prints.
const mostFindings = 1000

// EpochStatus prints the present epoch, the steps and counts of its imports, and what they found. The last line reports
// whether the import is complete.
func EpochStatus(ctx context.Context, db *gorm.DB, out io.Writer) error {
	s := store.New(db)
	e, err := s.PresentEpoch(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Epoch %s, drawn at %s: %s.\n", e.Value, e.DrawnAt.Format(time.RFC3339), e.Cause)
	imports, err := s.Imports(ctx, e.Number)
	if err != nil {
		return err
	}
	if len(imports) == 0 {
		fmt.Fprintln(out, "Nothing had to be imported.\nThe import is complete.")
		return nil
	}
	fmt.Fprintf(out, "Orders since %s.\n\n", e.Since.Format(time.RFC3339))
	complete := true
	for _, i := range imports {
		complete = complete && i.Step == core.ImportDone
		if i.ActivityID == core.AllActivities {
			fmt.Fprintf(out, "orders of all activities: %s\n", i.Step)
		} else if i.Step != core.ImportDone || i.Counts != (core.ImportCounts{}) {
			fmt.Fprintf(out, "activity %s: %s\n", i.ActivityID, i.Step)
		}
		printCounts(out, "  ", i.Counts)
	}
	fmt.Fprintln(out, "\nIn all:")
	printCounts(out, "  ", core.SumOfImports(imports))
	findings, err := s.Findings(ctx, e.Number, mostFindings)
	if err != nil {
		return err
	}
	for n, f := range findings {
		if n == 0 {
			fmt.Fprintln(out, "\nFound:")
		}
		fmt.Fprintf(out, "  %-16s activity %s, %s: %s\n", f.Kind, f.ActivityID, f.Subject, f.Detail)
	}
	if len(findings) == mostFindings {
		fmt.Fprintf(out, "  Only the first %d are listed; the table import_findings has all.\n", mostFindings)
	}
	if !complete {
		fmt.Fprintln(out, "\nThe import is not complete.")
		return nil
	}
	fmt.Fprintln(out, "\nThe import is complete.")
	return nil
}

func printCounts(out io.Writer, indent string, c core.ImportCounts) {
	for _, line := range []struct {
		n    int64
		what string
	}{
		{c.Paid, "rows of paid orders written"},
		{c.Pending, "rows of unpaid orders written"},
		{c.Released, "rows released, as their order was closed or refunded"},
		{c.Ended, "rows released, as their purchase had ended in the gate"},
		{c.Closed, "orders closed, as no unit was left for them"},
		{c.Refunded, "orders refunded, as no unit was left for them"},
		{c.Foreign, "purchases of unknown activities closed or refunded"},
		{c.Republished, "deductions published again, as order did not have the order"},
		{c.Journaled, "purchases of the gate journaled again"},
		{c.Corrected, "entries of the gate changed to the state of the ledger"},
		{c.Ahead, "entries of the gate left ahead of the ledger"},
		{c.Unreadable, "entries of the gate ended, as they cannot be read"},
		{c.Adjustments, "adjustments of the gate dropped, as the database does not have them"},
		{c.SetAside, "orders set aside"},
	} {
		if line.n > 0 {
			fmt.Fprintf(out, "%s%d %s\n", indent, line.n, line.what)
		}
	}
}
