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

// kind is the kind of fault at a fault point.
type kind string

const (
	fine       kind = ""
	failBefore kind = "fails"         // an error, without effect
	failAfter  kind = "response lost" // an error, after the effect
	late       kind = "late"          // delayed; the caller waits
	twice      kind = "twice"         // executed twice
	ghost      kind = "after timeout" // an error, and executed some time later
	dieBefore  kind = "dies before"   // the process ends without the effect
	dieAfter   kind = "dies after"    // the process ends after the effect
	vanishes   kind = "vanishes"      // confirmed, and never delivered
	happens    kind = "happens"       // of events that are no calls
)

var (
	reading = []kind{failBefore, late, dieBefore, dieAfter}
	writing = []kind{failBefore, failAfter, late, twice, ghost, dieBefore, dieAfter}
)

// plan decides which call of which fault point gets which fault. With the same seed, the n-th call of a point gets the
// same fault, whatever else happens.
type plan struct {
	seed   uint64
	rate   float64 // fault rate of ordinary points
	until  time.Time
	calmTo time.Time // no faults before it
	focus  string    // the point with the most faults in this sale
	outage []outage
	mu     sync.Mutex
	points map[string]*point
	deaths int // number of further kills
	drawn  int // number of faults so far
}

// point is the state of one fault point.
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

// outage is a time during which all calls of some points fail: one service cannot reach a dependency.
type outage struct {
	points   string // prefix of their names
	from, to time.Time
}

// outages holds the prefixes of points that fail together.
var outages = []string{
	"inventory: bus deliver seckill-reservations", "inventory: bus deliver order-events", "inventory: bus deliver", "inventory: bus publish",
	"inventory: db", "inventory: redis", "inventory: http", "order: bus deliver", "order: bus publish", "order: db", "seckill: bus publish",
	"seckill: redis", "seckill: redis script ack", "inventory: redis script settle", "inventory: redis script release",
}

// idle matches points that loops call all the time, mostly without work. Their fault rate is lower.
var idle = regexp.MustCompile(`lock or lease|redis (time|smembers|exists|set|xlen|pipeline)|script (read|audit|backlog|unlanded|renew|register|room_state|room_admit)|` +
	`db select (outbox|refunds|orders|reservations|activities|skus|stocks|adjustments|dead_letters|webhooks|deliveries)|db begin`)

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
		p.outage = append(p.outage,
			outage{outages[r.IntN(len(outages))], from, from.Add(time.Duration(1+r.IntN(150)) * 100 * time.Millisecond)})
	}
	return p
}

// focusOf returns the focus of a seed: all points in turn, and a rare one in every fourth sale.
func focusOf(seed uint64) string {
	if seed%4 == 3 {
		return rare[seed/4%uint64(len(rare))]
	}
	return points[seed%uint64(len(points))]
}

// rng returns a random source for one use, so that a further draw in one use does not change another.
func rng(seed uint64, use string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(use))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// draw returns the fault of this call of the point. Each seed has some points with a higher rate, and its focus has
// the highest.
func (p *plan) draw(name string, kinds []kind) kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !now.Before(p.until) {
		return fine
	}
	if now.Before(p.calmTo) {
		return fine
	}
	at := p.at(name)
	coverage.pass(name)
	for _, o := range p.outage {
		if strings.HasPrefix(name, o.points) && now.After(o.from) && now.Before(o.to) {
			coverage.add(name, failBefore)
			p.drawn++
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
	p.drawn++
	return k
}

// chance reports whether the event that the point names happens this time.
func (p *plan) chance(name string, rate float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Before(p.until) || now.Before(p.calmTo) {
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

// extend makes faults possible for that long from now on.
func (p *plan) extend(length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(length)
}

// end returns the time of the last fault.
func (p *plan) end() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until
}

// fail adds an outage that begins now.
func (p *plan) fail(points string, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.outage = append(p.outage, outage{points, now, now.Add(length)})
}

// calm makes no fault happen for that long.
func (p *plan) calm(length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calmTo = time.Now().Add(length)
}

// faults returns the number of faults so far.
func (p *plan) faults() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drawn
}

// faultless reports whether no call fails in this sale.
func (p *plan) faultless() bool { return p.rate == 0 && p.focus == "" && len(p.outage) == 0 }

// pause returns the delay of a late call.
func (p *plan) pause(name string) time.Duration {
	p.mu.Lock()
	n := p.at(name).calls
	p.mu.Unlock()
	r := rng(p.seed+n, "pause "+name)
	return time.Duration(1+r.IntN(40)) * 100 * time.Millisecond
}
