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

// Snapshot is the content of a gate that Preload builds, as MySQL has it at one moment.
type Snapshot struct {
	Config
	Stock    map[string]int64 // units left, by SKU
	Totals   map[string]int64 // units in all, by SKU
	Entries  []Entry          // all that hold units, and those that ended in the last 24 h
	Adjusted []string         // ids of decided adjustments: contained in the figures, or never to be applied
	// EndedBefore is the number of purchases that ended before those in Entries. They are only counted: see Totals.
	EndedBefore int64
	Epoch       string // of inventory's database, see epoch.go; "" only in tests
	Importing   bool   // Reserve accepts nothing until RenewEpoch
}

// preloadChunk is the number of hash fields that one script call of a build writes at most.
const preloadChunk = 512

// Preload builds a gate from a snapshot and registers it. It fails with ErrGateExists if the gate exists, and never
// changes an existing gate. It removes leftovers of an earlier build of the gate, except its journal, sale and counts.
// The total of accepted purchases becomes the number of Entries and EndedBefore. Until the last step the gate is
// absent for all other calls. A build that is abandoned leaves nothing that a later one would mix with; of two
// concurrent builds one fails with ErrSuperseded. After ErrUnavailable the gate may exist or not: the caller repeats
// the call, and may take ErrGateExists for success only if its own first call can have built the gate.
//
// The snapshot must add up: for each SKU, Stock + units held by its entries = Total. O(entries), in script calls of
// 512 hash fields.
func (g *Gate) Preload(ctx context.Context, ref contract.GateRef, s Snapshot) error {
	if err := validateRef(ref); err != nil {
		return err
	}
	b, err := newBuild(s)
	if err != nil {
		return err
	}
	if err := g.Register(ctx, ref); err != nil { // before it exists: a relay must find whatever it journals
		return err
	}
	token := rand.Text()
	step := func(name string, args []string) error {
		all := append(make([]any, 0, 2+len(args)), name, token)
		for _, a := range args {
			all = append(all, a)
		}
		reply, err := g.run(ctx, scriptPreload, ref, all...)
		switch {
		case err != nil:
			return err
		case reply == "live":
			return ErrGateExists
		case reply == "superseded":
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
	return step("commit", b.commit(s))
}

// build is a snapshot in the form that the preload script takes.
type build struct {
	held, buyers, adjusted []string             // alternating fields and values of these hashes
	skus                   []string             // sorted
	counts                 map[string]*Counts   // InFlight counts unlanded units
	deadlines              map[string]time.Time // the latest known pay deadline, by SKU
}

// newBuild validates a snapshot and converts it.
func newBuild(s Snapshot) (*build, error) {
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
	if err := b.addEntries(s.Entries); err != nil {
		return nil, err
	}
	for _, sku := range b.skus {
		if c := b.counts[sku]; c.Left+c.Held+c.Sold != c.Total {
			return nil, fmt.Errorf("stockgate: SKU %s does not add up: left %d + held %d + sold %d is not total %d",
				sku, c.Left, c.Held, c.Sold, c.Total)
		}
	}
	for _, id := range s.Adjusted {
		b.adjusted = append(b.adjusted, id, adjustmentDecided)
	}
	return b, nil
}

// addEntries adds all entries and the records of their buyers.
func (b *build) addEntries(list []Entry) error {
	entries := slices.Clone(list)
	slices.SortFunc(entries, func(a, b Entry) int { return compareIDs(a.OrderSN, b.OrderSN) })
	users := map[string]*buyer{}
	for i, e := range entries {
		if i > 0 && entries[i-1].OrderSN == e.OrderSN {
			return fmt.Errorf("stockgate: order_sn %s is in the snapshot twice", e.OrderSN)
		}
		e.Traceparent = storableTraceparent(e.Traceparent)
		stored, err := e.encode()
		if err != nil {
			return err
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
			u.units += l.Qty
		}
		if err := b.count(e); err != nil {
			return err
		}
	}
	for id, u := range users {
		b.buyers = append(b.buyers, id, u.encode())
	}
	return nil
}

// count adds an entry that holds units to the counters of its SKUs.
func (b *build) count(e Entry) error {
	for _, l := range e.Lines {
		c := b.counts[l.SKUID]
		if c == nil {
			return fmt.Errorf("stockgate: order_sn %s holds SKU %s, which is not sold here", e.OrderSN, l.SKUID)
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
	return nil
}

func (s Snapshot) validate() error {
	if err := s.Config.validate(); err != nil {
		return err
	}
	if s.EndedBefore < 0 || s.EndedBefore >= maxExact {
		return fmt.Errorf("stockgate: %d ended purchases are out of range", s.EndedBefore)
	}
	if len(s.Stock) == 0 {
		return fmt.Errorf("stockgate: a gate needs at least one SKU")
	}
	for sku, total := range s.Totals {
		if !contract.ValidID(sku) {
			return fmt.Errorf("stockgate: sku id %q is malformed", sku)
		}
		if _, ok := s.Stock[sku]; !ok || total < 0 || total >= maxExact {
			return fmt.Errorf("stockgate: SKU %s: total %d is out of range, or its stock is missing", sku, total)
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
				return fmt.Errorf("stockgate: order_sn %s has ended, but its end time is missing", e.OrderSN)
			}
		}
	}
	for _, id := range s.Adjusted {
		if err := validateAdjustmentID(id); err != nil {
			return err
		}
	}
	if s.Epoch != "" {
		return validateEpoch(s.Epoch)
	}
	return nil
}

// adjustmentDecided is the stored value of an adjustment that has no further effect. See lua/adjust.lua.
const adjustmentDecided = "m"

// commit returns the arguments of the last step: the number of fields that each hash must have by then, the
// configuration, the number of purchases that are only counted, and the counters.
func (b *build) commit(s Snapshot) []string {
	args := []string{strconv.Itoa(len(b.held) / 2), strconv.Itoa(len(b.buyers) / 2), strconv.Itoa(len(b.adjusted) / 2)}
	for _, a := range s.Config.args() {
		args = append(args, a.(string))
	}
	args = append(args, strconv.FormatInt(s.EndedBefore, 10), s.Epoch, importingField(s.Importing))
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

// buyer is the gate's record of one buyer, stored as "units|held order_sns|ended order_sns".
type buyer struct {
	units       int64
	held, ended []string
}

// maxEnded bounds the ended purchases that a buyer's record lists. lua/prelude.lua has the same number.
const maxEnded = 16

func (b *buyer) encode() string {
	ended := b.ended[max(0, len(b.ended)-maxEnded):]
	return strconv.FormatInt(b.units, 10) + "|" + strings.Join(b.held, ",") + "|" + strings.Join(ended, ",")
}
