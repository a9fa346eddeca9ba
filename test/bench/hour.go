package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	hourUsers       = 1_000_000
	hourSlots       = 60
	hourConnections = 2048 // a path request waits up to a second for its permit
)

// hour measures a sale with a unit for each of a million users. Half of them arrive in the first five minutes, more than
// PATH_RATE=1000 serves, the others in the rest of the hour.
func (b *bench) hour(ctx context.Context) error {
	users, within := b.scaledCount(hourUsers, 100), b.scaled(time.Hour)
	s, err := b.newSale(ctx, int64(users), 24*time.Hour)
	if err != nil {
		return err
	}
	prefix := b.userPrefix()
	// A token is signed when it is needed: a million of them would take hundreds of megabytes.
	token := func(user int) string {
		token, err := b.client.Token(ctx, prefix+strconv.Itoa(user))
		if err != nil {
			return "not signed: " + err.Error() // the response will be 401
		}
		return token
	}
	m := b.procs.meter()
	visits := arrivals{
		Addr: b.seckill(), Conns: hourConnections, Users: users, For: within,
		Early: 0.5, EarlyFor: within / 12, Slot: within / hourSlots,
		Path: func(user int, buf []byte) []byte { return s.AppendPath(buf, token(user)) },
		Purchase: func(user int, path string, buf []byte) []byte {
			return s.AppendPurchase(buf, token(user), path)
		},
		Accepted: s.accept,
		Begin: func(slot int) {
			b.logf("minute %d of %d, %d accepted", slot+1, hourSlots, s.count())
			if slot == 1 {
				b.recordMemory("after the first minute", func(m memory) int64 { return m.now })
			}
		},
	}
	result, err := visits.Run(ctx)
	if err != nil {
		return err
	}
	behind, err := b.landed(ctx)
	if err != nil {
		return err
	}
	b.recordMemory("after the last minute", func(m memory) int64 { return m.now })
	b.record("users", "", none, float64(users))
	b.record("all had a purchase after", "s", none, result.Took.Seconds())
	b.record("all landed after", "s", none, behind.Seconds())
	b.recordCosts("whole purchase, with all calls", m.used(), result.Accepted)
	b.tables = append(b.tables, hourTable(result.Slots, visits.Slot))
	if result.Accepted != users {
		return fmt.Errorf("%d of %d users bought; %d met a sold-out sale, %d gave up: %s",
			result.Accepted, users, result.SoldOut, result.GivenUp, result.Example)
	}
	if b.Picture == "" {
		return nil
	}
	picture := drawHour(fmt.Sprintf("%d users in %s", users, within), result.Slots, visits.Slot)
	return os.WriteFile(b.Picture, []byte(picture), 0o644)
}

func hourTable(slots []arrivalsSlot, slot time.Duration) Table {
	t := Table{Head: []string{
		"Minute", "arrived/s", "paths/s", "refused/s", "503", "accepted/s", "path p99", "purchase p99", "waited p99",
	}}
	for i, s := range slots {
		perSec := func(n int) float64 { return ratio(float64(n), slot.Seconds()) }
		t.add(i+1, perSec(s.Arrived), perSec(s.Paths), perSec(s.Refused), s.Unavailable, perSec(s.Accepted),
			s.Path.P99, s.Purchase.P99, s.Waited.P99)
	}
	return t
}

// drawHour returns an SVG of arrivals, paths and accepted purchases a second, by minute.
func drawHour(title string, slots []arrivalsSlot, slot time.Duration) string {
	curves := []curve{
		{name: "arrived/s", color: "#999999"},
		{name: "paths/s", color: "#0b6e99"},
		{name: "accepted/s", color: "#c2410c"},
	}
	for _, s := range slots {
		for i, n := range []int{s.Arrived, s.Paths, s.Accepted} {
			curves[i].values = append(curves[i].values, ratio(float64(n), slot.Seconds()))
		}
	}
	return drawCurves(title, "minute", curves)
}
