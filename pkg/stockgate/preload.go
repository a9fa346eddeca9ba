package stockgate

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// Snapshot is what a gate is built from, as MySQL has it at one moment.
type Snapshot struct {
	Config
	Stock    map[string]int64 // pieces left, by SKU
	Totals   map[string]int64 // pieces in all, by SKU
	Entries  []Entry          // all that hold pieces, and those that ended in the last 24 h
	Adjusted []string         // ids of the adjustments that are decided: contained in the figures, or never to be
}

// preloadChunk is the number of hash fields that one script call of a build writes.
const preloadChunk = 512

// Preload builds a gate. It fails with ErrGateExists where there is one, and never changes that. What was left of an earlier life
// of the gate is removed, except its journal. Until the last step the gate is absent for everybody else; a build that dies
// leaves nothing that a later one would mix with, and of two builds at the same time one fails with ErrSuperseded. After
// ErrUnavailable the gate may be live or not: call again, and take ErrGateExists for success only if the first call may have
// been the one.
//
// The snapshot must add up: for each SKU, Stock + pieces of its entries that hold some = Total. Also lists the gate (see
// Refs). O(entries), in script calls of 512 hash fields.
func (g *Gate) Preload(ctx context.Context, ref contract.GateRef, s Snapshot) error {
	if err := validateRef(ref); err != nil {
		return err
	}
	b, err := plan(s)
	if err != nil {
		return err
	}
	if err := g.Register(ctx, ref); err != nil { // before it is visible: whatever it journals must find a relay
		return err
	}
	token := rand.Text()
	step := func(name string, args []string) error {
		all := append(make([]any, 0, 2+len(args)), name, token)
		for _, a := range args {
			all = append(all, a)
		}
		answer, err := g.run(ctx, scriptPreload, ref, all...)
		switch {
		case err != nil:
			return err
		case answer == "live":
			return ErrGateExists
		case answer == "superseded":
			return ErrSuperseded
		}
		return nil
	}
	if err := step("begin", nil); err != nil {
		return err
	}
	for _, part := range []struct {
		name   string
		fields []string
	}{{"held", b.held}, {"buyers", b.buyers}, {"adjusted", b.adjusted}} {
		for chunk := range slices.Chunk(part.fields, 2*preloadChunk) {
			if err := step(part.name, chunk); err != nil {
				return err
			}
		}
	}
	return step("commit", b.commit(s.Config))
}

// build is a snapshot as the scripts take it: hash fields and values in turn, and the counters of each SKU.
type build struct {
	held, buyers, adjusted []string
	skus                   []string
	counts                 map[string]*Counts   // InFlight counts unlanded pieces
	deadlines              map[string]time.Time // the latest known, by SKU
}

func plan(s Snapshot) (*build, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	b := &build{counts: make(map[string]*Counts, len(s.Stock)), deadlines: map[string]time.Time{}}
	for sku, left := range s.Stock {
		b.skus = append(b.skus, sku)
		b.counts[sku] = &Counts{Left: left, Total: s.Totals[sku]}
	}
	slices.SortFunc(b.skus, compareIDs)
	if len(s.Stock) != len(s.Totals) {
		return nil, fmt.Errorf("stockgate: stock of %d SKUs, totals of %d", len(s.Stock), len(s.Totals))
	}
	entries := slices.Clone(s.Entries)
	slices.SortFunc(entries, func(a, b Entry) int { return compareIDs(a.OrderSN, b.OrderSN) })
	users := map[string]*buyer{}
	for i, e := range entries {
		if i > 0 && entries[i-1].OrderSN == e.OrderSN {
			return nil, fmt.Errorf("stockgate: order_sn %s is in the snapshot twice", e.OrderSN)
		}
		e.Traceparent = storableTraceparent(e.Traceparent)
		stored, err := e.encode()
		if err != nil {
			return nil, err
		}
		b.held = append(b.held, e.OrderSN, stored)
		u := users[e.UserID]
		if u == nil {
			u = &buyer{}
			users[e.UserID] = u
		}
		if e.terminal() {
			u.ended = append(u.ended, e.OrderSN)
			continue
		}
		u.held = append(u.held, e.OrderSN)
		for _, l := range e.Lines {
			u.pieces += l.Qty
			c := b.counts[l.SKUID]
			if c == nil {
				return nil, fmt.Errorf("stockgate: order_sn %s holds SKU %s, which is not sold here", e.OrderSN, l.SKUID)
			}
			if e.Status == StatusPaid {
				c.Sold += l.Qty
				continue
			}
			c.Held += l.Qty
			if e.Status == StatusQueued && !e.Landed {
				c.InFlight += l.Qty
			}
			if e.ExpiresAt.After(b.deadlines[l.SKUID]) {
				b.deadlines[l.SKUID] = e.ExpiresAt
			}
		}
	}
	for _, sku := range b.skus {
		if c := b.counts[sku]; c.Left+c.Held+c.Sold != c.Total {
			return nil, fmt.Errorf("stockgate: SKU %s does not add up: left %d + held %d + sold %d is not total %d",
				sku, c.Left, c.Held, c.Sold, c.Total)
		}
	}
	for id, u := range users {
		b.buyers = append(b.buyers, id, u.encode())
	}
	for _, id := range s.Adjusted {
		b.adjusted = append(b.adjusted, id, adjustmentOver)
	}
	return b, nil
}

func (s Snapshot) validate() error {
	if err := s.Config.validate(); err != nil {
		return err
	}
	if len(s.Stock) == 0 {
		return fmt.Errorf("stockgate: a gate needs at least one SKU")
	}
	for sku, total := range s.Totals {
		if !contract.ValidID(sku) {
			return fmt.Errorf("stockgate: sku id %q is malformed", sku)
		}
		if _, ok := s.Stock[sku]; !ok || total < 0 || total >= maxExact {
			return fmt.Errorf("stockgate: SKU %s: total %d, or no stock", sku, total)
		}
	}
	for _, e := range s.Entries {
		if err := validatePurchase(e.OrderSN, e.UserID, e.Lines); err != nil {
			return err
		}
		if e.terminal() {
			if err := validateReason(e.OrderSN, e.Reason); err != nil {
				return err
			}
			if e.EndedAt.IsZero() {
				return fmt.Errorf("stockgate: order_sn %s ended without a time", e.OrderSN)
			}
		}
	}
	for _, id := range s.Adjusted {
		if err := validateAdjustmentID(id); err != nil {
			return err
		}
	}
	return nil
}

// adjustmentOver is what is stored of an adjustment that nothing changes any more. See lua/adjust.lua.
const adjustmentOver = "m"

// commit is what the last step needs: how many fields each hash must have by now, the configuration, and the counters.
func (b *build) commit(c Config) []string {
	args := []string{strconv.Itoa(len(b.held) / 2), strconv.Itoa(len(b.buyers) / 2), strconv.Itoa(len(b.adjusted) / 2)}
	for _, a := range c.args() {
		args = append(args, a.(string))
	}
	for _, sku := range b.skus {
		c := b.counts[sku]
		args = append(args, sku)
		for _, n := range []int64{c.Left, c.Held, c.Sold, c.Total, c.InFlight} {
			args = append(args, strconv.FormatInt(n, 10))
		}
		args = append(args, encodeTime(b.deadlines[sku]))
	}
	return args
}

// buyer is what the gate keeps of one buyer: "pieces|held order_sns|ended order_sns".
type buyer struct {
	pieces      int64
	held, ended []string
}

// maxEnded bounds the ended purchases that a buyer's record lists. lua/prelude.lua has the same number.
const maxEnded = 16

func (b *buyer) encode() string {
	ended := b.ended[max(0, len(b.ended)-maxEnded):]
	return strconv.FormatInt(b.pieces, 10) + "|" + strings.Join(b.held, ",") + "|" + strings.Join(ended, ",")
}
