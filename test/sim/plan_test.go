package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is what happens at a fault point.
type kind string

const (
	fine       kind = ""
	failBefore kind = "fails"         // an error, and nothing took place
	failAfter  kind = "answer lost"   // it took place, the caller sees an error
	late       kind = "late"          // it takes place after a while, and the caller waits for it
	twice      kind = "twice"         // it takes place twice
	ghost      kind = "after timeout" // the caller sees an error, and it takes place some time later
	dieBefore  kind = "dies before"   // the process ends here, and nothing took place
	dieAfter   kind = "dies after"    // it took place, and the process ends here
	vanishes   kind = "vanishes"      // it is confirmed, and never comes
	happens    kind = "happens"       // of what is no call
)

var (
	reading = []kind{failBefore, late, dieBefore, dieAfter}
	writing = []kind{failBefore, failAfter, late, twice, ghost, dieBefore, dieAfter}
)

// plan tells which call of which fault point meets which fault. The n-th call of a point meets the same with the same
// seed, whatever else happens.
type plan struct {
	seed   uint64
	rate   float64 // of the ordinary points
	until  time.Time
	focus  string // the point at which most happens in this sale
	outage []outage
	mu     sync.Mutex
	points map[string]*point
	deaths int // how many are left
}

// point is what the plan knows of one fault point.
type point struct {
	calls uint64
	hash  uint64
	rate  float64
	idle  bool
}

// at returns the point of that name. The caller holds mu.
func (p *plan) at(name string) *point {
	at := p.points[name]
	if at == nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		at = &point{hash: h.Sum64(), rate: p.rate, idle: idle.MatchString(name)}
		switch {
		case name == p.focus && slices.Contains(rare, name):
			at.rate = 0.6
		case name == p.focus:
			at.rate = 0.35
		case p.rate > 0 && rng(p.seed, "focus "+name).IntN(12) == 0:
			at.rate = max(4*p.rate, 0.25)
		case at.idle:
			at.rate /= 8
		}
		p.points[name] = at
	}
	return at
}

// outage is a time during which all calls of some points fail: a part is away for one of the services.
type outage struct {
	points   string // how their names begin
	from, to time.Time
}

var parts = []string{
	"inventory: bus deliver seckill-reservations", "inventory: bus deliver order-events", "inventory: bus deliver", "inventory: bus publish",
	"inventory: db", "inventory: redis", "inventory: http", "order: bus deliver", "order: bus publish", "order: db", "seckill: bus publish",
	"seckill: redis", "seckill: redis script ack", "inventory: redis script settle", "inventory: redis script release",
}

// idle points are called all the time by loops that find nothing to do: what happens there is spent for little.
var idle = regexp.MustCompile(`lock or lease|redis (time|smembers|exists|set|sadd|xlen|pipeline)|script (read|audit|unlanded)|` +
	`db select (outbox|refunds|orders|reservations|activities|skus|stocks|adjustments|dead_letters)|db begin`)

func newPlan(seed uint64, length time.Duration) *plan {
	r := rng(seed, "plan")
	rates := []float64{0, 0.003, 0.01, 0.01, 0.03, 0.03, 0.08, 0.2}
	now := time.Now()
	p := &plan{seed: seed, rate: rates[r.IntN(len(rates))], deaths: r.IntN(7), focus: focusOf(seed), points: map[string]*point{}, until: now.Add(length)}
	if p.rate == 0 && r.IntN(2) == 0 {
		p.focus = ""
	}
	for range max(0, r.IntN(5)-2) {
		from := now.Add(time.Duration(r.Int64N(int64(length))))
		p.outage = append(p.outage, outage{parts[r.IntN(len(parts))], from, from.Add(time.Duration(1+r.IntN(150)) * 100 * time.Millisecond)})
	}
	return p
}

// focusOf has every point come in turn, and in every fourth sale one of the rare ones.
func focusOf(seed uint64) string {
	if seed%4 == 3 {
		return rare[seed/4%uint64(len(rare))]
	}
	return points[seed%uint64(len(points))]
}

// rng is a source of its own for each use, so that one more draw here changes nothing there.
func rng(seed uint64, use string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(use))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// draw decides about this call of the point. Each seed has points of its own at which much happens, and one, in turn of all
// that there are, at which most does.
func (p *plan) draw(name string, kinds []kind) kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !now.Before(p.until) {
		return fine
	}
	at := p.at(name)
	coverage.pass(name)
	for _, o := range p.outage {
		if strings.HasPrefix(name, o.points) && now.After(o.from) && now.Before(o.to) {
			coverage.add(name, failBefore)
			return failBefore
		}
	}
	n := at.calls
	at.calls++
	r := rand.New(rand.NewPCG(p.seed, at.hash+n*0x9e3779b97f4a7c15))
	if r.Float64() >= at.rate {
		return fine
	}
	k := kinds[r.IntN(len(kinds))]
	if k == dieBefore || k == dieAfter {
		if p.deaths == 0 || at.idle && r.IntN(4) > 0 {
			return failBefore
		}
		p.deaths--
	}
	coverage.add(name, k)
	return k
}

// chance tells whether what the point's name says happens this time, apart from what else fails.
func (p *plan) chance(name string, rate float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !time.Now().Before(p.until) {
		return false
	}
	coverage.pass(name)
	at := p.at(name)
	n := at.calls
	at.calls++
	if rand.New(rand.NewPCG(p.seed, at.hash+n*0x9e3779b97f4a7c15)).Float64() >= rate {
		return false
	}
	coverage.add(name, happens)
	return true
}

// calm tells whether no call fails in this sale.
func (p *plan) calm() bool { return p.rate == 0 && p.focus == "" && len(p.outage) == 0 }

// pause is how long something is late.
func (p *plan) pause(name string) time.Duration {
	p.mu.Lock()
	n := p.at(name).calls
	p.mu.Unlock()
	r := rng(p.seed+n, "pause "+name)
	return time.Duration(1+r.IntN(40)) * 100 * time.Millisecond
}
