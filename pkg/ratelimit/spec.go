package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Algorithm is the way in which a limiter counts.
type Algorithm uint8

// The algorithms. TokenBucket, GCRA and LeakyBucket are three descriptions of the same algorithm: the first counts the
// permits left, the last the permits spent, GCRA the time until the bucket is full again. They share one
// implementation with one number per key, the theoretical arrival time of ATM Forum TM 4.0, appendix I: the time at
// which everything granted so far will have been earned.
const (
	// TokenBucket refills continuously at Rate and holds Burst. It has reservations and bounded waits as Guava's
	// RateLimiter. A request for many permits waits for them itself; in Guava the next request waits instead.
	TokenBucket Algorithm = iota + 1
	// GCRA is the generic cell rate algorithm.
	GCRA
	// LeakyBucket is the leaky bucket as a meter: it leaks at Rate and overflows above Burst.
	LeakyBucket
	// LeakyQueue is the leaky bucket as a queue: one permit every Period/Rate, evenly, with at most Burst in the
	// queue.
	LeakyQueue
	// FixedWindow counts in windows aligned to Unix time 0. Twice the rate may pass around the boundary of two
	// windows.
	FixedWindow
	// SlidingWindow counts in Buckets per Period, as the LeapArray of Alibaba Sentinel does. Unlike there, the oldest
	// bucket counts in full until it has left the window: at most Rate in any Period, but up to 1/Buckets too few.
	SlidingWindow
	// SlidingLog stores the time of each permit: exact, at 8 bytes (Redis: about 11) per permit of Rate and key.
	SlidingLog
	// WarmUp is Guava's SmoothWarmingUp: after idle time it starts at Rate/ColdFactor and reaches Rate within WarmUp.
	WarmUp
)

var algorithmNames = [...]string{
	TokenBucket: "token_bucket", GCRA: "gcra", LeakyBucket: "leaky_bucket", LeakyQueue: "leaky_queue",
	FixedWindow: "fixed_window", SlidingWindow: "sliding_window", SlidingLog: "sliding_log", WarmUp: "warm_up",
}

// Algorithms returns all algorithms.
func Algorithms() []Algorithm {
	return []Algorithm{TokenBucket, GCRA, LeakyBucket, LeakyQueue, FixedWindow, SlidingWindow, SlidingLog, WarmUp}
}

// String returns the name used in rules, for example "token_bucket".
func (a Algorithm) String() string {
	if a == 0 || int(a) >= len(algorithmNames) {
		return fmt.Sprintf("algorithm(%d)", uint8(a))
	}
	return algorithmNames[a]
}

// ParseAlgorithm returns the algorithm with a name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n != "" && n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("algorithm %q is not one of %s", name, strings.Join(algorithmNames[1:], ", "))
}

// Reserves reports whether permits can be reserved for a later time, that is, whether MaxWait has an effect.
func (a Algorithm) Reserves() bool { return a <= LeakyQueue || a == WarmUp }

// Leases reports whether a process may fetch several permits at a time and grant them by itself.
func (a Algorithm) Leases() bool { return a <= LeakyBucket || a == FixedWindow }

// Inheritance is how spent permits are carried over when a limit changes at run time.
type Inheritance uint8

const (
	// AsIs keeps the number of permits spent: 80 of 100 spent are 80 of 200 spent.
	AsIs Inheritance = iota
	// InProportion keeps the fraction of permits spent: 80 of 100 spent are 160 of 200 spent. SlidingLog and
	// WarmUp ignore it.
	InProportion
)

// Spec is an algorithm and its parameters. The zero value of a field means its default.
type Spec struct {
	Algorithm Algorithm
	Limit
	Buckets    int           // SlidingWindow: buckets per Period, 1 to 60, default 10
	WarmUp     time.Duration // WarmUp: time from cold to the full rate, default 10 s
	ColdFactor float64       // WarmUp: ratio of the full rate to the cold rate, 1 to 100, default 3
	// MaxWait bounds how far ahead permits can be reserved, whatever a request accepts. Default: 1 minute; LeakyQueue:
	// the duration of its queue. It also bounds how long a key can be locked out when a clock is set back,
	// unless processes have granted more than that without Redis.
	MaxWait time.Duration
	Inherit Inheritance
}

const (
	maxLog         = 100_000
	maxBuckets     = 60
	defaultMaxWait = time.Minute
)

// withDefaults fills in the defaults and rejects impossible values.
func (s Spec) withDefaults() (Spec, error) {
	if int(s.Algorithm) >= len(algorithmNames) || s.Algorithm == 0 {
		return s, fmt.Errorf("ratelimit: unknown %s", s.Algorithm)
	}
	if err := s.complete(); err != nil {
		return s, fmt.Errorf("ratelimit: %s: %w", s.Algorithm, err)
	}
	return s, nil
}

func (s *Spec) complete() error {
	if err := s.validate(); err != nil {
		return err
	}
	if s.Inherit > InProportion {
		return fmt.Errorf("unknown inheritance %d", s.Inherit)
	}
	if s.MaxWait < 0 || s.MaxWait > maxPeriod {
		return fmt.Errorf("a wait of %s is not between 0 and %s", s.MaxWait, maxPeriod)
	}
	switch s.Algorithm {
	case FixedWindow, SlidingWindow, SlidingLog:
		if s.Burst != 0 && s.Burst != s.Rate {
			return errors.New("windows have no burst other than their rate")
		}
		s.Burst = s.Rate
	case WarmUp:
		s.Burst = max(s.Burst, 1)
	default:
		if s.Burst == 0 {
			s.Burst = s.Rate
		}
	}
	if s.Algorithm == SlidingLog && s.Rate > maxLog {
		return fmt.Errorf("rate %d: a sliding log has at most %d", s.Rate, maxLog)
	}
	if s.Algorithm == SlidingWindow {
		if s.Buckets == 0 {
			s.Buckets = 10
		}
		if s.Buckets < 1 || s.Buckets > maxBuckets {
			return fmt.Errorf("%d buckets are not between 1 and %d", s.Buckets, maxBuckets)
		}
	} else if s.Buckets != 0 {
		return errors.New("only sliding windows have buckets")
	}
	if s.Algorithm == WarmUp {
		if s.WarmUp == 0 {
			s.WarmUp = 10 * time.Second
		}
		if s.ColdFactor == 0 {
			s.ColdFactor = 3
		}
		if s.WarmUp < minPeriod || s.WarmUp > 24*time.Hour {
			return fmt.Errorf("warm-up %s is not between %s and a day", s.WarmUp, minPeriod)
		}
		if !(s.ColdFactor >= 1 && s.ColdFactor <= 100) { // also rejects NaN
			return fmt.Errorf("cold factor %v is not between 1 and 100", s.ColdFactor)
		}
	} else if s.WarmUp != 0 || s.ColdFactor != 0 {
		return errors.New("only warm_up has a warm-up and a cold factor")
	}
	return s.fits()
}

// fits rejects limits whose sums could overflow int64, and sets the default of MaxWait.
func (s *Spec) fits() error {
	perPermit := ceilDiv(int64(s.Period), s.Rate)
	if perPermit > int64(maxHorizon)/s.Burst {
		return fmt.Errorf("a burst of %d takes more than %s to earn", s.Burst, maxHorizon)
	}
	if s.Algorithm == FixedWindow && s.Rate >= math.MaxInt64/(endOfTime/int64(s.Period)+1) {
		return fmt.Errorf("rate %d is too high for windows of %s", s.Rate, s.Period)
	}
	switch {
	case !s.Algorithm.Reserves():
		s.MaxWait = 0
	case s.Algorithm == LeakyQueue:
		if queue := time.Duration(perPermit * s.Burst); s.MaxWait == 0 || s.MaxWait > queue {
			s.MaxWait = queue
		}
	case s.MaxWait == 0:
		s.MaxWait = defaultMaxWait
	}
	return nil
}

const endOfTime = 4_102_444_800 * int64(time.Second) // the year 2100

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// Validate returns what is wrong with a Spec, if anything is.
func (s Spec) Validate() error {
	_, err := s.withDefaults()
	return err
}

// MaxCost returns the largest cost that one request can have, in permits; 0 for an invalid Spec.
func (s Spec) MaxCost() int64 {
	s, err := s.withDefaults()
	if err != nil {
		return 0
	}
	return s.Burst
}
