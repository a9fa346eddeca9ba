package sim

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// drawRare draws the faults of which most sales have none. Each has a random source of its own.
func (s *sale) drawRare(seed uint64) {
	one := func(use string, of int) (*rand.Rand, bool) {
		r := rng(seed, use)
		return r, r.IntN(of) == 0
	}
	if r, is := one("second activity", 4); is {
		s.addActivity(r)
	}
	if r, is := one("full", 7); is {
		s.fillRedis(r, 2*time.Second+time.Duration(r.Int64N(int64(s.window))))
	}
	if _, is := one("acquires", 4); is && s.failover > 0 {
		s.acquires = true
	}
	if _, is := one("latecomers", 12); is {
		s.latecomers = true
	}
	if r, is := one("freezes", 8); is {
		s.addFreeze(services[r.IntN(len(services))], r)
	}
	if r, is := one("clocks", 6); is {
		for _, service := range services {
			s.setClocks(service, r)
		}
	}
	if r, is := one("setback", 10); is {
		s.drawSetback([]string{"inventory", "order", "both"}[r.IntN(3)], r)
	}
	if r, is := one("brokerless", 8); is {
		s.loseBroker(r)
		if r, is := one("broker's death", 3); is {
			s.killsBroker(r)
		}
	}
	if r, is := one("redisless", 6); is {
		s.loseRedis(r)
	}
	if r, is := one("broker's clock", 12); is {
		s.brokerAhead = time.Duration(r.Int64N(int64(10*time.Minute))) - 5*time.Minute
	}
}

func (s *sale) addActivity(r *rand.Rand) {
	s.other = nil
	for range 1 + r.IntN(2) {
		s.other = append(s.other, int64(1+r.IntN(8)))
	}
}

// stocks returns the stock of each activity.
func (s *sale) stocks() [][]int64 {
	if s.other == nil {
		return [][]int64{s.stock}
	}
	return [][]int64{s.stock, s.other}
}

func (s *sale) fillRedis(r *rand.Rand, at time.Duration) {
	s.full, s.fullFor = at, time.Duration(10+r.IntN(60))*100*time.Millisecond
	s.tight = time.Duration(r.IntN(2)*r.IntN(80)) * 100 * time.Millisecond
}

// addFreeze stops one of two processes, so that the other takes over what it leased.
func (s *sale) addFreeze(service string, r *rand.Rand) {
	s.instances = 2
	s.freezes = append(s.freezes, freeze{
		service, r.IntN(2), time.Second + time.Duration(r.Int64N(int64(s.window))),
		time.Duration(60+r.IntN(200)) * 100 * time.Millisecond,
	})
}

// setClocks sets the clocks of the processes of a service, some by less than the offset from which a process decides
// nothing by time.
func (s *sale) setClocks(service string, r *rand.Rand) {
	if s.clocks == nil {
		s.clocks = map[string]time.Duration{}
	}
	for slot := range 2 {
		most := []time.Duration{1900 * time.Millisecond, 5 * time.Minute}[r.IntN(2)]
		s.clocks[fmt.Sprintf("%s/%d", service, slot)] = time.Duration(r.Int64N(int64(2*most))) - most
	}
}

// importing matches the points that only an import after a restore reaches.
var importing = regexp.MustCompile(`db .*imports$|orders:(lookup|since)|script (adjustments|mark_epoch|renew_epoch)`)

// suitRare changes the sale so that the fault happens, and reports whether it is one of those of drawRare.
func (s *sale) suitRare(point string, soon time.Duration) bool {
	r := rng(uint64(soon), point)
	service, stops := strings.CutPrefix(point, "stopped: ")
	of, clock := strings.CutPrefix(point, "clock of ")
	restored, restores := strings.CutPrefix(point, "database: a restore of ")
	switch {
	case point == "redis: full":
		s.fillRedis(r, soon)
	case point == "redis: failover loses an acquisition":
		s.failover, s.behind, s.acquires, s.alone = 2*time.Second, 1500*time.Millisecond, true, false
	case point == "redis: failover while 202 waits for a replica":
		s.failover, s.behind, s.waits, s.alone, s.acquires = soon, 1500*time.Millisecond, true, false, false
		s.buyers += 6
	case strings.HasSuffix(point, " after 25 h"):
		s.latecomers, s.garbles, s.forges = true, false, 0
	case point == "broker: unavailable", point == "http: a process is cut off from a service",
		strings.Contains(point, contract.MessagesPath):
		s.loseBroker(r)
	case point == "broker: dies with what it confirmed":
		s.loseBroker(r)
		s.killsBroker(r)
	case strings.HasPrefix(point, "redis: unavailable"), strings.HasPrefix(point, "seckill: http") && !strings.Contains(point, contract.MessagesPath),
		strings.HasSuffix(point, "redisless_sales"), strings.HasSuffix(point, "leases"), point == "inventory: redis hmget":
		s.loseRedis(r)
	case point == "broker: clock ahead":
		s.brokerAhead = time.Second + time.Duration(r.Int64N(int64(5*time.Minute)))
	case point == "broker: clock behind":
		s.brokerAhead = -time.Second - time.Duration(r.Int64N(int64(5*time.Minute)))
	case point == "forger: order_sn of the other activity":
		s.addActivity(r)
		s.garbles, s.forges, s.twin = false, soon, true
	case stops:
		s.addFreeze(service, r)
	case clock:
		s.setClocks(of, r)
	case point == "order: db insert payment_differences": // of a charge whose order is not created again yet
		s.compares = true
		s.drawSetback([]string{"order", "both"}[r.IntN(2)], r)
	case strings.HasSuffix(point, " payment_comparisons"), strings.HasSuffix(point, " payment_differences"),
		point == successLost:
		s.compares = true
	case restores:
		s.drawSetback(restored, r)
	case strings.HasSuffix(point, "import_findings"): // of an adjustment that only the gate has
		s.adjusts = true
		s.drawSetback([]string{"inventory", "both"}[r.IntN(2)], r)
	case point == "order: db commit payment_events": // of a payment that the database has lost
		s.drawSetback([]string{"order", "both"}[r.IntN(2)], r)
		s.setback.callbacks = true
	case importing.MatchString(point):
		s.drawSetback([]string{"inventory", "order", "both"}[r.IntN(3)], r)
	case point == "order: db select refund_decisions", strings.HasPrefix(point, "operator: http POST /internal/v1/refunds"):
		s.behaviour = payCancelled
	case point == "order: db tx: update activities", strings.HasPrefix(point, "merchant: http PATCH"):
		s.edits = true
	case point == "inventory: redis script trim":
		s.opensLate = true
	case strings.HasSuffix(point, "/room"), strings.HasPrefix(point, "seckill: redis script room_"),
		point == "seckill: redis script of lock or lease":
		s.addRoom(r)
	case point == "seckill: redis getrange": // of the tickets of a draw
		s.addRoom(r)
		s.room.early = true
	case strings.Contains(point, "/captchas"):
		s.challenge = true
	case strings.Contains(point, "/review"):
		s.reviews = true
	case point == "seckill: redis script confirm":
		s.waits = true
	default:
		return false
	}
	return true
}
