package stockgate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
)

// model is the expected state of a gate, computed in plain Go.
type model struct {
	state    GateState
	version  int64
	limit    int64
	reorders int64
	left     map[string]int64
	total    map[string]int64
	entries  map[string]*modelEntry
	adjusted map[string]*modelAdjustment
	room     int // of the journal
	// journaled is the number of purchases by journal entry.
	journaled map[string]int
}

type modelEntry struct {
	user    string
	lines   []Line
	stage   string
	reason  string
	timed   bool   // the gate has the time of the reservation
	journal string // id of its last entry in the journal
}

type modelAdjustment struct {
	sku     string
	delta   int64
	decided bool // undone, or contained in the last snapshot
}

func (e *modelEntry) holds() bool { return e.stage != stageClosed && e.stage != stageFailed }

func (m *model) take(e *modelEntry, sign int64) {
	for _, l := range e.lines {
		m.left[l.SKUID] -= sign * l.Qty
	}
}

func (m *model) holding(user string) (units int64) {
	for _, e := range m.entries {
		if e.user == user && e.holds() {
			for _, l := range e.lines {
				units += l.Qty
			}
		}
	}
	return units
}

// history reports whether the user has reserved at a known time, and how many orders of the user were cancelled or
// expired.
func (m *model) history(user string) (reserved bool, lost int64) {
	for _, e := range m.entries {
		if e.user != user {
			continue
		}
		reserved = reserved || e.timed
		if e.stage == stageClosed && (e.reason == "cancelled" || e.reason == "expired") {
			lost++
		}
	}
	return reserved, lost
}

func (m *model) barred(user string) bool {
	_, lost := m.history(user)
	return m.reorders > 0 && lost > m.reorders
}

func (m *model) reserve(r Request) Outcome {
	if e := m.entries[r.OrderSN]; e != nil {
		if e.user != r.UserID || encodeLines(e.lines) != encodeLines(r.Lines) {
			return Conflict
		}
		return Known
	}
	if m.state == GatePaused {
		return Paused
	}
	if m.state == GateEnded {
		return Ended
	}
	units := m.holding(r.UserID)
	for _, l := range r.Lines {
		units += l.Qty
	}
	if units > m.limit || m.barred(r.UserID) {
		return LimitReached
	}
	if reserved, _ := m.history(r.UserID); reserved && r.IssuedAt.Equal(longAgo) {
		return PathVoid
	}
	for _, l := range r.Lines {
		if m.left[l.SKUID] < l.Qty {
			return SoldOut
		}
	}
	if m.room <= 0 {
		return JournalFull
	}
	m.room--
	e := &modelEntry{user: r.UserID, lines: r.Lines, stage: stageQueued, timed: true}
	m.entries[r.OrderSN] = e
	m.take(e, 1)
	return Accepted
}

// journal adds a purchase to the journal entry that the gate has written for it.
func (m *model) journal(sn, id string) {
	m.entries[sn].journal = id
	m.journaled[id]++
}

func (m *model) settle(s Settlement) {
	stage, _ := s.Step.stage()
	e := m.entries[s.OrderSN]
	switch {
	case e == nil:
		e = &modelEntry{stage: stage}
		m.entries[s.OrderSN] = e
	case !e.holds():
		return
	default:
		m.take(e, -1)
	}
	e.user, e.lines = s.UserID, s.Lines
	const rank = stageQueued + stageLanded + stageCreated + stagePaid
	if slices.Index([]byte(rank), stage[0]) > slices.Index([]byte(rank), e.stage[0]) {
		e.stage = stage
	}
	m.take(e, 1)
}

func (m *model) end(n Ending, stage string) {
	e := m.entries[n.OrderSN]
	switch {
	case e == nil:
		m.entries[n.OrderSN] = &modelEntry{user: n.UserID, lines: n.Lines, stage: stage, reason: n.Reason}
	case e.holds() && (e.stage != stagePaid || stage == stageClosed && n.Reason == contract.ReasonRefunded):
		m.take(e, -1)
		if e.stage == stageCreated {
			stage = stageClosed
		}
		e.stage, e.reason = stage, n.Reason
	}
}

const modelJournalMax = 6

// longAgo is before every reservation of these tests.
var longAgo = time.Now().Add(-time.Hour).Truncate(time.Millisecond)

// gateMachine runs the same steps on a gate and on the model, and compares them after each.
type gateMachine struct {
	e       *env
	m       *model
	config  Config
	unacked []JournalEntry
}

// Steps draw from few values, so that they often concern the same purchase.
func drawSN(t *rapid.T) string { return strconv.Itoa(rapid.IntRange(1, 9).Draw(t, "sn")) }

func drawUser(t *rapid.T) string { return rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user") }

func drawLines(t *rapid.T) []Line {
	return rapid.SampledFrom([][]Line{lines(1), lines(2), lines(0, 1), lines(1, 1)}).Draw(t, "lines")
}

func (g *gateMachine) Reserve(t *rapid.T) {
	group := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Request {
		return Request{
			OrderSN: drawSN(t), UserID: drawUser(t), Lines: drawLines(t),
			IssuedAt: rapid.SampledFrom([]time.Time{{}, longAgo, time.Now().Add(time.Hour)}).Draw(t, "issued"),
		}
	}), 1, 4).Draw(t, "group")
	verdicts, err := g.e.Reserve(t.Context(), g.e.activityID, group)
	require.NoError(t, err)
	journals := g.e.image().journals
	for i, v := range verdicts {
		held := g.m.holding(group[i].UserID)
		require.Equal(t, g.m.reserve(group[i]), v.Outcome, "%v", group[i])
		if v.Outcome == Accepted {
			g.m.journal(group[i].OrderSN, journals[group[i].OrderSN])
			require.LessOrEqual(t, g.m.holding(group[i].UserID), g.m.limit)
		} else {
			require.Equal(t, held, g.m.holding(group[i].UserID))
		}
	}
}

func (g *gateMachine) Settle(t *rapid.T) {
	items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Settlement {
		s := Settlement{
			OrderSN: drawSN(t), UserID: drawUser(t), Lines: drawLines(t),
			Step: rapid.SampledFrom([]Step{StepLanded, StepCreated, StepPaid}).Draw(t, "step"),
		}
		if e := g.m.entries[s.OrderSN]; e != nil && rapid.IntRange(0, 3).Draw(t, "differs") > 0 {
			s.UserID, s.Lines = e.user, e.lines // most of the time the ledger agrees
		}
		return s
	}), 1, 3).Draw(t, "items")
	require.NoError(t, g.e.Settle(t.Context(), g.e.activityID, items))
	for _, s := range items {
		g.m.settle(s)
	}
}

func drawEndings(t *rapid.T) []Ending {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Ending {
		return Ending{
			OrderSN: drawSN(t), UserID: drawUser(t), Lines: drawLines(t),
			Reason: rapid.SampledFrom([]string{"expired", "cancelled", "system", contract.ReasonRefunded}).Draw(t, "reason"),
		}
	}), 1, 3).Draw(t, "items")
}

func (g *gateMachine) Release(t *rapid.T) {
	items := drawEndings(t)
	require.NoError(t, g.e.Release(t.Context(), g.e.activityID, items))
	for _, n := range items {
		g.m.end(n, stageClosed)
	}
}

func (g *gateMachine) Drop(t *rapid.T) {
	items := drawEndings(t)
	require.NoError(t, g.e.Drop(t.Context(), g.e.activityID, items))
	for _, n := range items {
		g.m.end(n, stageFailed)
	}
}

func (g *gateMachine) Adjust(t *rapid.T) {
	a := Adjustment{
		ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), SKUID: "1",
		Delta: rapid.SampledFrom([]int64{-3, -1, 2}).Draw(t, "delta"), Force: rapid.Bool().Draw(t, "force"),
	}
	err := g.e.Adjust(t.Context(), g.e.activityID, a)
	known := g.m.adjusted[a.ID]
	switch {
	case known != nil && !known.decided && (known.sku != a.SKUID || known.delta != a.Delta):
		require.ErrorIs(t, err, ErrAdjustmentConflict)
	case known != nil && known.decided && a.Delta < 0 && !a.Force:
		require.ErrorIs(t, err, ErrDecided)
	case known != nil:
		require.NoError(t, err)
	case a.Delta < 0 && !a.Force && g.m.left[a.SKUID]+a.Delta < 0:
		require.ErrorIs(t, err, ErrInsufficient)
	default:
		require.NoError(t, err)
		g.m.adjusted[a.ID] = &modelAdjustment{sku: a.SKUID, delta: a.Delta}
		g.m.left[a.SKUID] += a.Delta
		g.m.total[a.SKUID] += a.Delta
	}
}

func (g *gateMachine) UndoAdjust(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
	require.NoError(t, g.e.UndoAdjust(t.Context(), g.e.activityID, id))
	if a := g.m.adjusted[id]; a != nil && !a.decided {
		g.m.left[a.sku] -= a.delta
		g.m.total[a.sku] -= a.delta
	}
	g.m.adjusted[id] = &modelAdjustment{decided: true}
}

func (g *gateMachine) Configure(t *rapid.T) {
	c := g.config
	c.State = rapid.SampledFrom([]GateState{GateOpen, GateOpen, GatePaused, GateEnded}).Draw(t, "state")
	c.PerUserLimit = rapid.Int64Range(1, 5).Draw(t, "limit")
	c.ReorderLimit = rapid.Int64Range(0, 2).Draw(t, "reorders")
	c.Version = g.m.version + rapid.Int64Range(-1, 1).Draw(t, "version")
	err := g.e.Configure(t.Context(), g.e.activityID, c)
	if c.Version < g.m.version {
		require.ErrorIs(t, err, ErrStaleVersion)
		return
	}
	require.NoError(t, err)
	g.m.state, g.m.limit, g.m.version, g.m.reorders = c.State, c.PerUserLimit, c.Version, c.ReorderLimit
}

func (g *gateMachine) ReadJournal(t *rapid.T) {
	entries, _, err := g.e.ReadJournal(t.Context(), g.e.activityID, "relay", 3)
	require.NoError(t, err)
	g.unacked = append(g.unacked, entries...)
}

func (g *gateMachine) Ack(t *rapid.T) {
	if len(g.unacked) == 0 {
		return
	}
	entry := rapid.SampledFrom(g.unacked).Draw(t, "entry") // may have been acked before
	require.NoError(t, g.e.Ack(t.Context(), g.e.activityID, []string{entry.ID}))
	id, _, _ := strings.Cut(entry.ID, idSeparator)
	g.m.room += g.m.journaled[id]
	delete(g.m.journaled, id)
}

func (g *gateMachine) Rejournal(t *rapid.T) {
	sn := drawSN(t)
	n, err := g.e.Rejournal(t.Context(), g.e.activityID, []string{sn})
	require.NoError(t, err)
	want := 0
	if e := g.m.entries[sn]; e != nil && e.stage == stageQueued && g.m.journaled[e.journal] == 0 && g.m.room > 0 {
		g.m.room--
		g.m.journal(sn, g.e.image().journals[sn])
		want = 1
	}
	require.Equal(t, want, n)
}

// Lose deletes the gate and rebuilds it from the ledger: all entries that have landed, and every adjustment. In between
// all calls fail.
func (g *gateMachine) Lose(t *rapid.T) {
	require.NoError(t, g.e.rdb.Del(t.Context(), keysOf(g.e.activityID)...).Err())
	_, err := g.e.Audit(t.Context(), g.e.activityID)
	require.ErrorIs(t, err, ErrNoGate)
	g.unacked = nil
	g.m.room, g.m.journaled = modelJournalMax, map[string]int{}
	s := Snapshot{Config: g.config, Stock: map[string]int64{}, Totals: maps.Clone(g.m.total)}
	s.State, s.PerUserLimit, s.Version, s.ReorderLimit = g.m.state, g.m.limit, g.m.version, g.m.reorders
	for sn, e := range g.m.entries {
		if e.stage == stageQueued {
			g.m.take(e, -1)
			delete(g.m.entries, sn)
			continue
		}
		e.timed = false
		s.Entries = append(s.Entries, e.entry(sn))
	}
	maps.Copy(s.Stock, g.m.left)
	for id, a := range g.m.adjusted {
		s.Adjusted = append(s.Adjusted, id)
		a.decided = true
	}
	require.NoError(t, g.e.Preload(t.Context(), g.e.activityID, s))
}

func (e *modelEntry) entry(sn string) Entry {
	stored := fmt.Sprintf("%s|%s|%s|%s||||", e.stage, e.user, encodeLines(e.lines), e.reason)
	entry, err := decodeEntry(sn, stored+"|")
	if err != nil {
		panic(err)
	}
	if entry.terminal() {
		entry.EndedAt = time.Now().UTC().Truncate(time.Millisecond)
	}
	return entry
}

// Check compares gate and model after every step.
func (g *gateMachine) Check(t *rapid.T) {
	im := g.e.check()
	require.Len(t, im.entries, len(g.m.entries))
	for sn, want := range g.m.entries {
		got := im.entries[sn]
		stage, err := got.stage()
		require.NoError(t, err)
		require.Equal(t, []string{want.stage, want.user, encodeLines(want.lines), want.reason},
			[]string{stage, got.UserID, encodeLines(got.Lines), got.Reason}, "order_sn %s", sn)
	}
	users := []string{"ann", "bob"}
	allowances, err := g.e.Allowances(t.Context(), g.e.activityID, users)
	require.NoError(t, err)
	for i, user := range users {
		used := g.m.holding(user) >= g.m.limit
		require.Equal(t, used || g.m.barred(user), allowances[i].Used, user)
		require.Equal(t, !used && g.m.barred(user), !allowances[i].BarredUntil.IsZero(), user)
		mine, err := g.e.Purchases(t.Context(), g.e.activityID, user)
		require.NoError(t, err)
		require.Equal(t, g.m.barred(user), !mine.BarredUntil.IsZero(), user)
		require.Equal(t, g.m.reorders > 0, mine.CancellationsLeft != nil, user)
		if _, lost := g.m.history(user); mine.CancellationsLeft != nil {
			require.Equal(t, max(0, g.m.reorders-lost), *mine.CancellationsLeft, user)
		}
	}
	a, err := g.e.Audit(t.Context(), g.e.activityID)
	require.NoError(t, err)
	require.Equal(t, g.m.reorders, a.ReorderLimit)
	for sku := range g.m.total {
		c := a.SKUs[sku]
		require.Equal(t, []int64{g.m.left[sku], g.m.total[sku]}, []int64{c.Left, c.Total}, "SKU %s", sku)
		require.Equal(t, c.Total, c.Left+c.Held+c.Sold)
		require.GreaterOrEqual(t, c.Journal, int64(0))
		require.GreaterOrEqual(t, c.InFlight, int64(0))
	}
	require.Equal(t, int64(modelJournalMax-g.m.room), a.JournalLen)
	require.Equal(t, RequestCounts{Accepted: int64(len(g.m.entries))}, g.e.totals())
}

// TestAnyOrderOfStepsMatchesTheModel runs all steps in random order, with repetitions and losses of the gate.
func TestAnyOrderOfStepsMatchesTheModel(t *testing.T) {
	eachServer(t, Options{JournalMax: modelJournalMax}, func(t *testing.T, outer *env) {
		rapid.Check(t, func(t *rapid.T) {
			e := newEnv(&failer{TB: outer.t, rt: t}, outer.rdb, outer.opts)
			defer e.wipe()
			c := openConfig()
			c.PerUserLimit = 3
			g := &gateMachine{e: e, config: c, m: &model{
				state: GateOpen, version: 1, limit: 3,
				left: map[string]int64{"1": 9, "2": 2}, total: map[string]int64{"1": 9, "2": 2},
				entries: map[string]*modelEntry{}, adjusted: map[string]*modelAdjustment{}, room: modelJournalMax,
				journaled: map[string]int{},
			}}
			e.open(c, 9, 2) // of SKU 1, as many as all adjustments together can take off
			t.Repeat(rapid.StateMachineActions(g))
		})
	})
}

// failer makes the helpers of env fail the present run of rapid instead of the whole test, so that rapid shrinks it.
type failer struct {
	testing.TB
	rt *rapid.T
}

func (f *failer) Errorf(format string, args ...any) { f.rt.Errorf(format, args...) }
func (f *failer) FailNow()                          { f.rt.FailNow() }
func (f *failer) Helper()                           { f.rt.Helper() }

// TestConcurrentCallersNeitherOversellNorLeak lets concurrent callers reserve, settle and end the same purchases, some
// of them twice.
func TestConcurrentCallersNeitherOversellNorLeak(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx, c := t.Context(), openConfig()
		c.PerUserLimit = 1
		const units, buyers, callers = 20, 60, 6
		e.open(c, units)
		accepted := make([]map[string]bool, callers)
		errs := make(chan error, callers)
		for w := range callers {
			accepted[w] = map[string]bool{}
			go func() {
				errs <- func() error {
					for i := range 2 * buyers {
						n := (i*7 + w*13) % buyers
						sn, user := strconv.Itoa(1+n), "u"+strconv.Itoa(n/2) // each buyer has two purchases and may hold one unit
						vs, err := e.Reserve(ctx, e.activityID, []Request{{OrderSN: sn, UserID: user, Lines: lines(1)}})
						if err != nil {
							return err
						}
						if vs[0].Outcome == Accepted {
							accepted[w][sn] = true
							err = e.Settle(ctx, e.activityID, []Settlement{{OrderSN: sn, UserID: user, Lines: lines(1), Step: StepLanded}})
						}
						if vs[0].Outcome == Known {
							end := []Ending{{OrderSN: sn, UserID: user, Lines: lines(1), Reason: "expired"}}
							switch n % 3 {
							case 0:
								err = errors.Join(e.Release(ctx, e.activityID, end), e.Release(ctx, e.activityID, end))
							case 1:
								err = errors.Join(e.Drop(ctx, e.activityID, end), e.Release(ctx, e.activityID, end))
							}
						}
						if err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
		for range callers {
			require.NoError(t, <-errs)
		}
		e.check()
		once := map[string]bool{}
		for _, sns := range accepted {
			for sn := range sns {
				require.False(t, once[sn], "order_sn %s was accepted twice", sn)
				once[sn] = true
			}
		}
		a := e.counts("1")
		require.GreaterOrEqual(t, a.Left, int64(0))
		require.Equal(t, int64(units), a.Left+a.Held+a.Sold)
		for user, record := range e.image().buyers {
			require.Contains(t, "01", record[:1], user)
		}
	})
}
