package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Importer runs the imports that follow a new epoch of the database: it brings back into the ledger what the order
// service and the gates have, in the order of the steps, and renews the gates. Until then the gates sell nothing.
//
// Each step works page by page. The page's position is stored after its work, so a process that is killed repeats one
// page, and each page may be repeated. Two processes may run at once: one of them finds its position moved and stops.
type Importer struct {
	Deps
	now   func() time.Time // clock of the process; it decides the pauses of an import only
	waits map[string]wait  // by activity
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

	journaledPerCall = 128 // purchases
)

// errImportWaits means that an import waits for messages. It goes on in a later round.
var errImportWaits = errors.New("the import waits")

// NewImporter makes an importer.
func NewImporter(d Deps) *Importer {
	return &Importer{Deps: d, now: core.TableTime(d.Now), waits: map[string]wait{}}
}

// Run works until all imports are complete or wait, or one fails. Decisions of merchants come first: until they are taken
// over, merchants change nothing. The orders of all activities follow. An activity that fails does not hold up the others.
func (m *Importer) Run(ctx context.Context) error {
	pending, err := m.Epochs.PendingImports(ctx)
	if err != nil || len(pending) == 0 {
		return err
	}
	e, err := m.Epochs.PresentEpoch(ctx)
	if err != nil {
		return err
	}
	imports, err := m.Epochs.Imports(ctx, e.Number)
	if err != nil {
		return err
	}
	var errs []error
	note := func(i core.Import, err error) {
		if err := ignoreWait(err); err != nil {
			errs = append(errs, fmt.Errorf("import of activity %s: %w", i.ActivityID, err))
		}
	}
	for n, i := range imports {
		if i.Step == core.ImportDecisions {
			imports[n], err = m.step(ctx, e, i, m.takeDecision)
			note(i, err)
		}
	}
	if pending[core.AllActivities] {
		for _, i := range imports {
			if i.ActivityID == core.AllActivities {
				if err := m.runAll(ctx, e, i); err != nil {
					return errors.Join(append(errs, ignoreWait(err))...)
				}
			}
		}
		if imports, err = m.Epochs.Imports(ctx, e.Number); err != nil {
			return err
		}
	}
	for _, i := range imports {
		if i.ActivityID != core.AllActivities && i.Step != core.ImportDecisions && i.Step != core.ImportDone {
			note(i, m.runOne(ctx, e, i))
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
func (m *Importer) runAll(ctx context.Context, e core.Epoch, i core.Import) error {
	return m.steps(ctx, e, i, map[core.ImportStep]stepFunc{
		core.ImportEnded: m.ordersStep(core.ImportEnds, core.OrderClosed, core.OrderRefunded),
		core.ImportEnds:  m.endsOfGates,
		core.ImportPaid:  m.ordersStep(core.ImportPending, core.OrderClosed, core.OrderRefunded, core.OrderPaid),
		core.ImportPending: m.ordersStep(
			core.ImportDone, core.OrderClosed, core.OrderRefunded, core.OrderPaid, core.OrderPending),
	})
}

// runOne runs the import of one activity.
func (m *Importer) runOne(ctx context.Context, e core.Epoch, i core.Import) error {
	return m.steps(ctx, e, i, map[core.ImportStep]stepFunc{
		core.ImportRows:    m.ordersOfRows(core.ImportEntries),
		core.ImportEntries: m.entriesOfGate,
		core.ImportWait:    m.waitForLanding,
		core.ImportLanded:  m.ordersOfRows(core.ImportGate),
		core.ImportGate:    m.followLedger,
		core.ImportRenew:   m.renew,
		core.ImportForeign: m.endForeign,
	})
}

// stepFunc works on one page and returns the import as it is then.
type stepFunc func(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error)

// steps runs the steps of an import, page by page.
func (m *Importer) steps(ctx context.Context, e core.Epoch, i core.Import, all map[core.ImportStep]stepFunc) error {
	for i.Step != core.ImportDone {
		if err := ctx.Err(); err != nil {
			return err
		}
		do := all[i.Step]
		if do == nil {
			return fmt.Errorf("unknown step %q", i.Step)
		}
		var err error
		if i, err = m.step(ctx, e, i, do); err != nil {
			return err
		}
	}
	delete(m.waits, i.ActivityID)
	return nil
}

// step does one page and moves the import. After an error it returns the import as it was.
func (m *Importer) step(ctx context.Context, e core.Epoch, i core.Import, do stepFunc) (core.Import, error) {
	next, err := do(ctx, e, i)
	if err != nil {
		return i, err
	}
	next.UpdatedAt = m.now()
	moved, err := m.Epochs.MoveImport(ctx, i, next)
	if err == nil && !moved {
		err = errImportWaits // another process goes on, or another epoch was drawn
	}
	if err != nil {
		return i, err
	}
	return next, nil
}

// atStep returns the import at the start of another step.
func atStep(i core.Import, step core.ImportStep) core.Import {
	i.Step, i.Position = step, ""
	return i
}

// report logs a complete import.
func (m *Importer) report(ctx context.Context, e core.Epoch) error {
	imports, err := m.Epochs.Imports(ctx, e.Number)
	if err != nil || slices.ContainsFunc(imports, func(i core.Import) bool { return i.Step != core.ImportDone }) {
		return err
	}
	total := core.SumOfImports(imports)
	m.Recorder.Info(ctx, "the import into the new epoch is complete", "cause", e.Cause, "since", e.Since,
		"activities", len(imports)-1, "counts", fmt.Sprintf("%+v", total))
	return nil
}

// find stores findings of a page.
func (m *Importer) find(ctx context.Context, list []core.Finding) error {
	if len(list) == 0 {
		return nil
	}
	now, err := m.Tables.Now(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].At = now
	}
	return m.Epochs.AddFindings(ctx, list)
}

// rowsOf returns the rows of a page of order_sns. Rows that cannot be read are in broken; they raise an incident.
func (m *Importer) rowsOf(
	ctx context.Context, sns []string,
) (rows map[string]ledger.Row, broken map[string]bool, err error) {
	rows, list, err := m.Tables.ReadableReservations(ctx, sns)
	if err != nil {
		return nil, nil, err
	}
	m.Incidents.RaiseUnreadable(ctx, list)
	broken = make(map[string]bool, len(list))
	for _, r := range list {
		broken[r.OrderSN] = true
	}
	return rows, broken, nil
}

// addForeign adds an import for each gate whose activity the database does not have.
func (m *Importer) addForeign(ctx context.Context, e core.Epoch, activityIDs []string) error {
	drafts, err := m.Epochs.ActivityDrafts(ctx, activityIDs)
	if err != nil {
		return err
	}
	for _, id := range activityIDs {
		if _, known := drafts[id]; !known {
			i := core.Import{Epoch: e.Number, ActivityID: id, Step: core.ImportForeign, UpdatedAt: m.now()}
			if err := m.Epochs.AddImport(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}
