package fairness

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const scale = 20

func result(t *testing.T, p Parameters, on Set) Result {
	t.Helper()
	r, err := Run(p.smaller(scale), on, 1, scale)
	require.NoError(t, err)
	return r
}

// docs/fairness.md and testdata/small.txt hold what the present model computes.
func TestPageIsFresh(t *testing.T) {
	written, err := os.ReadFile("testdata/small.txt")
	require.NoError(t, err)
	small, err := Small()
	require.NoError(t, err)
	require.Equal(t, small, string(written), "testdata/small.txt is stale: run go generate ./test/fairness")
	page, err := os.ReadFile("../../docs/fairness.md")
	require.NoError(t, err)
	want, err := Replace(string(page), PartParameters, ParameterTable(Defaults()))
	require.NoError(t, err)
	require.Equal(t, want, string(page), "the parameters are stale: run go generate ./test/fairness")
	for part, rows := range map[string][]Scenario{PartControls: ControlScenarios(), PartSensitivity: SensitivityScenarios()} {
		_, text, _ := strings.Cut(string(page), "<!-- "+part+" begin -->")
		text, _, _ = strings.Cut(text, "<!-- "+part+" end -->")
		require.Equal(t, len(rows)+2, strings.Count(text, "\n|"), part)
		for _, r := range rows {
			require.Contains(t, text, "| "+r.Name+" |")
		}
	}
}

func TestReplaceNeedsTheMarks(t *testing.T) {
	_, err := Replace("a page", PartParameters, "x")
	require.Error(t, err)
}

// The same seed gives the same sale, another seed another one.
func TestRunsRepeat(t *testing.T) {
	p := Defaults()
	first := result(t, p, All())
	require.Equal(t, first, result(t, p, All()))
	other, err := Run(p.smaller(scale), All(), 2, scale)
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}

// Every unit with a buyer is sold, and none twice, whatever is on.
func TestAllUnitsAreSold(t *testing.T) {
	for _, s := range append(ControlScenarios(), SensitivityScenarios()...) {
		p := Defaults()
		if s.Change != nil {
			s.Change(&p)
		}
		require.Equal(t, p.Units/scale, result(t, p, s.On).Sold, s.Name)
	}
}

// Without robots only humans buy. With as many accounts of robots as of humans, a waiting room alone, with one
// unit for each user and no challenge, is a lottery.
func TestTheRoomIsALottery(t *testing.T) {
	p := Defaults()
	p.Robots = 0
	require.Zero(t, result(t, p, All()).Robots)

	p = Defaults()
	p.EarlyShare, p.LastMinuteShare = 1, 0
	p.Unpaid = 0 // units that return are no part of the draw
	r := result(t, p, Set{Room, PerUser})
	require.InDelta(t, 1.0/3, r.Robots, 0.05)
}

// A robot that solves one image at a time gets at most one unit in that time, and the first ones after it.
func TestImagesBoundRobots(t *testing.T) {
	p := Defaults()
	p.Unpaid, p.Solvers = 0, 1
	bound := func(seconds time.Duration) float64 {
		p.ImageRobot = seconds
		return result(t, p, All()).Robots
	}
	slow, usual, quick := bound(40*time.Second), bound(10*time.Second), bound(time.Second)
	require.Less(t, slow, usual)
	require.Less(t, usual, quick)
	require.Greater(t, result(t, p, All().with(OpenProof)).Robots, usual, "proof of work for all defeats the image")
	p.ImageRobot, p.Solvers = 10*time.Second, p.AccountsPerRobot
	require.Greater(t, result(t, p, All()).Robots, usual, "many humans solve for a robot")
}

// The limits are those of production: what they refuse depends on who shares an address.
func TestSharedAddressesAreRefusedByTheRules(t *testing.T) {
	p := Defaults()
	p.Robots, p.HomeShare, p.OfficeShare, p.OfficeSize = 0, 0, 1, p.Humans // one address for all
	p.Units = p.Humans
	require.Positive(t, result(t, p, Set{Addresses, PerUser}).Mistaken)
	p.HomeShare, p.OfficeShare = 1, 0
	require.Zero(t, result(t, p, Set{Addresses, PerUser}).Mistaken)
}

// A buyer who cancels more often than the limit allows cannot buy for ten minutes, and a path from before a purchase is
// void.
func TestHolding(t *testing.T) {
	p := Defaults()
	held := func(on ...Control) time.Duration { return result(t, p, append(Set{PerUser}, on...)).Held }
	require.Positive(t, held())

	s := &sale{p: p, on: Set{KeptVoid, PerUser}}
	s.limits, _ = newLimits(func() time.Duration { return s.now }, 1)
	s.left = 2
	a := &account{user: "a", robot: &robot{kind: hoarding}, bought: true, reserved: time.Second, paths: []time.Duration{0}}
	s.now = 2 * time.Second
	require.False(t, s.purchaseKept(a), "issued before the latest reservation")
	s.on = Set{PerUser}
	a.paths = []time.Duration{0}
	require.True(t, s.purchaseKept(a))
	require.Equal(t, 1, a.held)

	s.on = Set{Reorder}
	for range p.ReorderLimit + 1 {
		a.held++
		s.release(a)
	}
	require.Equal(t, s.now+barredFor, a.barred)
}

// The pauses are those of the handlers: of a user, and of an address for users who were wrong themselves.
func TestPausesAfterWrongImages(t *testing.T) {
	p := pauses{}
	ann, bob := &account{address: "c1"}, &account{address: "c1"}
	require.Equal(t, 2*time.Second, p.wrong(ann, 0))
	require.Equal(t, 4*time.Second, p.wrong(ann, 2*time.Second))
	require.Zero(t, p.left(bob, 3*time.Second), "was not wrong")
	require.Equal(t, 2*time.Second, p.wrong(bob, 3*time.Second))
	require.Equal(t, 8*time.Second, p.left(bob, 3*time.Second), "the third of the address")
	p.right(ann)
	require.Zero(t, p.left(bob, 3*time.Second))
}

func TestEventsKeepTheirOrder(t *testing.T) {
	var q queue
	var seen []int
	for i, at := range []time.Duration{2, 1, 1, 5} {
		q.at(at, func() { seen = append(seen, i) })
	}
	q.run(4)
	require.Equal(t, []int{1, 2, 0}, seen)
}

func TestLateTicketsKeepTheirOrder(t *testing.T) {
	r := &room{every: time.Millisecond, early: -1}
	r.join()
	require.NoError(t, r.close())
	require.Equal(t, time.Millisecond, r.admission(1, -time.Second), "the only early one")
	second, third := r.admission(r.join(), -time.Second), r.admission(r.join(), -time.Second)
	require.Equal(t, 2*time.Millisecond, second)
	require.Equal(t, 3*time.Millisecond, third)
	require.Equal(t, time.Minute+time.Millisecond, r.admission(r.join(), time.Minute), "an empty queue admits at once")
}
