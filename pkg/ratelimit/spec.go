package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Algorithm is how a limiter counts.
type Algorithm uint8

// The algorithms. TokenBucket, GCRA and LeakyBucket are three descriptions of one thing (the first counts what is left, the
// last what is in, the middle one when the bucket is empty again) and share their implementation, one number per key: the
// theoretical arrival time of ATM Forum TM 4.0, appendix I, which is when everything granted so far will have been earned.
const (
	// TokenBucket refills continuously at Rate and holds Burst. Reservations and bounded waits as in Guava's RateLimiter,
	// but who asks for much waits for it himself; Guava lets him pass and makes the next one wait.
	TokenBucket Algorithm = iota + 1
	// GCRA is the generic cell rate algorithm.
	GCRA
	// LeakyBucket is the leaky bucket as a meter: it leaks at Rate and overflows above Burst.
	LeakyBucket
	// LeakyQueue is the leaky bucket as a queue: one permit every Period/Rate, evenly, for at most Burst waiting ones.
	LeakyQueue
	// FixedWindow counts in windows aligned to the Unix epoch. Twice the rate may pass around the border of two windows.
	FixedWindow
	// SlidingWindow counts in Buckets per Period, as the LeapArray of Alibaba Sentinel does, but the oldest bucket counts in
	// full until it has left entirely: never more than Rate in any Period, at the price of up to 1/Buckets too few.
	SlidingWindow
	// SlidingLog remembers when each permit was taken: exact, at 8 bytes (Redis: about 11) per permit of Rate and key.
	SlidingLog
	// WarmUp is Guava's SmoothWarmingUp: after idle time it begins at Rate/ColdFactor and gets to Rate within WarmUp.
	WarmUp
)

var algorithmNames = [...]string{
	TokenBucket: "token_bucket", GCRA: "gcra", LeakyBucket: "leaky_bucket", LeakyQueue: "leaky_queue",
	FixedWindow: "fixed_window", SlidingWindow: "sliding_window", SlidingLog: "sliding_log", WarmUp: "warm_up",
}

// Algorithms are all of them.
func Algorithms() []Algorithm {
	return []Algorithm{TokenBucket, GCRA, LeakyBucket, LeakyQueue, FixedWindow, SlidingWindow, SlidingLog, WarmUp}
}

// String is the name by which rules call it, for example "token_bucket".
func (a Algorithm) String() string {
	if a == 0 || int(a) >= len(algorithmNames) {
		return fmt.Sprintf("algorithm(%d)", uint8(a))
	}
	return algorithmNames[a]
}

// ParseAlgorithm is the algorithm of a name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, n := range algorithmNames {
		if n != "" && n == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("algorithm %q is not one of %s", name, strings.Join(algorithmNames[1:], ", "))
}

// Reserves says whether permits can be had for a later moment, that is, whether MaxWait means anything.
func (a Algorithm) Reserves() bool { return a <= LeakyQueue || a == WarmUp }

// Leases says whether a pod may take several permits at a time and hand them out by itself.
func (a Algorithm) Leases() bool { return a <= LeakyBucket || a == FixedWindow }

// Inheritance is what becomes of what is spent when a limit changes while it runs.
type Inheritance uint8

const (
	// AsIs keeps the number of permits spent: 80 of 100 spent are 80 of 200 spent.
	AsIs Inheritance = iota
	// InProportion keeps the part that is spent: 80 of 100 spent are 160 of 200 spent. (SlidingLog: as AsIs.)
	InProportion
)

// Spec is an algorithm with its numbers. The zero value of a field means its default.
type Spec struct {
	Algorithm Algorithm
	Limit
	Buckets    int           // SlidingWindow: per Period, 1 to 60, default 10
	WarmUp     time.Duration // WarmUp: from cold to full rate, default 10 s
	ColdFactor float64       // WarmUp: how many times slower it begins, 1 to 100, default 3
	// MaxWait bounds how far ahead permits can be reserved, whatever a request offers: default 1 minute, LeakyQueue: the
	// time its queue takes. It is also the longest that a key can be locked out when a clock is set back.
	MaxWait time.Duration
	Inherit Inheritance
}

const (
	maxLog         = 100_000
	maxBuckets     = 60
	defaultMaxWait = time.Minute
)

// withDefaults fills what is left open in and refuses what cannot work.
func (s Spec) withDefaults() (Spec, error) {
	if int(s.Algorithm) >= len(algorithmNames) || s.Algorithm == 0 {
		return s, fmt.Errorf("ratelimit: there is no %s", s.Algorithm)
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
		return fmt.Errorf("there is no inheritance %d", s.Inherit)
	}
	if s.MaxWait < 0 || s.MaxWait > maxPeriod {
		return fmt.Errorf("a wait of %s is not within 0 and %s", s.MaxWait, maxPeriod)
	}
	switch s.Algorithm {
	case FixedWindow, SlidingWindow, SlidingLog:
		if s.Burst != 0 && s.Burst != s.Rate {
			return errors.New("windows have no burst beside their rate")
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
		return fmt.Errorf("rate %d: a log is for at most %d", s.Rate, maxLog)
	}
	if s.Algorithm == SlidingWindow {
		if s.Buckets == 0 {
			s.Buckets = 10
		}
		if s.Buckets < 1 || s.Buckets > maxBuckets {
			return fmt.Errorf("%d buckets are not within 1 and %d", s.Buckets, maxBuckets)
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
			return fmt.Errorf("warm-up %s is not within %s and a day", s.WarmUp, minPeriod)
		}
		if !(s.ColdFactor >= 1 && s.ColdFactor <= 100) { // also refuses NaN
			return fmt.Errorf("cold factor %v is not within 1 and 100", s.ColdFactor)
		}
	} else if s.WarmUp != 0 || s.ColdFactor != 0 {
		return errors.New("only warm_up warms up")
	}
	return s.fits()
}

// fits is whether all sums of the limit stay far within int64, and sets how long one may wait.
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

// Validate says what is wrong with a Spec, if anything is.
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
