package room

import (
	"sync"
	"time"
)

const (
	// slowWait is the mean wait for the gate from which the machine counts as overloaded.
	slowWait = 50 * time.Millisecond
	// Every tick with an overload takes a fifth of the pace, down to the least; every other one adds a fiftieth of the
	// whole. So a sale that was too fast is back at its rate some ten seconds after the overload.
	slower    = 0.8
	faster    = 0.02
	leastPace = 0.1
)

// pace is the part of the configured rate at which places are admitted. It falls while buyers wait for the gate or
// requests are shed. Its zero value is the whole rate. Its methods may be called concurrently.
type pace struct {
	mu       sync.Mutex
	lost     float64 // 1 - share
	overload bool    // since the last adjustment
}

func (p *pace) waited(mean time.Duration) {
	if mean < slowWait {
		return
	}
	p.shed()
}

func (p *pace) shed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.overload = true
}

// adjust changes the pace by what was reported since the last call.
func (p *pace) adjust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	share := 1 - p.lost
	if p.overload {
		share = max(leastPace, share*slower)
	} else {
		share = min(1, share+faster)
	}
	p.lost, p.overload = 1-share, false
}

func (p *pace) share() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 1 - p.lost
}
