package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

// ledgerPage bounds one query of a look.
const ledgerPage = 1000

// look is one comparison of a gate with the ledger, page by page and without a lock: the gate's entries first, then the
// ledger's rows. It decides nothing about single purchases; those that do not fit are suspects, which are looked at again.
//
// Its figures are exact: they all belong to the moment of the tally, however long the reading took and whatever went on
// meanwhile. The gate notes which entries change from before the first page on, and the tally tells these and the counters
// in one script; every other entry is as it was read.
type look struct {
	before, after *Activity
	audit         GateAudit // of the moment of the tally
	held          map[string]*figures
	ledger        map[string]*figures // of Held the reserved, of Sold the sold ones
	unlanded      []string            // queued purchases, as far as waitingMost
	suspects      []suspect
	misfits       map[string][]string // user -> order_sns that his record or the indexes do not fit; none: the record alone

	exact    bool // more changed than the gate notes, if not
	settled  bool // the totals in the tables did not change meanwhile, and no adjustment was between its steps
	inFlight int  // purchases that are on their way in the ordinary manner
	odd      int  // and those about which gate and ledger disagree as they never do by themselves
}

// figures are pieces of one SKU, of entries that hold some.
type figures struct{ Held, Sold, Unlanded, Journaled int64 }

// waitingMost bounds how many queued purchases are asked after. With more of them nothing is at rest anyway.
const waitingMost = 500

// suspect is a purchase about which gate and ledger did not agree.
type suspect struct {
	orderSN string
	stored  uint64    // digest of the entry, 0 for none
	changed time.Time // of the row, zero for none
}

// moved tells whether the purchase went on since.
func (x suspect) moved(g *GateRecord, row *Reservation) bool {
	var stored uint64
	if g != nil {
		stored = digest(g.Stored)
	}
	var changed time.Time
	if row != nil {
		changed = row.ChangedAt
	}
	return stored != x.stored || !changed.Equal(x.changed)
}

// entryDigest is what is kept of an entry until the ledger's rows come by: 40 bytes, so that a million are no trouble.
type entryDigest struct {
	sn        int64
	says      uint64 // stage, buyer and lines
	stored    uint64
	lines     int32 // of lineSets, which are few
	stage     int8  // of stageRank; 0 for one that cannot be read
	journaled bool
}

func (d entryDigest) holdsNone() bool { return d.stage == 5 }

// lineSets keeps every combination of lines once.
type lineSets struct {
	byText map[string]int32
	sets   [][]contract.Line
}

func (x *lineSets) of(lines []contract.Line) int32 {
	text := string(appendLines(nil, lines))
	i, ok := x.byText[text]
	if !ok {
		i = int32(len(x.sets)) // as many as there are entries, at the very most
		x.byText[text] = i
		x.sets = append(x.sets, lines)
	}
	return i
}

func (s *Service) look(ctx context.Context, run *reconciliation) (*look, error) {
	l := &look{held: map[string]*figures{}, ledger: map[string]*figures{}, misfits: map[string][]string{}}
	// An adjustment that is over by the end of the look may have been half done when the gate was read.
	adjusted, open, err := s.Store.CountAdjustments(ctx, run.activity.ID)
	if err != nil {
		return nil, err
	}
	if l.before, err = s.Activity(ctx, run.activity.ID); err != nil {
		return nil, err
	}
	entries, err := s.lookAtGate(ctx, run.ref, l)
	if err != nil {
		return nil, err
	}
	if err := s.lookAtLedger(ctx, run.ref, l, entries); err != nil {
		return nil, err
	}
	if l.after, err = s.Activity(ctx, run.activity.ID); err != nil {
		return nil, err
	}
	now, still, err := s.Store.CountAdjustments(ctx, run.activity.ID)
	if err != nil {
		return nil, err
	}
	l.settled = now == adjusted && open == 0 && still == 0 && len(l.before.Items) == len(l.after.Items)
	for _, it := range l.after.Items {
		b := l.before.Item(it.SKUID)
		l.settled = l.settled && b != nil && b.Total == it.Total
	}
	return l, s.lookAtConfig(ctx, run, l)
}

// lookAtGate reads all entries, the counters, and the buyers' records, and counts what the entries hold.
func (s *Service) lookAtGate(ctx context.Context, ref contract.GateRef, l *look) ([]entryDigest, error) {
	token, err := s.Gate.Watch(ctx, ref)
	if err != nil {
		return nil, err
	}
	var entries []entryDigest
	lines := &lineSets{byText: map[string]int32{}}
	lives := map[string]bool{}
	for cursor := uint64(0); ; {
		page, life, next, err := s.Gate.Survey(ctx, ref, cursor)
		if err != nil {
			return nil, err
		}
		lives[life] = true
		for i := range page {
			entries = l.enter(entries, lines, &page[i])
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	audit, touched, ok, err := s.Gate.Tally(ctx, ref, token)
	if err != nil {
		return nil, err
	}
	if l.audit, l.exact = audit, ok; !ok {
		if l.audit, err = s.Gate.Audit(ctx, ref); err != nil {
			return nil, err
		}
	}
	lives[l.audit.Mark.Life] = true
	l.exact = l.exact && len(lives) == 1
	for i := range touched {
		entries = l.enter(entries, lines, &touched[i])
	}
	// Redis may tell an entry twice, and the tally tells those that changed once more: the last word counts.
	slices.Reverse(entries)
	slices.SortStableFunc(entries, func(a, b entryDigest) int { return compare(a.sn, b.sn) })
	entries = slices.CompactFunc(entries, func(a, b entryDigest) bool { return a.sn == b.sn })
	entries = slices.DeleteFunc(entries, func(d entryDigest) bool { return d.stored == 0 })
	for _, d := range entries {
		l.weigh(d, lines)
	}
	for cursor := uint64(0); ; {
		users, next, err := s.Gate.MisfiledBuyers(ctx, ref, cursor)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			if _, ok := l.misfits[u]; !ok {
				l.misfits[u] = nil
			}
		}
		if cursor = next; cursor == 0 {
			return entries, nil
		}
	}
}

// enter keeps of an entry what the ledger is compared with.
func (l *look) enter(entries []entryDigest, lines *lineSets, e *GateRecord) []entryDigest {
	sn, err := strconv.ParseInt(e.OrderSN, 10, 64)
	if err != nil || !contract.ValidID(e.OrderSN) {
		return entries // nobody can ask after it
	}
	if e.Misfiled && e.Stage != StageBroken {
		l.misfits[e.UserID] = append(l.misfits[e.UserID], e.OrderSN)
	}
	return append(entries, entryDigest{
		sn: sn, says: says(e.Stage, e.UserID, e.Lines, e.ExpiresAt), stored: digest(e.Stored), lines: lines.of(e.Lines),
		stage: int8(stageRank[e.Stage]), journaled: e.Journaled,
	})
}

// weigh counts what an entry holds.
func (l *look) weigh(d entryDigest, lines *lineSets) {
	if d.stage < 1 || d.holdsNone() {
		return
	}
	queued := int(d.stage) == stageRank[StageQueued]
	for _, line := range lines.sets[d.lines] {
		f := of(l.held, line.SKUID)
		if int(d.stage) == stageRank[StagePaid] {
			f.Sold += line.Qty
			continue
		}
		f.Held += line.Qty
		if queued {
			f.Unlanded += line.Qty
			if d.journaled {
				f.Journaled += line.Qty
			}
		}
	}
	if queued && len(l.unlanded) <= waitingMost {
		l.unlanded = append(l.unlanded, strconv.FormatInt(d.sn, 10))
	}
}

// lookAtLedger reads all rows and holds them against the entries, which are sorted as the rows are.
func (s *Service) lookAtLedger(ctx context.Context, ref contract.GateRef, l *look, entries []entryDigest) error {
	now := s.now()
	known := make([]bool, len(entries))
	all := []ReservationState{StateReserved, StateSold, StateReleased, StateRejected}
	for after := ""; ; {
		rows, broken, next, err := s.Store.ChangedReservations(ctx, ref.ActivityID, all, time.Time{}, after, ledgerPage)
		if err != nil {
			return err
		}
		if len(broken) > 0 { // no sum is right without them
			return fmt.Errorf("%w: lines of reservation %s", ErrBrokenRow, broken[0].OrderSN)
		}
		for _, r := range rows {
			if r.Bucket != ref.Bucket {
				continue
			}
			l.count(r)
			sn, err := strconv.ParseInt(r.OrderSN, 10, 64)
			if err != nil || !r.tellable() {
				continue
			}
			i, ok := sort.Find(len(entries), func(i int) int { return compare(sn, entries[i].sn) })
			switch {
			case !ok:
				if r.holds() || now.Sub(r.ChangedAt) < trimmedAfter {
					l.suspects = append(l.suspects, suspect{orderSN: r.OrderSN, changed: r.ChangedAt})
				}
				continue
			case entries[i].holdsNone() && !r.holds():
			case entries[i].says != rowSays(r):
				l.suspects = append(l.suspects, suspect{orderSN: r.OrderSN, stored: entries[i].stored, changed: r.ChangedAt})
			}
			known[i] = true
		}
		if next == "" {
			break
		}
		after = next
	}
	for i, e := range entries {
		if !known[i] && int(e.stage) != stageRank[StageQueued] && !e.holdsNone() {
			l.suspects = append(l.suspects, suspect{orderSN: strconv.FormatInt(e.sn, 10), stored: e.stored})
		}
	}
	return nil
}

func (l *look) count(r Reservation) {
	for _, line := range r.Lines {
		switch r.State {
		case StateReserved:
			of(l.ledger, line.SKUID).Held += line.Qty
		case StateSold:
			of(l.ledger, line.SKUID).Sold += line.Qty
		}
	}
}

// lookAtConfig compares state, window and limit. The gate is told of a version after that was committed, and what a
// version says never changes: the gate, read first, can neither be ahead of the table nor say otherwise under the same one.
func (s *Service) lookAtConfig(ctx context.Context, run *reconciliation, l *look) error {
	has, want := l.audit.Config, gateConfig(l.after)
	var err error
	switch {
	case has.Version > want.Version:
		err = s.Gate.Overrule(ctx, run.ref, has.Version, want)
	case has.Version == want.Version && !sameConfig(has, want):
		err = s.Gate.Configure(ctx, run.ref, want)
	default:
		return nil
	}
	if errors.Is(err, ErrGateVersion) { // it has just been told of a later one
		return nil
	}
	if err == nil {
		run.add(ctx, s, Repair{Kind: RepairConfigured})
	}
	return err
}

func sameConfig(a, b GateConfig) bool {
	return a.State == b.State && a.StartsAt.Equal(b.StartsAt) && a.EndsAt.Equal(b.EndsAt) && a.PerUserLimit == b.PerUserLimit
}

func of(m map[string]*figures, sku string) *figures {
	f := m[sku]
	if f == nil {
		f = &figures{}
		m[sku] = f
	}
	return f
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// rowSays is says of the entry that a row should have.
func rowSays(r Reservation) uint64 {
	var expires time.Time
	if r.State == StateReserved && r.OrderCreatedAt != nil && r.ExpiresAt != nil {
		expires = *r.ExpiresAt
	}
	return says(r.stage(), r.UserID, r.Lines, expires)
}

// says digests what an entry says about its purchase, in whatever order its lines are.
func says(stage GateStage, userID string, lines []contract.Line, expires time.Time) uint64 {
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
		sort.Slice(lines, func(i, j int) bool { return idLess(lines[i].SKUID, lines[j].SKUID) })
	}
	for _, line := range lines {
		b = strconv.AppendInt(append(append(append(b, '|'), line.SKUID...), ':'), line.Qty, 10)
	}
	return b
}

func digest(stored string) uint64 {
	if stored == "" {
		return 0
	}
	return fnv([]byte(stored))
}

// fnv is FNV-1a. A collision hides a difference from one comparison in 2^64.
func fnv(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
