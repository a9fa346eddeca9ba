package priority

import (
	"cmp"
	"time"
)

// Bounds of the backlog. Landing goes first from the first value on, and stays first until the backlog is below the
// second, so that it does not change with every measurement.
const (
	landingFrom = 30 * time.Second // time to land what has not landed, and age of the oldest journal entry
	buyersBelow = 20 * time.Second
	fullFrom    = 0.75 // part of the room of the fullest journal
	fullBelow   = 0.5

	// assumedRate is the landing rate, in purchases a second, until it is measured. It is lower than that of any machine,
	// so that landing goes first early in the first sale of a process, for about two seconds, which measures it.
	assumedRate = 700
)

const (
	// settling is the time after the last yielding for which the landing rate is not measured: what the relay publishes
	// needs that long until it has landed.
	settling = time.Second
	// rise and fall are the weights of a measured landing rate that is higher or lower than the known one. Short stalls of
	// a disk or a collector are no reason to refuse buyers their share, so the rate falls slowly.
	rise, fall = 0.5, 0.1
	// stalledAfter is the time without a landed purchase after which landing counts as stopped. Slower buyers would not
	// help it, so they are not slowed down.
	stalledAfter = 3 * time.Second
	// acceptedOfLanded is the part of the landing rate that is accepted while landing goes first, so that the backlog
	// shrinks.
	acceptedOfLanded = 0.9
)

// measurement is what was measured in an interval of all gates with purchases.
type measurement struct {
	took     time.Duration
	own      int64 // purchases that this process accepted
	accepted int64 // purchases that all processes accepted
	landed   int64 // purchases that landed
	yielded  bool  // the relay yielded to buyers in the interval

	// At the end of the interval:
	unlanded  int64         // purchases that have not landed
	journaled int64         // those of them that are not published
	oldest    time.Duration // age of the oldest journal entry
	full      float64       // part of the room of the fullest journal that is used
}

// decision decides whether landing goes first, and how many purchases are accepted meanwhile. It has no clock: time is
// the sum of the measured intervals.
type decision struct {
	rate         float64 // landing rate with priority, in purchases a second; 0 means not measured
	landingFirst bool
	pace         float64       // purchases a second that this process may accept; 0 means any number
	unyielding   time.Duration // time since the relay last yielded
	stalled      time.Duration // time since a purchase last landed, while some waited
}

// observe decides by one more measurement.
func (d *decision) observe(m measurement) {
	if m.took <= 0 {
		return
	}
	d.measureRate(m)
	need := time.Duration(float64(m.unlanded) / cmp.Or(d.rate, assumedRate) * float64(time.Second))
	switch {
	case need >= landingFrom || m.oldest >= landingFrom || m.full >= fullFrom:
		d.landingFirst = true
	case need < buyersBelow && m.oldest < buyersBelow && m.full < fullBelow:
		d.landingFirst = false
	}
	d.pace = 0
	if d.landingFirst && d.stalled < stalledAfter {
		total := max(d.rate, perSecond(m.landed, m.took))
		if d.rate == 0 { // yielding has slowed landing down until now
			total = max(total, perSecond(m.accepted, m.took)/2)
		}
		d.pace = acceptedOfLanded * total * m.share()
	}
}

// measureRate updates the landing rate if landing had priority for the whole interval and never ran out of purchases.
func (d *decision) measureRate(m measurement) {
	if m.landed > 0 || m.unlanded == 0 {
		d.stalled = 0
	} else {
		d.stalled += m.took
	}
	if m.yielded {
		d.unyielding = 0
		return
	}
	d.unyielding += m.took
	measured := perSecond(m.landed, m.took)
	switch {
	case d.unyielding-m.took < settling, m.landed == 0, m.unlanded < m.landed:
	case d.rate == 0:
		d.rate = measured
	case measured > d.rate:
		d.rate += rise * (measured - d.rate)
	default:
		d.rate += fall * (measured - d.rate)
	}
}

// share returns the part of the accepted purchases that this process accepted. The processes of an installation thus
// share the landing rate as they share the buyers.
func (m measurement) share() float64 {
	if m.own == 0 || m.own >= m.accepted {
		return 1
	}
	return float64(m.own) / float64(m.accepted)
}

func perSecond(n int64, took time.Duration) float64 { return float64(n) / took.Seconds() }
