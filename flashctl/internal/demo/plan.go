// Package demo plays a whole sale against a running system and checks every count: who got what, who was told what,
// what was paid, what was closed and when, and that what was closed is sold again.
package demo

import "time"

// Plan is the size of the sale.
type Plan struct {
	Pieces       int           // on sale
	Buyers       int           // who press the button in the first wave
	PayWithin    time.Duration // whole seconds
	LateAtMost   time.Duration // an order may be closed this long after its deadline, and never before it
	SettleWithin time.Duration // how long the stock view may take to agree with what buyers were told
	Width        int           // calls at a time
}

// Default is the plan of `make demo`.
func Default() Plan {
	return Plan{
		Pieces: 100, Buyers: 2000, PayWithin: 12 * time.Second, LateAtMost: 3 * time.Second,
		SettleWithin: 10 * time.Second, Width: 200,
	}
}

// Paying is how many of the winners pay.
func (p Plan) Paying() int { return p.Pieces / 2 }

// Expiring is how many let their order expire.
func (p Plan) Expiring() int { return p.Pieces - p.Paying() }
