package inventory

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// gateKey returns a key of the activity's gate, to damage and read it without the scripts.
func gateKey(a *core.Activity, name string) string { return "fs:{" + a.ID + "}:" + name }

// whole recomputes everything that follows from the gate's entries, without the scripts, and requires that the gate
// matches.
func (w *world) whole(t require.TestingT, a *core.Activity) {
	gate, err := w.rdb.HGetAll(w.ctx, gateKey(a, "gate")).Result()
	require.NoError(t, err)
	held, err := w.rdb.HGetAll(w.ctx, gateKey(a, "held")).Result()
	require.NoError(t, err)
	buyers, err := w.rdb.HGetAll(w.ctx, gateKey(a, "buyers")).Result()
	require.NoError(t, err)
	want := map[string]int64{"held": 0}
	type buyer struct {
		units int64
		sns   []string
	}
	holders := map[string]*buyer{}
	var unlanded, ended []string
	for sn, stored := range held {
		f := strings.Split(stored, "|")
		require.Len(t, f, 9, stored)
		if f[0] == "x" || f[0] == "f" {
			ended = append(ended, sn)
			continue
		}
		if f[0] == "q" {
			unlanded = append(unlanded, sn)
		}
		if holders[f[1]] == nil {
			holders[f[1]] = &buyer{}
		}
		holders[f[1]].sns = append(holders[f[1]].sns, sn)
		for _, line := range strings.Split(f[2], ",") {
			sku, qty, _ := strings.Cut(line, ":")
			n, err := strconv.ParseInt(qty, 10, 64)
			require.NoError(t, err)
			holders[f[1]].units += n
			if f[0] == "p" {
				want["p:"+sku] += n
				continue
			}
			want["h:"+sku] += n
			want["held"] += n
			if f[0] == "q" {
				want["u:"+sku] += n
			}
		}
	}
	number := func(field string) int64 {
		n, err := strconv.ParseInt(gate[field], 10, 64)
		if gate[field] != "" {
			require.NoError(t, err, field)
		}
		return n
	}
	for _, it := range w.stock(a) {
		require.Equal(t, it.Total, number("t:"+it.SKUID), "total of %s", it.SKUID)
		require.Equal(t, it.Total-want["h:"+it.SKUID]-want["p:"+it.SKUID], number("s:"+it.SKUID), "left of %s", it.SKUID)
	}
	for field := range gate {
		switch kind, _, _ := strings.Cut(field, ":"); kind {
		case "h", "p", "u", "held":
			require.Equal(t, want[field], number(field), "counter %s", field)
			delete(want, field)
		}
	}
	for field, n := range want {
		require.Zero(t, n, "counter %s is missing", field)
	}
	for user, record := range buyers {
		f := strings.Split(record, "|")
		require.Len(t, f, 3, record)
		h := holders[user]
		if h == nil {
			h = &buyer{}
		}
		require.Equal(t, strconv.FormatInt(h.units, 10), f[0], "units of %s", user)
		sns := strings.FieldsFunc(f[1], func(r rune) bool { return r == ',' })
		require.ElementsMatch(t, h.sns, sns, "what %s holds", user)
		delete(holders, user)
	}
	require.Empty(t, holders, "holders without a record")
	for index, members := range map[string][]string{"unlanded": unlanded, "ended": ended} {
		have, err := w.rdb.ZRange(w.ctx, gateKey(a, index), 0, -1).Result()
		require.NoError(t, err)
		require.ElementsMatch(t, members, have, "index %s", index)
	}
}

// mixed is a sale with a purchase in every state.
type mixed struct {
	a                                       *core.Activity
	landed, created, paid, closed, rejected contract.Reservation
	failed, queued                          contract.Reservation
	before                                  map[string]string // entries as stored
}

// mixed makes one. queued leaves a purchase in flight.
func (w *world) mixed(queued bool) *mixed {
	w.t.Helper()
	m := &mixed{a: w.sale(4, 30, 10)}
	sku := func(i int) string { return m.a.Items[i].SKUID }
	line := func(i int, n int64) contract.Line { return contract.Line{SKUID: sku(i), Qty: n} }
	m.landed = w.buy(m.a, "landed", line(0, 2))
	m.created = w.buy(m.a, "created", line(0, 1), line(1, 2))
	m.paid = w.buy(m.a, "paid", line(0, 3))
	m.closed = w.buy(m.a, "closed", line(0, 1))
	m.failed = w.buy(m.a, "failed", line(1, 1))
	w.land(m.landed, m.created, m.paid, m.closed, m.failed)
	// The ledger has a holder that the gate lacks, and refuses the purchase that the gate accepted.
	m.rejected = w.buy(m.a, "rejected", line(0, 4))
	require.NoError(w.t, w.db.Exec("INSERT INTO allowances (activity_id, user_id, held) VALUES (?, 'rejected', 1)", m.a.ID).Error)
	w.land(m.rejected)
	require.NoError(w.t, w.db.Exec("DELETE FROM allowances WHERE activity_id = ? AND user_id = 'rejected'", m.a.ID).Error)
	w.follow(event(m.created, contract.OrderCreated), event(m.paid, contract.OrderPaid), event(m.closed, contract.OrderCreated))
	w.follow(event(m.closed, contract.OrderClosed))
	w.orders.set("tombstone", m.failed.OrderSN)
	require.NoError(w.t, w.core.CloseDue(w.ctx, []contract.OrderClose{{OrderSNs: []string{m.failed.OrderSN}, ActivityID: m.a.ID}}, nil))
	if queued {
		m.queued = w.buy(m.a, "queued", line(1, 1))
	}
	w.sound(m.a)
	w.whole(w.t, m.a)
	m.before = w.rdb.HGetAll(w.ctx, gateKey(m.a, "held")).Val()
	w.settles() // nothing changed within the grace
	return m
}

// settles advances the clock of the service past the grace.
func (w *world) settles() { w.shift += time.Second }

func (w *world) reconcile(a *core.Activity) *reconcile.Result {
	w.t.Helper()
	r, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
	require.NoError(w.t, err)
	return r
}

func kinds(r *reconcile.Result) []string {
	set := map[string]bool{}
	for _, rep := range r.Repairs {
		set[string(rep.Kind)] = true
	}
	list := make([]string, 0, len(set))
	for k := range set {
		list = append(list, k)
	}
	sort.Strings(list)
	return list
}

func TestACleanComparisonRepairsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.mixed(true)
	for range 2 {
		r := w.reconcile(m.a)
		require.Empty(w.t, r.Repairs)
		require.Empty(w.t, r.Differences)
		require.Equal(w.t, m.before, w.rdb.HGetAll(w.ctx, gateKey(m.a, "held")).Val())
	}
	require.NoError(w.t, w.reconciler.ReconcileAll(w.ctx))
	draft := w.draft(1, 5)
	require.Empty(w.t, w.reconcile(draft).Repairs)
	_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), "999999")
	require.Equal(w.t, contract.CodeNotFound, contract.CodeOf(err))
}

// damage is a change of the gate or of the tables by hand.
type damage struct {
	name   string
	queued bool // a purchase is in flight meanwhile
	do     func(w *world, m *mixed) error
	kinds  string // of the repairs
}

var damages = []damage{
	{"entry of a landed one missing", false, func(w *world, m *mixed) error {
		return w.rdb.HDel(w.ctx, gateKey(m.a, "held"), m.landed.OrderSN).Err()
	}, "adopted buyers counters"},
	{"entries of created and paid ones missing with their buyers", false, func(w *world, m *mixed) error {
		w.rdb.HDel(w.ctx, gateKey(m.a, "buyers"), "created", "paid")
		return w.rdb.HDel(w.ctx, gateKey(m.a, "held"), m.created.OrderSN, m.paid.OrderSN).Err()
	}, "adopted counters"},
	{"entries of ended ones missing", false, func(w *world, m *mixed) error {
		return w.rdb.HDel(w.ctx, gateKey(m.a, "held"), m.closed.OrderSN, m.rejected.OrderSN, m.failed.OrderSN).Err()
	}, "buyers forgotten"},
	{"all entries missing", false, func(w *world, m *mixed) error { return w.rdb.Del(w.ctx, gateKey(m.a, "held")).Err() }, "adopted buyers counters forgotten"},
	{"all buyers missing", true, func(w *world, m *mixed) error { return w.rdb.Del(w.ctx, gateKey(m.a, "buyers")).Err() }, "buyers"},
	{"a buyer has too many units", true, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "buyers"), "paid", "4|"+m.paid.OrderSN+"|").Err()
	}, "buyers"},
	{"indexes missing", true, func(w *world, m *mixed) error {
		return w.rdb.Del(w.ctx, gateKey(m.a, "unlanded"), gateKey(m.a, "ended")).Err()
	}, "buyers"},
	{"fewer left", false, hincr("s:", -5), "counters"},
	{"more left", false, hincr("s:", 7), "counters"},
	{"held", false, hincr("h:", 2), "counters"},
	{"sold", false, hincr("p:", -1), "counters"},
	{"total", false, hincr("t:", 3), "counters"},
	{"unlanded", false, hincr("u:", 3), "counters"},
	{"left missing", false, func(w *world, m *mixed) error {
		return w.rdb.HDel(w.ctx, gateKey(m.a, "gate"), "s:"+m.a.Items[0].SKUID).Err()
	}, "counters"},
	{"all counters missing", false, func(w *world, m *mixed) error {
		fields := []string{"held"}
		for _, it := range m.a.Items {
			for _, k := range []string{"s:", "h:", "p:", "t:", "u:"} {
				fields = append(fields, k+it.SKUID)
			}
		}
		return w.rdb.HDel(w.ctx, gateKey(m.a, "gate"), fields...).Err()
	}, "counters"},
	{"held in all", false, func(w *world, m *mixed) error { return w.rdb.HIncrBy(w.ctx, gateKey(m.a, "gate"), "held", 9).Err() }, "counters"},
	{"a SKU that is not sold here", false, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "gate"), "s:987654", "5", "t:987654", "5").Err()
	}, "counters"},
	{"a landed one stored as closed", false, stage("x", func(m *mixed) string { return m.landed.OrderSN }), "buyers counters overruled"},
	{"a closed one stored as landed", false, stage("l", func(m *mixed) string { return m.closed.OrderSN }), "buyers counters released"},
	{"a rejected one stored as queued", false, stage("q", func(m *mixed) string { return m.rejected.OrderSN }), "buyers counters released"},
	{"a created one stored as paid", false, stage("p", func(m *mixed) string { return m.created.OrderSN }), "counters overruled"},
	{"a paid one stored as landed", false, stage("l", func(m *mixed) string { return m.paid.OrderSN }), "counters settled"},
	{"a landed one stored as paid", false, stage("p", func(m *mixed) string { return m.landed.OrderSN }), "counters overruled"},
	{"another buyer", false, edit(1, "other", func(m *mixed) string { return m.landed.OrderSN }), "buyers corrected"},
	{"another deadline", false, edit(4, "1", func(m *mixed) string { return m.created.OrderSN }), "settled"},
	{"other lines", false, func(w *world, m *mixed) error {
		return edit(2, m.a.Items[1].SKUID+":4", func(m *mixed) string { return m.landed.OrderSN })(w, m)
	}, "buyers corrected counters"},
	{"rubbish instead of a paid one", false, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "held"), m.paid.OrderSN, "rubbish").Err()
	}, "buyers counters rewritten"},
	{"rubbish instead of a closed one", false, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "held"), m.closed.OrderSN, "z|a|b").Err()
	}, "buyers rewritten"},
	{"rubbish from nowhere", false, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "held"), newSN(), "rubbish").Err()
	}, "removed"},
	{"paused by hand", true, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "gate"), "state", "paused", "limit", "99").Err()
	}, "configured"},
	{"a version from nowhere", true, func(w *world, m *mixed) error {
		return w.rdb.HSet(w.ctx, gateKey(m.a, "gate"), "version", "999", "ends", "1").Err()
	}, "configured"},
	{"gate missing", false, func(w *world, m *mixed) error { return w.rdb.Del(w.ctx, gateKey(m.a, "gate")).Err() }, "rebuilt"},
	{"Redis emptied", false, func(w *world, _ *mixed) error { return w.rdb.FlushAll(w.ctx).Err() }, "rebuilt"},
	{"everything at once", false, func(w *world, m *mixed) error {
		for _, do := range []func(*world, *mixed) error{hincr("s:", -9), hincr("p:", 4), hincr("t:", 1), stage("x", func(m *mixed) string { return m.created.OrderSN })} {
			if err := do(w, m); err != nil {
				return err
			}
		}
		w.rdb.Del(w.ctx, gateKey(m.a, "buyers"))
		return w.rdb.HDel(w.ctx, gateKey(m.a, "held"), m.paid.OrderSN, m.closed.OrderSN).Err()
	}, "adopted buyers counters forgotten overruled"},
	{"an adjustment lost", false, func(w *world, m *mixed) error { return w.loseAdjustment(m) }, "adjustment"},
	{"allowances", true, func(w *world, m *mixed) error {
		for _, text := range []string{
			"UPDATE allowances SET held = 9 WHERE activity_id = ? AND user_id = 'landed'", "UPDATE allowances SET held = 0 WHERE activity_id = ? AND user_id = 'paid'",
			"DELETE FROM allowances WHERE activity_id = ? AND user_id = 'created'", "UPDATE allowances SET held = 2 WHERE activity_id = ? AND user_id = 'closed'",
			"INSERT INTO allowances (activity_id, user_id, held) VALUES (?, 'ghost', 3)",
		} {
			if err := w.db.Exec(text, m.a.ID).Error; err != nil {
				return err
			}
		}
		return nil
	}, "allowance"},
}

// Every change of the gate by hand is found, reported by its kind, and repaired. Nothing else changes.
func TestDamageIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outer := w.t
	defer func() { w.t = outer }()
	for _, c := range damages {
		outer.(*testing.T).Run(c.name, func(t *testing.T) {
			w.t = t
			m := w.mixed(c.queued)
			require.NoError(w.t, c.do(w, m))
			left := map[string]int64{}
			if a, err := w.gate.Audit(w.ctx, m.a.ID); err == nil {
				for sku, k := range a.SKUs {
					left[sku] = k.Left
				}
			}
			r := w.reconcile(m.a)
			require.Empty(w.t, r.Differences)
			want := strings.Fields(c.kinds)
			slices.Sort(want)
			require.Equal(w.t, want, kinds(r))
			w.whole(w.t, m.a)
			w.sound(m.a)
			if c.queued {
				require.Equal(w.t, m.before[m.queued.OrderSN], w.rdb.HGet(w.ctx, gateKey(m.a, "held"), m.queued.OrderSN).Val(), "what is in flight")
				w.land(m.queued)
			}
			w.agree(m.a)
			w.whole(w.t, m.a)
			if c.kinds != "rebuilt" { // the deltas of the repairs add up to the change of the units left
				for _, rep := range r.Repairs {
					for _, d := range rep.Deltas {
						left[d.SKUID] += d.Delta
					}
				}
				if c.queued {
					left[m.a.Items[1].SKUID] += 0
				}
				now, _, err := w.gate.UnitsLeft(w.ctx, m.a.ID)
				require.NoError(w.t, err)
				require.Equal(w.t, left, now)
			}
			again := w.reconcile(m.a)
			require.Empty(w.t, again.Repairs)
			require.Empty(w.t, again.Differences)
			w.kept(m.a, r)
		})
	}
}

// kept requires that every repair is in the change log, with actor and time.
func (w *world) kept(a *core.Activity, r *reconcile.Result) {
	w.t.Helper()
	var details []string
	require.NoError(w.t, w.db.Table("changes").Where("object = 'activity' AND object_id = ? AND action = 'activity.reconcile' AND who = 'operator'", a.ID).Pluck("detail", &details).Error)
	n := 0
	for _, d := range details {
		n += strings.Count(d, `"kind":`)
	}
	require.Equal(w.t, len(r.Repairs), n)
}

func hincr(kind string, n int64) func(*world, *mixed) error {
	return func(w *world, m *mixed) error {
		return w.rdb.HIncrBy(w.ctx, gateKey(m.a, "gate"), kind+m.a.Items[0].SKUID, n).Err()
	}
}

func edit(field int, to string, of func(*mixed) string) func(*world, *mixed) error {
	return func(w *world, m *mixed) error {
		f := strings.Split(m.before[of(m)], "|")
		f[field] = to
		return w.rdb.HSet(w.ctx, gateKey(m.a, "held"), of(m), strings.Join(f, "|")).Err()
	}
}

func stage(s string, of func(*mixed) string) func(*world, *mixed) error { return edit(0, s, of) }
