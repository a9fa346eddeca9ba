// Package demo runs the sales of two merchants side by side against a running system and checks every count: accepted
// and refused purchases, paid and closed orders, the times of closing, that released units are sold again, the contacts
// of buyers, and that no merchant sees what belongs to the other.
package demo

import "time"

// Sale is the size of one merchant's sale.
type Sale struct {
	Merchant string // its id
	Units    int    // on sale, an even number
	Buyers   int    // of the first wave, at least twice as many as units
}

// Plan is a sale for each of two merchants, at the same time.
type Plan struct {
	Sales        [2]Sale
	PayWithin    time.Duration // whole seconds
	LateAtMost   time.Duration // bound of the delay of a closing after the deadline; none may be early
	SettleWithin time.Duration // bound of the time until the stock view agrees with the purchases
	Width        int           // concurrent calls for one sale
}

// Default is the plan of `make demo`. The second sale is small, so that the demo takes as long as the first.
func Default() Plan {
	return Plan{
		Sales: [2]Sale{
			{Merchant: "demo-1", Units: 100, Buyers: 2000},
			{Merchant: "demo-2", Units: 20, Buyers: 200},
		},
		PayWithin: 12 * time.Second, LateAtMost: 3 * time.Second,
		SettleWithin: 10 * time.Second, Width: 200,
	}
}

// Paying is the number of winners that pay.
func (s Sale) Paying() int { return s.Units / 2 }

// Expiring is the number of winners that let their order expire.
func (s Sale) Expiring() int { return s.Units - s.Paying() }
