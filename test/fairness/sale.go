package fairness

import (
	"math"
	"math/rand/v2"
	"time"
)

// sale is one simulated sale.
type sale struct {
	queue
	p      Parameters
	on     Set
	random *rand.Rand
	limits *limits
	room   *room
	pauses pauses

	humans, bots []*account
	robots       []*robot
	left         int
	// Accounts that buy units which return to a sold-out sale.
	watchingPeople, watchingBots []*account

	unpaid time.Duration // that robots held units without paying
}

// Result is what became of a sale.
type Result struct {
	Sold int // units paid or held at the end
	// Robots is the share of the sold units that robots have.
	Robots float64
	// Mistaken is the share of humans who were refused by a rule or a challenge while units were left, and got none.
	// MistakenOfTurn is their share of the humans who called while units were left.
	Mistaken, MistakenOfTurn float64
	// Held is the time for which robots held units without paying, for each unit of the sale.
	Held time.Duration
}

// Run simulates a sale. scale is the ratio by which the population was made smaller; it divides the path bucket too.
func Run(p Parameters, on Set, seed uint64, scale int) (Result, error) {
	s := &sale{p: p, on: on, random: rand.New(rand.NewPCG(seed, 0)), left: p.Units, pauses: pauses{}}
	s.now = -roomOpens
	var err error
	if s.limits, err = newLimits(func() time.Duration { return s.now }, scale); err != nil {
		return Result{}, err
	}
	s.room = newRoom(p.AdmitPerSecond, s.random)
	s.population()
	for _, a := range append(s.bots[:len(s.bots):len(s.bots)], s.humans...) {
		s.at(a.arrives, func() { s.arrive(a) })
	}
	s.at(-roomCloses, func() {
		if err = s.room.close(); err != nil {
			return
		}
		for _, a := range append(s.bots[:len(s.bots):len(s.bots)], s.humans...) {
			if a.ticket > 0 {
				s.enter(a)
			}
		}
	})
	s.run(p.Horizon)
	return s.result(), err
}

func (s *sale) result() (r Result) {
	var humans, robots, mistaken, eligible int
	for _, a := range s.humans {
		humans += a.units()
		if a.eligible {
			eligible++
		}
		if a.refused && !a.bought {
			mistaken++
		}
	}
	for _, a := range s.bots {
		robots += a.units()
	}
	r.Sold = humans + robots
	r.Robots = float64(robots) / float64(max(1, r.Sold))
	r.Mistaken = float64(mistaken) / float64(s.p.Humans)
	r.MistakenOfTurn = float64(mistaken) / float64(max(1, eligible))
	r.Held = s.unpaid / time.Duration(s.p.Units)
	return r
}

func (s *sale) uniform(d time.Duration) time.Duration {
	return time.Duration(s.random.Float64() * float64(d))
}

func (s *sale) exponential(mean time.Duration) time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(mean))
}

// arrive brings an account to the page. With a waiting room it joins; otherwise it calls at the start, and solves its
// challenge before if it can.
func (s *sale) arrive(a *account) {
	if s.on.has(Room) {
		s.join(a)
		return
	}
	if s.challenged() {
		s.at(-solvingOpens, func() { s.solve(a) })
	}
	switch {
	case s.now > 0:
		s.call(a, s.p.Latency)
	case a.robot != nil:
		s.call(a, s.p.RobotDelay-s.now)
	default:
		s.call(a, s.p.ReactionLeast+s.exponential(s.p.Reaction)-s.now)
	}
}

func (s *sale) challenged() bool { return s.on.has(Proof) || s.on.has(Image) }

// join takes a ticket for the waiting room.
func (s *sale) join(a *account) {
	for _, r := range []struct {
		on        Control
		name, key string
	}{{Addresses, "room-per-ip", a.address}, {Users, "room-per-user", a.user}} {
		if !s.on.has(r.on) {
			continue
		}
		if ok, after := s.limits.take(r.name, r.key); !ok {
			s.after(s.repeatAfter(a, after), func() { s.join(a) })
			return
		}
	}
	a.ticket = s.room.join()
	if s.room.early >= 0 { // early joining has ended, so the place is known
		s.enter(a)
	}
}

// enter schedules the call of an account for its admission. The page of a person polls once a second by then.
func (s *sale) enter(a *account) {
	a.admitted = s.room.admission(a.ticket, s.now)
	delay := s.p.RobotDelay
	if a.robot == nil {
		delay = s.uniform(time.Second) + s.p.Latency
	}
	s.call(a, a.admitted-s.now+delay)
}

// repeatAfter returns the time after which an account repeats a refused call. A page waits for whole seconds and adds a
// random part.
func (s *sale) repeatAfter(a *account, after time.Duration) time.Duration {
	if a.robot != nil {
		return after + s.p.RobotDelay
	}
	return max(after, time.Second) + s.uniform(time.Second)
}

// lapsed reports whether the admission of an account has ended.
func (s *sale) lapsed(a *account) bool { return s.on.has(Room) && s.now > a.admitted+admissionLasts }

// call schedules a path request, unless one is scheduled.
func (s *sale) call(a *account, d time.Duration) {
	if !a.calling {
		a.calling = true
		s.after(d, func() { s.path(a) })
	}
}

// again schedules the repetition of the path request that goes on.
func (s *sale) again(a *account, d time.Duration) { s.after(d, func() { s.path(a) }) }

// path is a request for a path, with the checks of the path route in their order.
func (s *sale) path(a *account) {
	if s.left == 0 {
		s.soldOut(a)
		return
	}
	a.eligible = true
	if s.lapsed(a) {
		a.calling = false
		s.join(a)
		return
	}
	if s.challenged() && (!a.passed || s.now >= a.passEnds) { // the page shows the challenge instead
		a.calling = false
		s.solve(a)
		return
	}
	if !s.charge(a, Addresses, "path-per-ip", a.address) || !s.charge(a, Users, "path-per-user", a.user) {
		return
	}
	if s.on.has(PerUser) && a.units() >= s.p.PerUserLimit {
		a.calling = false
		return
	}
	if s.on.has(Reorder) && s.now < a.barred {
		s.again(a, a.barred-s.now)
		return
	}
	if !s.charge(a, Users, "path-click", a.user) {
		return
	}
	ok, after := s.limits.take("path-activity", "")
	if !ok {
		s.rateLimited(a, after)
		return
	}
	s.after(after+s.travel(a), func() { s.issued(a, s.now) })
}

// charge charges a rule of a control that is on. After a refusal the call is repeated.
func (s *sale) charge(a *account, c Control, rule, key string) bool {
	if !s.on.has(c) {
		return true
	}
	ok, after := s.limits.take(rule, key)
	if !ok {
		a.refused = true
		s.impatient(a, s.repeatAfter(a, after))
	}
	return ok
}

// rateLimited repeats a call that the path bucket refused. A robot does not wait for Retry-After.
func (s *sale) rateLimited(a *account, after time.Duration) {
	if a.robot != nil { // spread, or robots that were refused together would return together
		s.again(a, s.p.RobotPause/2+s.uniform(s.p.RobotPause))
		return
	}
	s.impatient(a, s.repeatAfter(a, after))
}

// impatient repeats a call, unless a person has lost patience.
func (s *sale) impatient(a *account, after time.Duration) {
	if a.refusals++; a.robot == nil && a.refusals > s.p.Patience {
		a.left, a.calling = true, false
		return
	}
	s.again(a, after)
}

// travel returns the time between two calls of an account.
func (s *sale) travel(a *account) time.Duration {
	if a.robot != nil {
		return s.p.RobotDelay
	}
	return s.p.Latency
}

// issued continues with a path.
func (s *sale) issued(a *account, at time.Duration) {
	if a.robot == nil || a.robot.kind != hoarding || a.full {
		s.purchase(a, at)
		return
	}
	a.paths = append(a.paths, at)
	if len(a.paths) < s.p.KeptPaths && s.left > 0 {
		s.again(a, s.p.RobotDelay)
		return
	}
	a.full = true
	s.purchaseKept(a)
}

// purchaseKept buys with the oldest path that an account keeps, and reports whether it has one that is valid.
func (s *sale) purchaseKept(a *account) bool {
	for len(a.paths) > 0 {
		at := a.paths[0]
		a.paths = a.paths[1:]
		if s.now < at+pathLasts && (!s.on.has(KeptVoid) || at >= a.reserved || !a.bought) {
			a.calling = true
			s.purchase(a, at)
			return true
		}
	}
	return false
}

// purchase is a purchase with a path.
func (s *sale) purchase(a *account, issued time.Duration) {
	for _, r := range []struct {
		on        Control
		name, key string
	}{{Addresses, "purchase-per-ip", a.address}, {Users, "purchase-per-user", a.user}} {
		if !s.on.has(r.on) {
			continue
		}
		if ok, after := s.limits.take(r.name, r.key); !ok {
			a.refused = a.refused || s.left > 0
			s.after(s.repeatAfter(a, after), func() { s.purchase(a, issued) })
			return
		}
	}
	switch {
	case s.now >= issued+pathLasts || s.on.has(KeptVoid) && a.bought && issued < a.reserved:
		s.again(a, s.travel(a))
	case s.on.has(PerUser) && a.units() >= s.p.PerUserLimit:
		a.calling = false
	case s.on.has(Reorder) && s.now < a.barred:
		s.again(a, a.barred-s.now)
	case s.left == 0:
		s.soldOut(a)
	default:
		s.reserve(a)
	}
}

// reserve takes a unit.
func (s *sale) reserve(a *account) {
	s.left--
	a.held++
	a.bought, a.reserved, a.calling = true, s.now, false
	at := s.now
	switch {
	case a.robot == nil && a.pays, a.robot != nil && (a.robot.kind == fast || a.robot.kind == manyAddresses):
		s.pay(a)
	case a.robot == nil:
		s.after(s.p.PayWithin, func() { s.release(a) })
	default:
		s.after(s.p.HoldFor, func() { s.hold(a, at) })
	}
	if a.robot != nil && !s.on.has(PerUser) && !s.purchaseKept(a) { // the next unit of the same account
		s.call(a, s.p.RobotDelay)
	}
}

func (s *sale) pay(a *account) {
	a.held--
	a.paid++
}

// hold decides what a robot does with a unit that it has not paid. It cancels and buys again while it expects to get the
// unit back: with a path that it kept, or without another place or challenge.
func (s *sale) hold(a *account, since time.Duration) {
	s.unpaid += s.now - since
	at := s.now
	mayCancel := !s.on.has(Reorder) || a.lost < s.p.ReorderLimit
	kept := a.robot.kind == hoarding && len(a.paths) > 0 && !s.on.has(KeptVoid)
	free := !s.lapsed(a) && (!s.challenged() || a.passed && s.now < a.passEnds)
	switch {
	case a.cycles >= s.p.Holds:
		s.pay(a)
	case mayCancel && (kept || a.robot.kind == cancelling && free):
		a.cycles++
		s.release(a)
		if !kept || !s.purchaseKept(a) {
			s.call(a, s.p.RobotDelay)
		}
	default: // the pay window is longer than a hold, so the robot keeps the unit for the rest of it and pays
		a.cycles = s.p.Holds
		s.after(max(0, s.p.PayWithin-s.p.HoldFor), func() { s.hold(a, at) })
	}
}

// release ends an order without payment. Its unit returns.
func (s *sale) release(a *account) {
	a.held--
	if a.lost++; a.lost > s.p.ReorderLimit {
		a.barred = s.now + barredFor
	}
	s.left++
	// Some of those who watch call for the unit. More of them would only find the sale sold out again.
	const callers = 10
	for range callers {
		if b := s.pick(&s.watchingBots); b != nil {
			s.call(b, s.uniform(s.p.RobotPause)+s.p.RobotDelay)
		}
		if b := s.pick(&s.watchingPeople); b != nil {
			s.call(b, s.exponential(s.p.StayReaction)+s.p.Latency)
		}
	}
}

func (s *sale) pick(from *[]*account) *account {
	n := len(*from)
	if n == 0 {
		return nil
	}
	i := s.random.IntN(n)
	a := (*from)[i]
	(*from)[i] = (*from)[n-1]
	*from = (*from)[:n-1]
	return a
}

// soldOut ends the calls of an account, which may watch for units that return.
func (s *sale) soldOut(a *account) {
	a.calling = false
	switch {
	case a.robot != nil:
		s.watchingBots = append(s.watchingBots, a)
	case a.stays && !a.bought:
		s.watchingPeople = append(s.watchingPeople, a)
	default:
		a.left = true
	}
}

// solve solves a challenge and then calls.
func (s *sale) solve(a *account) {
	if a.robot != nil {
		a.robot.waiting = append(a.robot.waiting, a)
		s.work(a.robot)
		return
	}
	image := s.on.has(Image) && !a.accessible
	took := s.p.ProofPerson
	if image {
		took = time.Duration(float64(s.p.ImageMedian) * math.Exp(s.p.ImageSpread*s.random.NormFloat64()))
	}
	s.after(took+s.p.Latency, func() { s.answer(a, image) })
}

// answer is the answer of a person to a challenge. The page repeats it after a pause.
func (s *sale) answer(a *account, image bool) {
	switch paused := s.pauses.left(a, s.now); {
	case s.lapsed(a):
		a.refused = a.refused || s.left > 0
		s.join(a)
	case image && paused > 0:
		s.after(paused, func() { s.answer(a, image) })
	case image && s.random.Float64() >= s.p.ImageRight:
		s.after(s.pauses.wrong(a, s.now), func() { s.solve(a) })
	default:
		s.pauses.right(a)
		s.pass(a)
	}
}

func (s *sale) pass(a *account) {
	a.passed, a.passEnds = true, s.now+passLasts
	if s.on.has(Room) || s.now >= 0 {
		s.call(a, s.travel(a))
	}
}

// work solves the next challenge of a robot. It leaves those whose admission would end first, and joins again for them.
func (s *sale) work(r *robot) {
	took, solvers := s.p.ProofRobot, 1
	if s.on.has(Image) && !s.on.has(OpenProof) {
		took, solvers = s.p.ImageRobot, s.p.Solvers
	}
	if r.solving >= solvers || len(r.waiting) == 0 {
		return
	}
	a := r.waiting[0]
	r.waiting = r.waiting[1:]
	if s.on.has(Room) && s.now+took > a.admitted+admissionLasts {
		if s.left > 0 {
			s.join(a)
		} else {
			s.soldOut(a)
		}
		s.work(r)
		return
	}
	r.solving++
	s.after(took, func() {
		r.solving--
		s.pauses.right(a)
		s.pass(a)
		s.work(r)
	})
}
