package fairness

import (
	"strconv"
	"time"
)

// kind is how a robot behaves.
type kind int

// The kinds of robots; there are as many of each.
const (
	fast          kind = iota // calls at once with all accounts, and pays
	hoarding                  // collects paths first, and holds units without paying
	cancelling                // holds units without paying: cancels and buys again
	manyAddresses             // as fast, each account from an address of its own
	kinds
)

// robot is one operator.
type robot struct {
	kind    kind
	solving int        // challenges at this moment
	waiting []*account // whose challenges are to be solved
}

// account is a user of the system, of a person or of a robot.
type account struct {
	user, address string
	robot         *robot // nil for a person

	// Of a person.
	accessible bool // uses proof of work instead of an image
	pays       bool
	stays      bool          // at a sold-out sale
	arrives    time.Duration // at the page
	refusals   int
	wrong      int64 // answers in a row
	eligible   bool  // has called while units were left
	refused    bool  // by a rule by address or user, or by a challenge, while units were left
	left       bool

	ticket   int64         // of the waiting room; 0 for none
	admitted time.Duration // when the ticket is admitted
	passed   bool          // a challenge
	passEnds time.Duration
	paths    []time.Duration // of a hoarding robot: when its kept paths were issued
	full     bool            // enough paths are kept
	calling  bool            // a visit is scheduled or goes on
	held     int             // units
	paid     int
	lost     int // orders cancelled or expired
	barred   time.Duration
	reserved time.Duration // the latest reservation
	bought   bool
	cycles   int
}

func (a *account) units() int { return a.held + a.paid }

// population creates the accounts of humans and of robots.
func (s *sale) population() {
	p, r := s.p, s.random
	home := int(p.HomeShare * float64(p.Humans))
	office := home + int(p.OfficeShare*float64(p.Humans))
	for i := range p.Humans {
		a := &account{
			user: "p" + strconv.Itoa(i), accessible: r.Float64() < p.Accessible, pays: r.Float64() >= p.Unpaid,
			stays: r.Float64() < p.Stay,
		}
		switch {
		case i < home:
			a.address = "h" + strconv.Itoa(i)
		case i < office:
			a.address = "o" + strconv.Itoa((i-home)/p.OfficeSize)
		default:
			a.address = "c" + strconv.Itoa((i-office)/p.CarrierSize)
		}
		switch when := r.Float64(); {
		case when < p.EarlyShare:
			a.arrives = -roomOpens + s.uniform(roomOpens-roomCloses)
		case when < p.EarlyShare+p.LastMinuteShare:
			a.arrives = -s.uniform(roomCloses)
		default:
			a.arrives = s.uniform(p.LateFor)
		}
		s.humans = append(s.humans, a)
	}
	for i := range p.Robots {
		bot := &robot{kind: kind(i % int(kinds))}
		s.robots = append(s.robots, bot)
		for j := range p.AccountsPerRobot {
			of := j % p.AddressesPerRobot
			if bot.kind == manyAddresses {
				of = j
			}
			s.bots = append(s.bots, &account{
				user: "r" + strconv.Itoa(i) + "-" + strconv.Itoa(j), robot: bot, arrives: -roomOpens,
				address: "r" + strconv.Itoa(i) + "-" + strconv.Itoa(of),
			})
		}
	}
}
