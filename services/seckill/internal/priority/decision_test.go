package priority

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLandingGoesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		rate  float64 // known landing rate
		was   bool
		m     measurement
		first bool
	}{
		"nothing waits":                    {rate: 5000},
		"less than 30 s of landing":        {rate: 5000, m: measurement{unlanded: 149_000}},
		"30 s of landing":                  {rate: 5000, m: measurement{unlanded: 150_000}, first: true},
		"the oldest entry is 30 s old":     {rate: 5000, m: measurement{oldest: 30 * time.Second}, first: true},
		"a journal is three quarters full": {rate: 5000, m: measurement{full: 0.75}, first: true},
		"unknown rate, small backlog":      {m: measurement{unlanded: 30*assumedRate - 1}},
		"unknown rate, large backlog":      {m: measurement{unlanded: 30 * assumedRate}, first: true},
		"stays first down to 20 s":         {rate: 5000, was: true, m: measurement{unlanded: 100_000}, first: true},
		"stays first down to 20 s of age":  {rate: 5000, was: true, m: measurement{oldest: 20 * time.Second}, first: true},
		"stays first down to half a room":  {rate: 5000, was: true, m: measurement{full: 0.5}, first: true},
		"less than all of these":           {rate: 5000, was: true, m: measurement{unlanded: 99_000, oldest: 19 * time.Second, full: 0.4}},
	} {
		t.Run(name, func(t *testing.T) {
			d := decision{rate: c.rate, landingFirst: c.was}
			c.m.took, c.m.yielded = time.Second, true
			d.observe(c.m)
			require.Equal(t, c.first, d.landingFirst)
		})
	}
}

func TestLandingRateIsMeasuredWithPriorityOnly(t *testing.T) {
	const second = time.Second
	var d decision
	observe := func(m measurement) float64 {
		m.took = second
		d.observe(m)
		return d.rate
	}
	require.Zero(t, observe(measurement{landed: 1000, unlanded: 50_000, yielded: true}), "the relay yielded")
	require.Zero(t, observe(measurement{landed: 2000, unlanded: 50_000}), "what it published then still lands")
	require.Zero(t, observe(measurement{landed: 3000, unlanded: 2000}), "landing ran out of purchases")
	require.InDelta(t, 4000, observe(measurement{landed: 4000, unlanded: 50_000}), 1)
	require.InDelta(t, 5000, observe(measurement{landed: 6000, unlanded: 50_000}), 1, "rises soon")
	require.InDelta(t, 4900, observe(measurement{landed: 4000, unlanded: 50_000}), 1, "falls slowly")
	require.InDelta(t, 4900, observe(measurement{unlanded: 50_000}), 1, "a stop is not a rate")
	require.InDelta(t, 4900, observe(measurement{landed: 1000, unlanded: 50_000, yielded: true}), 1)
	require.InDelta(t, 4900, observe(measurement{landed: 100, unlanded: 50_000}), 1)
}

func TestPurchasesAreAcceptedAtTheLandingRateWhileLandingGoesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		rate float64
		m    measurement
		pace float64
	}{
		"buyers go first":                    {rate: 5000, m: measurement{unlanded: 100, landed: 100}},
		"the only process":                   {rate: 5000, m: measurement{unlanded: 200_000, landed: 1000, own: 8000, accepted: 8000}, pace: 4500},
		"faster than known":                  {rate: 5000, m: measurement{unlanded: 300_000, landed: 6000, own: 8000, accepted: 8000}, pace: 5400},
		"a quarter of the buyers":            {rate: 5000, m: measurement{unlanded: 200_000, landed: 1000, own: 2000, accepted: 8000}, pace: 1125},
		"no buyer in this process":           {rate: 5000, m: measurement{unlanded: 200_000, landed: 1000, accepted: 8000}, pace: 4500},
		"counted before the gate was read":   {rate: 5000, m: measurement{unlanded: 200_000, landed: 1000, own: 8100, accepted: 8000}, pace: 4500},
		"unknown rate":                       {m: measurement{unlanded: 50_000, landed: 1000, own: 8000, accepted: 8000}, pace: 3600},
		"unknown rate, landing is faster":    {m: measurement{unlanded: 50_000, landed: 6000, own: 8000, accepted: 8000}, pace: 5400},
		"nothing landed in this second only": {rate: 5000, m: measurement{unlanded: 200_000, own: 8000, accepted: 8000}, pace: 4500},
	} {
		t.Run(name, func(t *testing.T) {
			d := decision{rate: c.rate}
			c.m.took, c.m.yielded = time.Second, true
			d.observe(c.m)
			require.InDelta(t, c.pace, d.pace, 1e-6)
		})
	}
}

// Slower buyers do not help a chain that is down: the journal holds what they buy.
func TestStoppedLandingSlowsNoPurchaseDown(t *testing.T) {
	d := decision{rate: 5000}
	down := measurement{took: time.Second, unlanded: 200_000, own: 8000, accepted: 8000}
	for range 2 {
		d.observe(down)
		require.NotZero(t, d.pace)
	}
	d.observe(down)
	require.True(t, d.landingFirst)
	require.Zero(t, d.pace)
	down.landed = 100
	d.observe(down)
	require.NotZero(t, d.pace, "it lands again")
}

// sale simulates a burst of buyers that outrun landing, with a chain that lands landsAt a second when landing has
// priority, and a tenth of what is accepted otherwise.
type sale struct {
	decision
	offered, landsAt float64
	journal          []float64 // purchases accepted in each step that are not landed, oldest first
	first            int       // step of journal[0]
	step             int
	unlanded         float64
}

const stepTime = 500 * time.Millisecond

// next simulates one interval and returns the age of the oldest purchase that has not landed.
func (s *sale) next() time.Duration {
	accepts := s.offered
	if s.pace > 0 {
		accepts = min(accepts, s.pace)
	}
	lands := s.landsAt
	yields := s.offered > 0 && !s.landingFirst
	if yields {
		lands = accepts / 10
	}
	accepted := accepts * stepTime.Seconds()
	s.journal = append(s.journal, accepted)
	left := lands * stepTime.Seconds()
	landed := 0.0
	for len(s.journal) > 0 && left > 0 {
		n := min(left, s.journal[0])
		s.journal[0], left, landed = s.journal[0]-n, left-n, landed+n
		if s.journal[0] > 0 {
			break
		}
		s.journal, s.first = s.journal[1:], s.first+1
	}
	s.step++
	s.unlanded += accepted - landed
	age := time.Duration(0)
	if len(s.journal) > 0 {
		age = time.Duration(s.step-s.first) * stepTime
	}
	s.observe(measurement{
		took: stepTime, own: int64(accepted), accepted: int64(accepted), landed: int64(landed), unlanded: int64(s.unlanded),
		oldest: age, full: s.unlanded / 500_000, yielded: yields,
	})
	return age
}

// Whatever the rates, no purchase waits for more than 45 s, the journal never fills, and what waits at the end has
// landed within a minute.
func TestBacklogIsBoundedInALongSale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sale{
			offered: float64(rapid.IntRange(2000, 25_000).Draw(t, "offered")),
			landsAt: float64(rapid.IntRange(1500, 9000).Draw(t, "lands")),
		}
		for s.step < 2*180 {
			if age := s.next(); age > 45*time.Second {
				t.Fatalf("the oldest purchase is %s old after %s", age, time.Duration(s.step)*stepTime)
			}
			if s.unlanded >= 500_000 {
				t.Fatalf("the journal is full after %s", time.Duration(s.step)*stepTime)
			}
		}
		s.offered = 0
		for range 2 * 60 {
			s.next()
		}
		if s.unlanded >= 1 {
			t.Fatalf("%.0f have not landed a minute after the sale", s.unlanded)
		}
	})
}
