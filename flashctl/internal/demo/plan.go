// Package demo runs a whole sale against a running system and checks every count: accepted and refused purchases, paid
// and closed orders, the times of closing, and that released units are sold again.
package demo

import "time"

// Plan is the size of the sale.
type Plan struct {
	Units        int           // on sale
	Buyers       int           // of the first wave
	PayWithin    time.Duration // whole seconds
	LateAtMost   time.Duration // bound of the delay of a closing after the deadline; none may be early
	SettleWithin time.Duration // bound of the time until the stock view agrees with the purchases
	Width        int           // concurrent calls
}

// Default is the plan of `make demo`.
func Default() Plan {
	return Plan{
		Units: 100, Buyers: 2000, PayWithin: 12 * time.Second, LateAtMost: 3 * time.Second,
		SettleWithin: 10 * time.Second, Width: 200,
	}
}

// Paying is the number of winners that pay.
func (p Plan) Paying() int { return p.Units / 2 }

// Expiring is the number of winners that let their order expire.
func (p Plan) Expiring() int { return p.Units - p.Paying() }
