package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// redisless is a time without Redis, in sales that go on without it. The zero value is none.
type redisless struct {
	from, lasts time.Duration // from the start of the sale
	returns     string        // how Redis comes back
	reaches     []string      // processes that never lose it
	apart       []separation  // processes of seckill that cannot reach inventory for a while
	kills       bool          // every process of inventory ends at each change of a mode

	perSecond, drop, reserve int
}

// How Redis comes back.
const (
	withData = "with its data"
	asEmpty  = "empty"
	asOld    = "without its last writes"
)

// loseRedis adds a time without Redis. Later ones replace it.
func (s *sale) loseRedis(r *rand.Rand) {
	s.redisless = redisless{
		from: time.Duration(15+r.IntN(30)) * 100 * time.Millisecond, lasts: time.Duration(12+r.IntN(25)) * time.Second,
		returns: []string{withData, withData, asEmpty, asOld}[r.IntN(4)], kills: r.IntN(4) == 0,
		perSecond: 1 + r.IntN(20), drop: r.IntN(2) * r.IntN(50), reserve: r.IntN(2) * r.IntN(40),
	}
	if r.IntN(2) == 0 {
		s.instances = 2
	}
	l := &s.redisless
	if r.IntN(3) == 0 { // never the last process of inventory: then Redis is not unavailable
		l.reaches = append(l.reaches, fmt.Sprintf("seckill/%d", r.IntN(s.instances)))
	}
	for range r.IntN(3) {
		l.apart = append(l.apart, separation{
			process: fmt.Sprintf("seckill/%d", r.IntN(s.instances)), service: "inventory",
			from:  time.Duration(r.Int64N(int64(l.from + l.lasts))),
			lasts: time.Duration(10+r.IntN(150)) * 100 * time.Millisecond,
		})
	}
	for i := range s.stock {
		s.stock[i] += int64(r.IntN(12))
	}
	s.buyers += 6
}

// fitRedisless removes what a sale without Redis does not combine with: further losses of Redis, which would excuse
// too much.
func (s *sale) fitRedisless() {
	if s.setback.of != "" {
		s.redisless = redisless{}
	}
	if !s.redisless.happens() {
		return
	}
	s.window = s.redisless.from + s.redisless.lasts + 4*time.Second
	if s.room.happens() { // so slow that places are left when Redis is lost
		s.room.rate = 1
	}
	s.failover, s.acquires, s.alone, s.greedy = 0, false, false, false
	s.losses, s.damages, s.full, s.forges, s.twin = nil, nil, 0, 0, false
	s.brokerless = brokerless{}
	s.latecomers, s.opensLate = false, false
}

// happens reports whether Redis is unavailable at some time.
func (r redisless) happens() bool { return r.lasts > 0 }

// twoViews reports whether a process may read results in Redis that are older than those in the ledger: it reaches Redis,
// and has not read the mode.
func (r redisless) twoViews(now time.Duration) bool {
	return len(r.reaches) > 0 && len(r.apart) > 0 && now > r.from && now < r.from+r.lasts+15*time.Second
}

// withoutRedis reports whether the process cannot reach Redis now.
func (w *world) withoutRedis(p *process) bool {
	return w.noRedis.Load() && !slices.Contains(w.sale.redisless.reaches, p.name())
}

// redislessPhase is how an activity became redisless for the first time.
type redislessPhase struct {
	began     time.Time
	figuresAt time.Time // purchases that the gate had accepted before it are known to inventory
}

// runRedisless makes Redis unavailable for a time, and follows the modes of the activities until the faults end.
func (w *world) runRedisless() {
	l := w.sale.redisless
	if l.returns == asOld {
		time.Sleep(l.from - time.Second)
		w.replica.cut.Store(true)
		time.Sleep(time.Second)
	} else {
		time.Sleep(l.from)
	}
	w.noRedis.Store(true)
	w.history.note("redis", "! is unavailable")
	ends := time.Now().Add(l.lasts)
	point := "redis: unavailable, returns " + l.returns
	coverage.pass(point)
	coverage.add(point, happens)
	modes := map[string]string{}
	for !w.plan.ended() {
		if w.noRedis.Load() && !time.Now().Before(ends) {
			w.returnRedis()
		}
		w.watchModes(modes)
		time.Sleep(20 * time.Millisecond)
	}
	if w.noRedis.Load() {
		w.returnRedis()
	}
}

func (w *world) returnRedis() {
	switch w.sale.redisless.returns {
	case asEmpty:
		w.loseGate(true)
	case asOld:
		w.betweenCommands(func() {
			old := w.mini.Load()
			w.redisLife.Add(1)
			w.mini.Store(w.replica.mini)
			w.noteFailover(old, w.replica.mini)
			old.Close()
		})
	}
	w.noRedis.Store(false)
	w.history.note("redis", "! is available")
}

// watchModes notes changes of modes, and ends the processes of inventory at each, in some sales.
func (w *world) watchModes(known map[string]string) {
	for id, m := range w.modes() {
		if known[id] == m.Mode {
			continue
		}
		was := known[id]
		known[id] = m.Mode
		w.history.note("activity "+id, "! mode", m.Mode)
		if was == "" {
			continue
		}
		coverage.end("mode " + m.Mode)
		w.mu.Lock()
		if _, is := w.redislessAt[id]; m.Mode == string(contract.ModeRedisless) && !is {
			w.redislessAt[id] = redislessPhase{time.Now(), m.FiguresAt.UTC()}
		}
		w.mu.Unlock()
		if !w.sale.redisless.kills {
			continue
		}
		coverage.pass("redis: unavailable, inventory ends when a mode changes")
		coverage.add("redis: unavailable, inventory ends when a mode changes", happens)
		for slot := range w.sale.instances {
			w.mu.Lock()
			p := w.lives[fmt.Sprintf("inventory/%d", slot)]
			w.mu.Unlock()
			if p != nil {
				p.die("mode " + m.Mode)
			}
		}
	}
}

type modeRow struct {
	ID        string
	Mode      string
	FiguresAt time.Time
}

func (w *world) modes() map[string]modeRow {
	var rows []modeRow
	if err := w.books["inventory"].Raw("SELECT activities.id, mode, figures_at FROM activities " +
		"LEFT JOIN redisless_sales ON redisless_sales.activity_id = activities.id").Scan(&rows).Error; err != nil {
		w.fail("read modes: %v", err)
	}
	byID := map[string]modeRow{}
	for _, r := range rows {
		byID[r.ID] = r
	}
	return byID
}

// noteReserved records the purchases that inventory has reserved without a message: they are in the ledger.
func (w *world) noteReserved(body, response []byte) {
	var request contract.RedislessReserve
	var results contract.RedislessResults
	if json.Unmarshal(body, &request) != nil || json.Unmarshal(response, &results) != nil ||
		len(results.Results) != len(request.Items) {
		w.fail("a response to redisless purchases cannot be read: %s", response)
		return
	}
	for i, r := range results.Results {
		it := request.Items[i]
		what := "redisless purchase "
		if it.Accepted {
			what = "purchase handed over "
		}
		coverage.end(what + string(r.Outcome))
		if r.Outcome != contract.RedislessReserved {
			continue
		}
		if it.Accepted && w.sale.waits {
			coverage.end("purchase handed over of a sale that waits for replicas")
		}
		if w.rowState(it.OrderSN) == "" {
			w.concern(it.OrderSN)
			w.fail("order_sn %s: inventory has reserved it, and the ledger does not have it", it.OrderSN)
		}
		w.mu.Lock()
		if w.carried[it.OrderSN].IsZero() {
			w.carried[it.OrderSN] = time.Now()
		}
		w.mu.Unlock()
	}
}

// notePosted records the first attempt of a purchase.
func (w *world) notePosted(p *purchase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.posted.IsZero() {
		p.posted = time.Now()
	}
}

// watchRedisless requires that a purchase that is first accepted while no process reaches Redis is in the ledger. It is
// called after each 202.
func (w *world) watchRedisless(p *purchase) {
	l := w.sale.redisless
	if !l.happens() || len(l.reaches) > 0 || !w.noRedis.Load() {
		return
	}
	lost := w.selling.Add(l.from)
	w.mu.Lock()
	posted := p.posted
	w.mu.Unlock()
	if posted.Before(lost.Add(time.Second)) || posted.After(w.selling.Add(l.from+l.lasts)) { // a call may have begun before
		return
	}
	if w.rowState(p.orderSN) == "" {
		w.concern(p.orderSN)
		w.fail("order_sn %s was accepted without Redis, and the ledger does not have it", p.orderSN)
	}
}

// checkRedisless requires that each mode is gate again, and that no purchase that the gate had accepted before Redis
// was lost was refused for one that came later. A buyer may use up the own limit meanwhile.
func (w *world) checkRedisless(f *findings, b books) {
	if !w.sale.redisless.happens() {
		return
	}
	for id, m := range w.modes() {
		if m.Mode != string(contract.ModeGate) {
			f.add("", "the mode of activity %s is %s", id, m.Mode)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	others := map[string]int{}
	for _, r := range b.ledger {
		others[r.UserID+" in "+r.activity()]++
	}
	for _, r := range b.ledger {
		p, phase := w.purchases[r.sn()], w.redislessAt[r.activity()]
		if p == nil || r.State != "rejected" || r.Reason == "system" || p.accepted.IsZero() {
			continue
		}
		own := r.Reason == "limit_reached" && others[r.UserID+" in "+r.activity()] > 1
		lossy := w.happened["emptied"] || w.happened[inFailover]
		switch {
		case own, lossy && !r.LandedAt.Before(w.selling.Add(w.sale.redisless.from+w.sale.redisless.lasts)):
		case phase.began.IsZero():
			f.add(r.sn(), "the ledger refused %s (%s), and the sale was never redisless", r.sn(), r.Reason)
		case p.accepted.Before(phase.figuresAt):
			f.add(r.sn(), "the ledger refused %s (%s), which was accepted before Redis was lost", r.sn(), r.Reason)
		case len(w.sale.redisless.reaches)+len(w.sale.redisless.apart)+len(w.sale.freezes) == 0 && !w.died("seckill") &&
			p.accepted.Before(w.selling.Add(w.sale.redisless.from)):
			f.add(r.sn(), "the ledger refused %s (%s), and its process could hand it over", r.sn(), r.Reason)
		}
	}
}

// died reports whether a process of the service has ended in this sale. The caller holds mu.
func (w *world) died(service string) bool {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	return slices.ContainsFunc(w.history.lines, func(l line) bool {
		return l.what == "! dies" && strings.HasPrefix(l.who, service+"/")
	})
}
