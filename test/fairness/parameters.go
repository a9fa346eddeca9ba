package fairness

import "time"

// Parameters are all assumptions of the model. A source of "assumption" means that no published figure was found; the
// comment then gives the reason for the value.
type Parameters struct {
	// Humans is the number of humans who want one unit each. Source: issue 21.
	Humans int
	// Robots is the number of operators of scripts, AccountsPerRobot the number of accounts of each. Source: issue 21.
	// A lottery over accounts would give robots a third of the units.
	Robots, AccountsPerRobot int
	// Units is the stock. Source: assumption; the 10,000 units of `make proof LANE=kills`, one for ten humans.
	Units int

	// EarlyShare of the humans join the waiting room before early joining closes, LastMinuteShare in the minute before
	// the start, and the others in the LateFor after it. Source: the room test of issue 21 (40,000 of 50,000 tickets are
	// early); the rest is split evenly, by assumption.
	EarlyShare, LastMinuteShare float64
	// LateFor is the time after the start in which late humans arrive. Source: assumption; most sales of this size end
	// within it.
	LateFor time.Duration
	// Reaction is the mean time from the start to the click of a person who waits at the page without a waiting room; it
	// is distributed exponentially above ReactionLeast. Source: assumption; a simple visual reaction takes a quarter of a
	// second, and clocks and networks add to it.
	Reaction, ReactionLeast time.Duration
	// Patience is the number of refusals for load or by a rate after which a person leaves. Source: assumption; the page
	// repeats by itself, so leaving takes a decision.
	Patience int
	// Stay is the share of humans who keep the page of a sold-out sale open and buy a unit that returns, StayReaction the
	// mean time until they do. Source: assumption; the page shows that units may return.
	Stay         float64
	StayReaction time.Duration
	// Unpaid is the share of humans who do not pay. Source: assumption; demos of the project let half expire, shops
	// report far less for scarce goods.
	Unpaid float64

	// HomeShare of the humans have an address of their own, OfficeShare share one with OfficeSize others, and the rest
	// are behind a carrier's NAT with CarrierSize buyers of this sale. Source: more than 100 devices share an address of a
	// carrier (Cloudflare, "One IP address, many users", 2025); that half of them take part is an assumption, as are the
	// shares.
	HomeShare, OfficeShare  float64
	OfficeSize, CarrierSize int

	// ImageMedian and ImageSpread are median and sigma (of the logarithm) of a person's time for an image, ImageRight the
	// share of right answers. Source: Searles et al., "An Empirical Study & Evaluation of Modern CAPTCHAs", USENIX
	// Security 2023 (arXiv 2307.12108): 3.7 s for a click, 9 to 15 s for distorted text, right in 71 to 85 %. The median
	// equals the time of a robot, because robots that buy solutions have them from humans.
	ImageMedian time.Duration
	ImageSpread float64
	ImageRight  float64
	// Accessible is the share of humans who use proof of work instead of the image. Source: assumption; about as many
	// need a screen reader or a keyboard.
	Accessible float64
	// ProofPerson and ProofRobot are the times for one proof of work. Source: connectors-backends.md §6: a million hashes
	// take 0.2 s in Go; a phone is assumed to need ten times as long.
	ProofPerson, ProofRobot time.Duration
	// ImageRobot is the time of a robot for one image, Solvers how many it solves at the same time. Source: issue 21 for
	// the time, which is that of the humans from whom robots buy solutions; TestARobotThatSolvesInParallel of
	// services/seckill for the number: nothing bounds it, so a robot solves for all of its accounts at once. A blind robot
	// gets nothing (TestARobotWithoutSight), so none is modelled.
	ImageRobot time.Duration
	Solvers    int

	// RobotDelay is the time from an event to a robot's call, RobotPause the pause between its calls. Source:
	// assumption; a script near the servers.
	RobotDelay, RobotPause time.Duration
	// AddressesPerRobot is the number of addresses of a robot of the first three kinds; one with many addresses has one
	// for each account. Source: assumption; cloud addresses cost little, those of homes more.
	AddressesPerRobot int
	// KeptPaths is the number of paths that a hoarding account collects before its first purchase. Source: assumption; a
	// path is valid for 5 min.
	KeptPaths int
	// HoldFor is the time after which a robot that holds units without paying cancels and buys again, before the pay
	// window ends, Holds the number of times it does so. In the end it pays. Source: assumption; a path that was kept is
	// still valid then.
	HoldFor time.Duration
	Holds   int

	// Latency is the time of a call from a person to the system and back. Source: assumption; a mobile network.
	Latency time.Duration
	// AdmitPerSecond is the rate of the waiting room. Source: architecture.md §12 and docs/room.md (1,000).
	AdmitPerSecond int
	// PayWithin, ReorderLimit and PerUserLimit are the defaults of an activity. Source: api.md §4, architecture.md §12.
	PayWithin                  time.Duration
	ReorderLimit, PerUserLimit int
	// Horizon is the time from the start to the end of the sale. Source: assumption.
	Horizon time.Duration
}

// Defaults returns the parameters of the published tables.
func Defaults() Parameters {
	return Parameters{
		Humans: 100_000, Robots: 1_000, AccountsPerRobot: 50, Units: 10_000,
		EarlyShare: 0.8, LastMinuteShare: 0.1, LateFor: time.Minute,
		Reaction: time.Second, ReactionLeast: 250 * time.Millisecond,
		Patience: 20, Stay: 0.1, StayReaction: 5 * time.Second, Unpaid: 0.1,
		HomeShare: 0.5, OfficeShare: 0.1, OfficeSize: 200, CarrierSize: 50,
		ImageMedian: 10 * time.Second, ImageSpread: 0.4, ImageRight: 0.85, Accessible: 0.02,
		ProofPerson: 2 * time.Second, ProofRobot: 200 * time.Millisecond, ImageRobot: 10 * time.Second, Solvers: 50,
		RobotDelay: 10 * time.Millisecond, RobotPause: 250 * time.Millisecond,
		AddressesPerRobot: 5, KeptPaths: 3, HoldFor: 2 * time.Minute, Holds: 4,
		Latency: 100 * time.Millisecond, AdmitPerSecond: 1_000,
		PayWithin: 15 * time.Minute, ReorderLimit: 2, PerUserLimit: 1, Horizon: time.Hour,
	}
}

// Times and rules that the services fix. Source: docs/room.md, services/seckill/internal/core, pkg/stockgate/lua.
const (
	roomOpens      = 10 * time.Minute // before the start
	roomCloses     = time.Minute      // before the start
	solvingOpens   = 5 * time.Minute  // before the start; with a waiting room at admission
	admissionLasts = time.Minute
	pathLasts      = 5 * time.Minute
	passLasts      = 10 * time.Minute
	barredFor      = 10 * time.Minute
)
