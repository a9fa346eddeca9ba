package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/pkg/auth"
)

// Hour is the result of a sale of an hour whose users arrive unevenly.
type Hour struct {
	Users  int                 `json:"users"`
	For    time.Duration       `json:"for_ns"`
	Slot   time.Duration       `json:"slot_ns"` // a minute, unless the run is scaled
	Result load.ArrivalsResult `json:"result"`
	First  map[string]Memory   `json:"memory_first"` // at the end of the first slot
	Last   map[string]Memory   `json:"memory_last"`  // at the end of the last slot in which users arrive
	Behind time.Duration       `json:"last_landed_after_ns"`
	Whole  Usage               `json:"whole"`
}

const (
	hourUsers       = 1_000_000
	hourSlots       = 60
	hourConnections = 2048 // a path request waits up to a second for its permit
)

// hour measures a sale with a unit for each of a million users. Half of them arrive in the first five minutes, more than
// PATH_RATE=1000 serves, the others in the rest of the hour.
func (b *bench) hour(ctx context.Context) error {
	h := Hour{Users: b.scaledCount(hourUsers, 100), For: b.scaled(time.Hour)}
	h.Slot = h.For / hourSlots
	s, err := b.newSale(ctx, int64(h.Users), 24*time.Hour)
	if err != nil {
		return err
	}
	b.buyerGroups++
	prefix := "h" + strconv.FormatInt(b.began.UnixMilli(), 36) + "-" + strconv.Itoa(b.buyerGroups) + "-"
	// A token is signed when it is needed: a million of them would take hundreds of megabytes.
	by := func(user int) buyer {
		token, err := auth.Mint(b.cfg.Secret, auth.Identity{UserID: prefix + strconv.Itoa(user)}, 12*time.Hour)
		if err != nil {
			token = "not signed: " + err.Error() // the response will be 401
		}
		return buyer{token: token}
	}
	target := "/v1/activities/" + s.id + "/paths"
	arrivals := load.Arrivals{
		Addr: b.cfg.seckill(), Conns: hourConnections, Users: h.Users, For: h.For,
		Early: 0.5, EarlyFor: h.For / 12, Slot: h.Slot,
		Path: func(user int, buf []byte) []byte {
			return request(buf, "POST", target, b.cfg.seckill(), by(user).token, "{}")
		},
		Purchase: func(user int, path, buf []byte) []byte {
			buyer := by(user)
			buyer.path = member(path, "path")
			return s.purchase(buf, b.cfg.seckill(), &buyer)
		},
		Accepted: func(_ int, path []byte) { s.accept(member(path, "order_sn")) },
		Begin: func(slot int) {
			switch slot {
			case 1:
				h.First = b.procs.memory()
			case hourSlots:
				h.Last = b.procs.memory()
			}
			b.logf("minute %d of %d, %d accepted", slot+1, hourSlots, s.count())
		},
	}
	m := b.procs.meter()
	if h.Result, err = arrivals.Run(ctx); err != nil {
		return err
	}
	if h.Last == nil {
		h.Last = b.procs.memory()
	}
	if h.Behind, err = b.landed(ctx); err != nil {
		return err
	}
	h.Whole = m.used()
	b.report.Hour = &h
	b.logf("%d of %d users bought within %s, the last landed %s later", h.Result.Accepted, h.Users,
		h.Result.Took.Round(time.Second), h.Behind.Round(time.Millisecond))
	if h.Result.Accepted != h.Users {
		return fmt.Errorf("%d of %d users bought; %d met a sold-out sale, %d gave up: %s",
			h.Result.Accepted, h.Users, h.Result.SoldOut, h.Result.GivenUp, h.Result.Example)
	}
	return nil
}

// perSec returns n of a slot per second.
func (h *Hour) perSec(n int) float64 { return ratio(float64(n), h.Slot.Seconds()) }

// hour prints the sale of an hour, slot by slot, and the memory of each process.
func (r *Report) hour(p printer) {
	h := r.Hour
	if h == nil {
		return
	}
	p("%d users in %s, half of them in the first %s. All had a purchase after %s; the last landed %s later.",
		h.Users, h.For, h.For/12, ms(h.Result.Took), ms(h.Behind))
	p("")
	p("| Minute | arrived/s | paths/s | refused/s | 503 | accepted/s | path p99 | purchase p99 | waited p99 |")
	p("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for i, s := range h.Result.Slots {
		p("| %d | %.0f | %.0f | %.0f | %d | %.0f | %s | %s | %s |", i+1, h.perSec(s.Arrived), h.perSec(s.Paths),
			h.perSec(s.Refused), s.Unavailable, h.perSec(s.Accepted), ms(s.Path.P99), ms(s.Purchase.P99), ms(s.Waited.P99))
	}
	p("")
	p("| Memory, MiB | first minute | last minute |")
	p("|---|---:|---:|")
	for _, name := range append(append([]string{}, processNames...), generator) {
		p("| %s | %d | %d |", name, h.First[name].Now>>20, h.Last[name].Now>>20)
	}
	p("")
}
