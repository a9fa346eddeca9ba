package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Figures are what the rules did in one process, as it publishes them.
type ProcessStats struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at"` // by the clock of that process
	Statuses []Status  `json:"statuses"`
}

const (
	statsMaxAge  = 10 * time.Second // older ones are of a process that is gone; above what clocks differ by
	statsTTL     = time.Minute      // after the last process has published
	statsEvery   = time.Second
	statsCallers = 20 // of those who are limited, by each rule
)

// Publish writes down every second what the rules of a Registry did here, so that Overview sees all processes, until ctx
// ends. Rules that had nothing to decide are left out. A Redis that is gone is passed over: the next second tells it all.
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
		if looked, err := g.Status(status.Rule.Name, statsCallers); err == nil {
			status = looked
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

// Overview is what each rule did in all processes since they started, by name, and how many processes have published it
// lately. Of those who are limited it has the most refused; the limit itself is the one that its Registry has.
func (s *Store) Overview(ctx context.Context) (byRule map[string]Status, processes int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	all, err := s.rdb.HGetAll(ctx, s.statsKey()).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("rules: %w", err)
	}
	byRule = map[string]Status{}
	var gone []string
	for instance, text := range all {
		var f ProcessStats
		if err := json.Unmarshal([]byte(text), &f); err != nil || time.Since(f.At).Abs() > statsMaxAge {
			gone = append(gone, instance)
			continue
		}
		processes++
		for _, status := range f.Statuses {
			byRule[status.Rule.Name] = byRule[status.Rule.Name].plus(status)
		}
	}
	if len(gone) > 0 { // of killed processes; one that is slow writes itself down again
		_ = s.rdb.HDel(ctx, s.statsKey(), gone...).Err()
	}
	return byRule, processes, nil
}

// plus adds what another process did.
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
	slices.SortFunc(sum.Limited, func(a, b Caller) int { return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key)) })
	return sum
}
