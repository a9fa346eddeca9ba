package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ProcessStats are the decisions of the rules in one process, as it publishes them.
type ProcessStats struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"` // by the clock of that process
	Statuses []Status  `json:"statuses"`
}

const (
	statsMaxAge  = 10 * time.Second // from which a process counts as dead; above the difference between any two clocks
	statsTTL     = time.Minute      // after the last publication of any process
	statsEvery   = time.Second
	statsCallers = 20 // callers per rule
)

// Publish writes the statistics of the rules in this process to Redis every second, for Overview, until ctx ends.
// Rules without decisions are left out. Errors are ignored: the statistics of the next second contain everything.
func (s *Store) Publish(ctx context.Context, g *Registry, instance string) error {
	ticker := time.NewTicker(statsEvery)
	defer ticker.Stop()
	for {
		_ = s.publish(ctx, g, instance, time.Now())
		select {
		case <-ctx.Done():
			out, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
			defer cancel()
			_ = s.rdb.HDel(out, s.statsKey(), instance).Err()
			return nil
		case <-ticker.C:
		}
	}
}

func (s *Store) statsKey() string { return s.key + ":figures" }

func (s *Store) publish(ctx context.Context, g *Registry, instance string, now time.Time) error {
	f := ProcessStats{Instance: instance, At: now, Statuses: []Status{}}
	for _, status := range g.List() {
		if status.Allowed+status.Waited+status.Refused+status.Shadowed+status.Failed == 0 {
			continue
		}
		if withCallers, err := g.Status(status.Rule.Name, statsCallers); err == nil {
			status = withCallers
		}
		f.Statuses = append(f.Statuses, status)
	}
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	p := s.rdb.TxPipeline()
	p.HSet(ctx, s.statsKey(), instance, text)
	p.Expire(ctx, s.statsKey(), statsTTL)
	if _, err := p.Exec(ctx); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}

// Overview returns the decisions of each rule in all processes since they started, by name, and the number of
// processes that published recently. Status.Limited has the callers refused most. Status.Rule is as the publishing
// process has it; the rule in force is that of the Registry.
func (s *Store) Overview(ctx context.Context) (byRule map[string]Status, processes int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	all, err := s.rdb.HGetAll(ctx, s.statsKey()).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("rules: %w", err)
	}
	byRule = map[string]Status{}
	var dead []string
	for instance, text := range all {
		var f ProcessStats
		if err := json.Unmarshal([]byte(text), &f); err != nil || time.Since(f.At).Abs() > statsMaxAge {
			dead = append(dead, instance)
			continue
		}
		processes++
		for _, status := range f.Statuses {
			byRule[status.Rule.Name] = byRule[status.Rule.Name].plus(status)
		}
	}
	if len(dead) > 0 { // of processes that died; a slow process publishes again
		_ = s.rdb.HDel(ctx, s.statsKey(), dead...).Err()
	}
	return byRule, processes, nil
}

// plus adds the decisions of another process.
func (s Status) plus(o Status) Status {
	sum := Status{
		Rule: o.Rule, Allowed: s.Allowed + o.Allowed, Waited: s.Waited + o.Waited, Refused: s.Refused + o.Refused,
		Shadowed: s.Shadowed + o.Shadowed, Failed: s.Failed + o.Failed,
	}
	callers := map[string]Caller{}
	for _, c := range append(slices.Clone(s.Limited), o.Limited...) {
		was := callers[c.Key]
		c.Refused += was.Refused
		if was.Until.After(c.Until) {
			c.Until = was.Until
		}
		callers[c.Key] = c
	}
	sum.Limited = make([]Caller, 0, len(callers))
	for _, c := range callers {
		sum.Limited = append(sum.Limited, c)
	}
	slices.SortFunc(sum.Limited, func(a, b Caller) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	return sum
}
