package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ledgerPage bounds one query of a comparison.
const ledgerPage = 1000

// comparison is one comparison of a gate with the ledger, page by page and without a lock: first the gate's entries,
// then the ledger's rows. It decides nothing about single purchases. Those that disagree are mismatches, which are
// read again.
//
// If exact is set, the sums of the entries and the counters are as of one moment, that of the collection, however long
// the reading took and whatever happened meanwhile. The gate tracks which entries change from before the first page
// on. One script then returns these and the counters. Every other entry is as it was read. The sums of the rows are
// read page by page and are never as of one moment: stockError uses them only for a stock row that did not change
// meanwhile.
type comparison struct {
	before, after *core.Activity
	audit         core.GateAudit // as of the moment of the collection
	entries       map[string]*sums
	rows          map[string]*sums // of the ledger; only Held (reserved units) and Sold are set
	unlanded      []string         // queued purchases, about maxUnlanded at most
	mismatches    []mismatch
	// indexMismatches are the order_sns by user that do not match the user's record or the indexes. A user without
	// order_sns has a record that does not match.
	indexMismatches map[string][]string

	exact bool // the gate tracked all changes, and it was not rebuilt meanwhile
	// totalsStable means that the totals in the tables did not change during the comparison, and that no adjustment was
	// between its steps.
	totalsStable bool
	open         []mismatch // those that are ordinary: the gate's entry is behind, and its sync is in flight
	unexplained  int        // mismatches that are never ordinary, or that changed just now

	// For the baseline that the comparison gives.
	began      time.Time
	master     string         // Redis master, before the reading
	first      core.GateAudit // before the reading
	ledgerRead time.Time      // when the reading of the rows began, by the time of the database
	unpaired   unpaired
	invalid    bool // the gate has an entry that the ledger cannot hold
}

// unpaired are numbers of rows without an entry less entries without a row, where neither is a mismatch.
type unpaired struct{ holding, ended int64 }

func (x *unpaired) addRow(row ledger.Row) {
	if row.Holds() {
		x.holding++
	} else {
		x.ended++
	}
}

// sums are units of one SKU, summed over the entries or rows that hold some. Unlanded is a part of Held.
type sums struct{ Held, Sold, Unlanded int64 }

// sumsOf returns the sums of a SKU, which it adds if they are missing.
func sumsOf(m map[string]*sums, sku string) *sums {
	s := m[sku]
	if s == nil {
		s = &sums{}
		m[sku] = s
	}
	return s
}

// maxUnlanded bounds how many queued purchases are checked for dead letters. With more of them the gate is not at
// rest.
const maxUnlanded = 500

// mismatch is a purchase about which gate and ledger disagree.
type mismatch struct {
	orderSN string
	stored  uint64    // digest of the entry, 0 for none
	changed time.Time // of the row, zero for none
}

// moved reports whether entry or row changed since the comparison.
func (m mismatch) moved(g *ledger.StoredEntry, row *ledger.Row) bool {
	var stored uint64
	if g != nil {
		stored = digest(g.Stored)
	}
	var changed time.Time
	if row != nil {
		changed = row.ChangedAt
	}
	return stored != m.stored || !changed.Equal(m.changed)
}

// entryDigest is what is kept of an entry until the ledger's rows are read: 32 bytes, so a million entries need 32 MB.
type entryDigest struct {
	sn      int64
	content uint64 // of stage, buyer and lines
	stored  uint64
	lines   int32 // index in lineSets.sets
	stage   int8  // of Stage.Rank; 0 for an entry that cannot be read
}

func (d entryDigest) ended() bool { return d.stage == ledger.EndedRank }

// lineSets keeps every combination of lines once. A sale has few of them.
type lineSets struct {
	byText map[string]int32
	sets   [][]contract.Line
}

func (x *lineSets) index(lines []contract.Line) int32 {
	text := string(appendLines(nil, lines))
	i, ok := x.byText[text]
	if !ok {
		i = int32(len(x.sets)) // as many as there are entries, at the very most
		x.byText[text] = i
		x.sets = append(x.sets, lines)
	}
	return i
}

// compare makes one comparison.
func (p *pass) compare(ctx context.Context) (*comparison, error) {
	c := &comparison{
		entries: map[string]*sums{}, rows: map[string]*sums{}, indexMismatches: map[string][]string{}, began: p.Now(),
	}
	var err error
	if c.master, err = p.Gate.ReplicationID(ctx); err != nil {
		return nil, err
	}
	if c.first, err = p.Gate.Audit(ctx, p.activity.ID); err != nil {
		return nil, err
	}
	// An adjustment that is complete at the end of the comparison may have been half done when the gate was read.
	adjusted, openBefore, err := p.Adjustments.CountAdjustments(ctx, p.activity.ID)
	if err != nil {
		return nil, err
	}
	if c.before, err = p.readActivity(ctx); err != nil {
		return nil, err
	}
	entries, err := p.readGate(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := p.readLedger(ctx, c, entries); err != nil {
		return nil, err
	}
	if c.after, err = p.readActivity(ctx); err != nil {
		return nil, err
	}
	adjustedNow, openNow, err := p.Adjustments.CountAdjustments(ctx, p.activity.ID)
	if err != nil {
		return nil, err
	}
	c.totalsStable = adjustedNow == adjusted && openBefore == 0 && openNow == 0 && sameTotals(c.before, c.after)
	return c, nil
}

// readActivity reads the activity, refused with not_found if it was deleted.
func (p *pass) readActivity(ctx context.Context) (*core.Activity, error) {
	a, err := p.Activities.AnyActivity(ctx, p.activity.ID)
	if err == nil && a == nil {
		err = contract.Refuse(contract.CodeNotFound, "no such resource")
	}
	return a, err
}

func sameTotals(before, after *core.Activity) bool {
	if len(before.Items) != len(after.Items) {
		return false
	}
	for _, it := range after.Items {
		if b := before.Item(it.SKUID); b == nil || b.Total != it.Total {
			return false
		}
	}
	return true
}

// readGate reads all entries, the counters and the buyers' records, and sums what the entries hold. The returned
// digests are sorted by order_sn.
func (p *pass) readGate(ctx context.Context, c *comparison) ([]entryDigest, error) {
	entries, lines, err := p.readEntries(ctx, c)
	if err != nil {
		return nil, err
	}
	entries = latest(entries)
	for _, d := range entries {
		c.addEntry(d, lines)
	}
	for cursor := uint64(0); ; {
		users, next, err := p.Gate.MismatchedBuyers(ctx, p.activity.ID, cursor)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			if _, ok := c.indexMismatches[u]; !ok {
				c.indexMismatches[u] = nil
			}
		}
		if cursor = next; cursor == 0 {
			return entries, nil
		}
	}
}

// readEntries reads all entries page by page, and then those that changed meanwhile, together with the counters.
func (p *pass) readEntries(ctx context.Context, c *comparison) ([]entryDigest, *lineSets, error) {
	token, err := p.Gate.TrackChanges(ctx, p.activity.ID)
	if err != nil {
		return nil, nil, err
	}
	var entries []entryDigest
	lines := &lineSets{byText: map[string]int32{}}
	builds := map[string]bool{}
	for cursor := uint64(0); ; {
		page, build, next, err := p.Gate.Survey(ctx, p.activity.ID, cursor)
		if err != nil {
			return nil, nil, err
		}
		builds[build] = true
		for i := range page {
			entries = c.keep(entries, lines, &page[i])
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	audit, changed, ok, err := p.Gate.CollectChanges(ctx, p.activity.ID, token)
	if err != nil {
		return nil, nil, err
	}
	if c.audit, c.exact = audit, ok; !ok {
		if c.audit, err = p.Gate.Audit(ctx, p.activity.ID); err != nil {
			return nil, nil, err
		}
	}
	builds[c.audit.Revision.Build] = true
	c.exact = c.exact && len(builds) == 1
	for i := range changed {
		entries = c.keep(entries, lines, &changed[i])
	}
	return entries, lines, nil
}

// keep appends the digest of an entry.
func (c *comparison) keep(entries []entryDigest, lines *lineSets, e *ledger.StoredEntry) []entryDigest {
	sn, err := strconv.ParseInt(e.OrderSN, 10, 64)
	if err != nil || !contract.ValidID(e.OrderSN) {
		c.invalid = true
		return entries // the ledger cannot hold it
	}
	if e.IndexMismatch && e.Stage != ledger.StageBroken {
		c.indexMismatches[e.UserID] = append(c.indexMismatches[e.UserID], e.OrderSN)
	}
	return append(entries, entryDigest{
		sn: sn, content: contentDigest(e.Stage, e.UserID, e.Lines, e.ExpiresAt), stored: digest(e.Stored),
		lines: lines.index(e.Lines),
		stage: int8(e.Stage.Rank()),
	})
}

// latest sorts entries by order_sn and keeps the last reading of each. Redis may return an entry twice, and the
// collection returns those that changed once more. Deleted entries are dropped.
func latest(entries []entryDigest) []entryDigest {
	slices.Reverse(entries)
	slices.SortStableFunc(entries, func(a, b entryDigest) int { return cmp.Compare(a.sn, b.sn) })
	entries = slices.CompactFunc(entries, func(a, b entryDigest) bool { return a.sn == b.sn })
	return slices.DeleteFunc(entries, func(d entryDigest) bool { return d.stored == 0 })
}

// addEntry adds what an entry holds to the sums.
func (c *comparison) addEntry(d entryDigest, lines *lineSets) {
	if d.stage < 1 || d.ended() {
		return
	}
	queued := int(d.stage) == ledger.StageQueued.Rank()
	for _, line := range lines.sets[d.lines] {
		s := sumsOf(c.entries, line.SKUID)
		if int(d.stage) == ledger.StagePaid.Rank() {
			s.Sold += line.Qty
			continue
		}
		s.Held += line.Qty
		if queued {
			s.Unlanded += line.Qty
		}
	}
	if queued && len(c.unlanded) <= maxUnlanded {
		c.unlanded = append(c.unlanded, strconv.FormatInt(d.sn, 10))
	}
}

var allStates = []ledger.State{
	ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected,
}

// readLedger reads all rows and compares them with the entries. Both are sorted by order_sn.
func (p *pass) readLedger(ctx context.Context, c *comparison, entries []entryDigest) error {
	now, err := p.Activities.Now(ctx)
	if err != nil {
		return err
	}
	c.ledgerRead = now
	matched := make([]bool, len(entries)) // entries that have a row
	for after := ""; ; {
		rows, broken, next, err := p.Rows.ChangedReservations(ctx, p.activity.ID, allStates, time.Time{},
			after, ledgerPage)
		if err != nil {
			return err
		}
		if len(broken) > 0 { // no sum is right without them
			return fmt.Errorf("%w: lines of reservation %s", core.ErrBrokenRow, broken[0].OrderSN)
		}
		for _, row := range rows {
			c.addRow(row)
			c.compareRow(row, entries, matched, now)
		}
		if next == "" {
			break
		}
		after = next
	}
	for i, e := range entries {
		switch {
		case matched[i] || int(e.stage) == ledger.StageQueued.Rank():
		case e.ended():
			c.unpaired.ended--
		default:
			c.mismatches = append(c.mismatches, mismatch{orderSN: strconv.FormatInt(e.sn, 10), stored: e.stored})
		}
	}
	return nil
}

// addRow adds what a row holds to the sums.
func (c *comparison) addRow(row ledger.Row) {
	for _, line := range row.Lines {
		switch row.State {
		case ledger.StateReserved:
			sumsOf(c.rows, line.SKUID).Held += line.Qty
		case ledger.StateSold:
			sumsOf(c.rows, line.SKUID).Sold += line.Qty
		}
	}
}

// compareRow compares a row with its entry, and marks the entry as matched.
func (c *comparison) compareRow(row ledger.Row, entries []entryDigest, matched []bool, now time.Time) {
	sn, err := strconv.ParseInt(row.OrderSN, 10, 64)
	if err != nil || !ledger.Purchasable(row.UserID, row.Lines) {
		c.unpaired.addRow(row)
		return
	}
	i, ok := sort.Find(len(entries), func(i int) int { return cmp.Compare(sn, entries[i].sn) })
	if !ok {
		if row.Holds() || now.Sub(row.ChangedAt) < ledger.TrimmedAfter {
			c.mismatches = append(c.mismatches, mismatch{orderSN: row.OrderSN, changed: row.ChangedAt})
		} else {
			c.unpaired.addRow(row)
		}
		return
	}
	matched[i] = true
	bothEnded := entries[i].ended() && !row.Holds()
	if !bothEnded && entries[i].content != rowContentDigest(row) {
		c.mismatches = append(c.mismatches,
			mismatch{orderSN: row.OrderSN, stored: entries[i].stored, changed: row.ChangedAt})
	}
}

// compareConfig compares state, window and limits. The content of a version never changes, so a gate that differs under
// the same version is damaged. So is one with a later version that no merchant can have decided: any other later version proves a loss.
func (p *pass) compareConfig(ctx context.Context, c *comparison) error {
	has, want := c.audit.Config, c.after.GateConfig()
	var err error
	switch {
	case has.Version > want.Version:
		err = p.Repairs.OverrideConfig(ctx, p.activity.ID, has.Version, want)
	case has.Version == want.Version && !sameConfig(has, want):
		err = p.Repairs.Configure(ctx, p.activity.ID, want)
	default:
		return nil
	}
	if errors.Is(err, core.ErrGateVersion) || errors.Is(err, core.ErrNoGate) { // a later version reached it, or it is lost
		return nil
	}
	if err == nil {
		p.repaired(ctx, Repair{Kind: RepairConfigured})
	}
	return err
}

// sameConfig compares what the gate has with what it should have.
func sameConfig(has, want core.GateConfig) bool {
	return has.State == want.State && has.StartsAt.Equal(want.StartsAt) && has.EndsAt.Equal(want.EndsAt) &&
		has.PerUserLimit == want.PerUserLimit && has.RoomRate == want.RoomRate && has.Challenge == want.Challenge &&
		has.ReorderLimit == want.ReorderLimit
}

// rowContentDigest is contentDigest of the entry that a row should have.
func rowContentDigest(row ledger.Row) uint64 {
	e := row.Entry()
	return contentDigest(e.Stage, e.UserID, e.Lines, e.ExpiresAt)
}

// contentDigest digests the content of an entry. The order of the lines does not matter.
func contentDigest(stage ledger.Stage, userID string, lines []contract.Line, expires time.Time) uint64 {
	b := make([]byte, 0, 96)
	b = appendLines(append(append(append(b, stage...), '|'), userID...), lines)
	if !expires.IsZero() {
		b = strconv.AppendInt(append(b, '@'), expires.UnixMilli(), 10)
	}
	return fnv(b)
}

func appendLines(b []byte, lines []contract.Line) []byte {
	if len(lines) > 1 {
		lines = slices.Clone(lines)
		slices.SortFunc(lines, func(a, b contract.Line) int { return core.CompareIDs(a.SKUID, b.SKUID) })
	}
	for _, line := range lines {
		b = strconv.AppendInt(append(append(append(b, '|'), line.SKUID...), ':'), line.Qty, 10)
	}
	return b
}

// digest digests a stored entry, 0 for none.
func digest(stored string) uint64 {
	if stored == "" {
		return 0
	}
	return fnv([]byte(stored))
}

// fnv is FNV-1a. A collision hides a mismatch with a probability of 2^-64.
func fnv(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
