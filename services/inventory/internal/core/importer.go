package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

// Importer runs the imports that follow a new epoch of the database: it brings back into the ledger what the order
// service and the gates have, in the order of the steps, and renews the gates. Until then the gates sell nothing.
//
// Each step works page by page. The page's position is stored after its work, so a process that is killed repeats one
// page, and each page may be repeated. Two processes may run at once: one of them finds its position moved and stops.
type Importer struct {
	svc *Service

	waits map[string]wait // by activity
}

// wait is the pause of an import that waits for messages.
type wait struct {
	next      time.Time // of the next reading of the gate or the ledger
	journaled time.Time // when its purchases were last journaled
}

// Pauses of an import.
const (
	importPause    = time.Second      // between two readings of what it waits for, at least
	rejournalPause = 30 * time.Second // before a purchase that has not landed is journaled once more
)

// errImportWaits means that an import waits for messages. It goes on in a later round.
var errImportWaits = errors.New("the import waits")

// NewImporter makes an importer.
func NewImporter(s *Service) *Importer { return &Importer{svc: s, waits: map[string]wait{}} }

// Run works until all imports are complete or wait, or one fails. The orders of all activities come first. After that an
// activity that fails does not hold up the others.
func (m *Importer) Run(ctx context.Context) error {
	pending, err := m.svc.store.PendingImports(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	e, err := m.svc.store.PresentEpoch(ctx)
	if err != nil {
		return err
	}
	imports, err := m.svc.store.Imports(ctx, e.Number)
	if err != nil {
		return err
	}
	if pending[AllActivities] {
		for _, i := range imports {
			if i.ActivityID == AllActivities {
				if err := m.runAll(ctx, e, i); err != nil {
					return ignoreWait(err)
				}
			}
		}
		if imports, err = m.svc.store.Imports(ctx, e.Number); err != nil {
			return err
		}
	}
	var errs []error
	for _, i := range imports {
		if i.ActivityID != AllActivities && i.Step != ImportDone {
			if err := ignoreWait(m.runOne(ctx, e, i)); err != nil {
				errs = append(errs, fmt.Errorf("import of activity %s: %w", i.ActivityID, err))
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return m.report(ctx, e)
}

func ignoreWait(err error) error {
	if errors.Is(err, errImportWaits) {
		return nil
	}
	return err
}

// runAll runs the import of the orders of all activities.
func (m *Importer) runAll(ctx context.Context, e Epoch, i Import) error {
	return m.steps(ctx, e, i, map[ImportStep]stepFunc{
		ImportEnded:   m.ordersStep(ImportEnds, OrderClosed, OrderRefunded),
		ImportEnds:    m.endsOfGates,
		ImportPaid:    m.ordersStep(ImportPending, OrderClosed, OrderRefunded, OrderPaid),
		ImportPending: m.ordersStep(ImportDone, OrderClosed, OrderRefunded, OrderPaid, OrderPending),
	})
}

// runOne runs the import of one activity.
func (m *Importer) runOne(ctx context.Context, e Epoch, i Import) error {
	return m.steps(ctx, e, i, map[ImportStep]stepFunc{
		ImportRows: m.ordersOfRows(ImportEntries), ImportEntries: m.entriesOfGate, ImportWait: m.waitForLanding,
		ImportLanded: m.ordersOfRows(ImportGate), ImportGate: m.followLedger, ImportRenew: m.renew, ImportForeign: m.endForeign,
	})
}

// stepFunc works on one page and returns the import as it is then.
type stepFunc func(ctx context.Context, e Epoch, i Import) (Import, error)

// steps runs the steps of an import, page by page.
func (m *Importer) steps(ctx context.Context, e Epoch, i Import, all map[ImportStep]stepFunc) error {
	for i.Step != ImportDone {
		if err := ctx.Err(); err != nil {
			return err
		}
		do := all[i.Step]
		if do == nil {
			return fmt.Errorf("unknown step %q", i.Step)
		}
		next, err := do(ctx, e, i)
		if err != nil {
			return err
		}
		next.UpdatedAt = m.svc.clock()
		moved, err := m.svc.store.MoveImport(ctx, i, next)
		if err != nil {
			return err
		}
		if !moved {
			return errImportWaits // another process goes on, or another epoch was drawn
		}
		i = next
	}
	delete(m.waits, i.ActivityID)
	return nil
}

// to returns the import at the start of another step.
func (i Import) to(step ImportStep) Import {
	i.Step, i.Position = step, ""
	return i
}

// report logs a complete import.
func (m *Importer) report(ctx context.Context, e Epoch) error {
	imports, err := m.svc.store.Imports(ctx, e.Number)
	if err != nil || slices.ContainsFunc(imports, func(i Import) bool { return i.Step != ImportDone }) {
		return err
	}
	total := SumOfImports(imports)
	m.svc.recorder.Info(ctx, "the import into the new epoch is complete", "cause", e.Cause, "since", e.Since,
		"activities", len(imports)-1, "counts", fmt.Sprintf("%+v", total))
	return nil
}

// SumOfImports adds up the counts of imports.
func SumOfImports(imports []Import) (sum ImportCounts) {
	for _, i := range imports {
		c := i.Counts
		sum.Released += c.Released
		sum.Ended += c.Ended
		sum.Paid += c.Paid
		sum.Pending += c.Pending
		sum.Closed += c.Closed
		sum.Refunded += c.Refunded
		sum.Foreign += c.Foreign
		sum.Republished += c.Republished
		sum.Journaled += c.Journaled
		sum.Unreadable += c.Unreadable
		sum.SetAside += c.SetAside
		sum.Adjustments += c.Adjustments
		sum.Ahead += c.Ahead
		sum.Corrected += c.Corrected
	}
	return sum
}

// find stores findings of a page.
func (m *Importer) find(ctx context.Context, list []Finding) error {
	if len(list) == 0 {
		return nil
	}
	now, err := m.svc.store.Now(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].At = now
	}
	return m.svc.store.AddFindings(ctx, list)
}

// rowsOf returns the rows of a page of order_sns. Rows that cannot be read are in broken; they raise an alarm.
func (m *Importer) rowsOf(ctx context.Context, sns []string) (rows map[string]ledger.Row, broken map[string]bool, err error) {
	rows, list, err := m.svc.store.ReadableReservations(ctx, sns)
	if err != nil {
		return nil, nil, err
	}
	m.svc.Alarms.RaiseUnreadable(ctx, list)
	broken = make(map[string]bool, len(list))
	for _, r := range list {
		broken[r.OrderSN] = true
	}
	return rows, broken, nil
}

// addForeign adds an import for each gate whose activity the database does not have.
func (m *Importer) addForeign(ctx context.Context, e Epoch, activityIDs []string) error {
	drafts, err := m.svc.store.ActivityDrafts(ctx, activityIDs)
	if err != nil {
		return err
	}
	for _, id := range activityIDs {
		if _, known := drafts[id]; !known {
			i := Import{Epoch: e.Number, ActivityID: id, Step: ImportForeign, UpdatedAt: m.svc.clock()}
			if err := m.svc.store.AddImport(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}
