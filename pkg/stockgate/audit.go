package stockgate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/contract"
)

// Counts are the counters of one SKU, in units. Left + Held + Sold = Total.
type Counts struct {
	Left  int64 // may be below 0 after an adoption
	Held  int64 // of queued and created purchases
	Sold  int64 // of paid purchases
	Total int64
	// Journal and InFlight are parts of Held and together the units not known to be in the ledger. Journal is the number
	// of units in the journal, also of purchases that have landed before their journal entry was acked, but at most the
	// sum of both. InFlight is the rest.
	Journal, InFlight int64
}

// Audit holds the configuration and all counters of a gate at one moment.
type Audit struct {
	Config
	SKUs        map[string]Counts
	Revision    Revision
	Epoch       string   // of inventory's database; "" while an import is to follow
	Importing   bool     // Reserve accepts nothing until RenewEpoch
	Held        int64    // sum of the held units of all SKUs, as the gate keeps it
	Incomplete  []string // SKUs without a counter of the units left; only damage leaves them
	JournalLen  int64    // journaled purchases not yet acked
	UnlandedLen int64    // purchases not known to be in the ledger
	EndedLen    int64    // purchases that have ended
	EntriesLen  int64    // purchases in the gate, including ended ones
	Trimmed     int64    // purchases that ended and whose entries were removed
}

// Audit reads the counters of a gate. One script call, O(SKUs).
func (g *Gate) Audit(ctx context.Context, activityID string) (Audit, error) {
	reply, err := g.runStrings(ctx, scriptAudit, activityID)
	if err != nil {
		return Audit{}, err
	}
	if len(reply) < 4 {
		return Audit{}, fmt.Errorf("stockgate: audit returned %d values", len(reply))
	}
	a := Audit{SKUs: map[string]Counts{}}
	for i, dst := range []*int64{&a.JournalLen, &a.UnlandedLen, &a.EndedLen, &a.EntriesLen} {
		if *dst, err = strconv.ParseInt(reply[i], 10, 64); err != nil {
			return Audit{}, fmt.Errorf("stockgate: audit: %w", err)
		}
	}
	_, err = a.decodeCounters(reply[4:])
	return a, err
}

// decodeCounters sets a from the values of counters() in lua/prelude.lua, and returns those that follow.
func (a *Audit) decodeCounters(values []string) (rest []string, err error) {
	lists := [2][]string{}
	if len(values) < len(lists) {
		return nil, fmt.Errorf("stockgate: %d values instead of counters", len(values))
	}
	rest = values[len(lists):]
	for i := range lists {
		n, err := strconv.Atoi(values[i])
		if err != nil || n < 0 || n%2 != 0 || n > len(rest) {
			return nil, fmt.Errorf("stockgate: a list of %q of %d counters", values[i], len(rest))
		}
		lists[i], rest = rest[:n], rest[n:]
	}
	if err := a.decode(lists[1]); err != nil {
		return nil, err
	}
	return rest, a.decodeJournaled(lists[0])
}

// decodeJournaled moves the units that are in the journal from InFlight to Journal: alternating SKUs and units.
func (a *Audit) decodeJournaled(values []string) error {
	for pair := range slices.Chunk(values, 2) {
		c, known := a.SKUs[pair[0]]
		if !known {
			continue
		}
		n, err := strconv.ParseInt(pair[1], 10, 64)
		if err != nil {
			return fmt.Errorf("stockgate: journaled units of SKU %s: %w", pair[0], err)
		}
		c.Journal = max(0, min(n, c.InFlight))
		c.InFlight -= c.Journal
		a.SKUs[pair[0]] = c
	}
	return nil
}

// decode sets a from the gate hash: alternating fields and values.
func (a *Audit) decode(values []string) (err error) {
	hash := make(map[string]string, len(values)/2)
	for pair := range slices.Chunk(values, 2) {
		hash[pair[0]] = pair[1]
	}
	if a.Config, err = decodeConfig(hash); err != nil {
		return err
	}
	a.Revision.Build = hash["life"]
	a.Epoch, a.Importing = hash["epoch"], hash["importing"] != ""
	if a.Revision.Corrections, err = decodeCount(hash["repairs"]); err != nil {
		return err
	}
	a.Trimmed, _ = decodeCount(hash["trimmed"]) // 0 if it cannot be read: no script decides by it
	if a.Held, err = decodeCount(hash["held"]); err != nil {
		return err
	}
	for field, value := range hash {
		kind, sku, ok := strings.Cut(field, ":")
		if !ok || kind == "x" {
			continue
		}
		if _, known := hash["s:"+sku]; !known && !slices.Contains(a.Incomplete, sku) {
			a.Incomplete = append(a.Incomplete, sku)
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("stockgate: gate field %s: %w", field, err)
		}
		c := a.SKUs[sku]
		switch kind {
		case "s":
			c.Left = n
		case "h":
			c.Held = n
		case "p":
			c.Sold = n
		case "t":
			c.Total = n
		case "u":
			c.InFlight = n
		}
		a.SKUs[sku] = c
	}
	return nil
}

// StockLevel is the state and the remaining stock of one gate.
type StockLevel struct {
	ActivityID       string
	Err              error // ErrBroken, or ErrUnavailable for a node of a Cluster; then only ActivityID is set
	Found            bool  // false: the gate does not exist, and no field but ActivityID is set
	State            GateState
	StartsAt, EndsAt time.Time
	RoomRate         int64 // as in Config
	Challenge        contract.Challenge
	Left             map[string]int64 // units left by SKU, may be below 0
	// Unpaid has an entry for each SKU with held units: the latest known pay deadline among them, or zero if none is
	// known.
	Unpaid map[string]time.Time
}

// StockLevels reads the remaining stock of each gate, in the order of activityIDs, in one round trip (one per node on a
// Cluster). It costs O(SKUs), runs no script, and is cheap enough to be polled several times a second. It fails only
// when no node replies; a gate that cannot be read does not hide the others.
func (g *Gate) StockLevels(ctx context.Context, activityIDs ...string) ([]StockLevel, error) {
	if len(activityIDs) == 0 {
		return nil, nil
	}
	replies, err := call(ctx, g, func(ctx context.Context) ([]*redis.MapStringStringCmd, error) {
		p := g.rdb.Pipeline()
		replies := make([]*redis.MapStringStringCmd, len(activityIDs))
		for i, activityID := range activityIDs {
			replies[i] = p.HGetAll(ctx, keyOf(activityID, "gate"))
		}
		_, err := p.Exec(ctx)
		if !hasReplies(err, replies) {
			return nil, err
		}
		for _, r := range replies {
			if r.Err() == nil || refused(r.Err()) {
				return replies, nil
			}
		}
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	levels := make([]StockLevel, len(activityIDs))
	for i, r := range replies {
		levels[i] = StockLevel{ActivityID: activityIDs[i]}
		l, err := decodeStockLevel(r.Val())
		switch {
		case r.Err() != nil:
			levels[i].Err = classify(r.Err())
		case err != nil:
			levels[i].Err = fmt.Errorf("%w: gate of activity %s: %w", ErrBroken, activityIDs[i], err)
		default:
			l.ActivityID = activityIDs[i]
			levels[i] = l
		}
	}
	return levels, nil
}

func decodeStockLevel(h map[string]string) (StockLevel, error) {
	if len(h) == 0 {
		return StockLevel{}, nil
	}
	c, err := decodeConfig(h)
	if err != nil {
		return StockLevel{}, err
	}
	l := StockLevel{
		Found: true, State: c.State, StartsAt: c.StartsAt, EndsAt: c.EndsAt, RoomRate: c.RoomRate, Challenge: c.Challenge,
		Left: map[string]int64{},
	}
	for field, value := range h {
		kind, sku, ok := strings.Cut(field, ":")
		if !ok || kind != "s" && kind != "h" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return StockLevel{}, fmt.Errorf("field %s: %w", field, err)
		}
		switch {
		case kind == "s":
			l.Left[sku] = n
		case n > 0:
			if l.Unpaid == nil {
				l.Unpaid = map[string]time.Time{}
			}
			if l.Unpaid[sku], err = decodeTime(h["x:"+sku]); err != nil {
				return StockLevel{}, fmt.Errorf("field x:%s: %w", sku, err)
			}
		}
	}
	return l, nil
}

// UnitsLeft returns the units left in one gate, by SKU, and the state of the gate. It fails with ErrNoGate if the gate
// does not exist. Cost as in StockLevels.
func (g *Gate) UnitsLeft(ctx context.Context, activityID string) (map[string]int64, GateState, error) {
	levels, err := g.StockLevels(ctx, activityID)
	switch {
	case err != nil:
		return nil, "", err
	case levels[0].Err != nil:
		return nil, "", levels[0].Err
	case !levels[0].Found:
		return nil, "", ErrNoGate
	}
	return levels[0].Left, levels[0].State, nil
}

func decodeConfig(h map[string]string) (c Config, err error) {
	c.State = GateState(h["state"])
	for _, f := range []struct {
		name string
		dst  *time.Time
	}{{"starts", &c.StartsAt}, {"ends", &c.EndsAt}} {
		if *f.dst, err = decodeTime(h[f.name]); err != nil {
			return Config{}, err
		}
	}
	for _, f := range []struct {
		name string
		dst  *int64
	}{{"limit", &c.PerUserLimit}, {"version", &c.Version}} {
		if *f.dst, err = strconv.ParseInt(h[f.name], 10, 64); err != nil {
			return Config{}, fmt.Errorf("stockgate: gate field %s: %w", f.name, err)
		}
	}
	c.ReorderLimit = -1 // a lost field differs from every limit, so the reconciler configures the gate again
	if reorders, ok := h["reorders"]; ok {
		if c.ReorderLimit, err = strconv.ParseInt(reorders, 10, 64); err != nil {
			return Config{}, fmt.Errorf("stockgate: gate field reorders: %w", err)
		}
	}
	if rate, ok := h["room"]; ok {
		if c.RoomRate, err = strconv.ParseInt(rate, 10, 64); err != nil {
			return Config{}, fmt.Errorf("stockgate: gate field room: %w", err)
		}
	}
	if c.Challenge, err = contract.ParseChallenge(h["captcha"]); err != nil {
		return Config{}, fmt.Errorf("stockgate: gate field captcha: %w", err)
	}
	return c, nil
}
