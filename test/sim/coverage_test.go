package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// coverage counts the faults of all seeds by point, and the calls of each point while faults were still possible.
var coverage = &counts{hit: map[string]map[kind]int{}, seen: map[string]int{}, ends: map[string]int{}}

type counts struct {
	mu   sync.Mutex
	hit  map[string]map[kind]int
	seen map[string]int
	ends map[string]int // outcomes of purchases, orders and payments, which show that the sales were not empty
}

func (c *counts) end(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[what]++
}

// endings lists the outcomes.
func (c *counts) endings() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.ends)) {
		fmt.Fprintf(&b, "%s %d; ", what, c.ends[what])
	}
	return b.String()
}

func (c *counts) add(point string, k kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hit[point] == nil {
		c.hit[point] = map[kind]int{}
	}
	c.hit[point][k]++
}

func (c *counts) pass(point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[point]++
}

// table lists the points with their calls and faults. missed lists the points without a fault or a call, and the
// endings that no sale had.
func (c *counts) table() (table string, missed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, point := range c.names() {
		sum := 0
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(c.hit[point])) {
			sum += c.hit[point][k]
			parts = append(parts, fmt.Sprintf("%s %d", k, c.hit[point][k]))
		}
		if sum == 0 {
			missed = append(missed, point)
		}
		fmt.Fprintf(&b, "%-58s %9d calls %7d faults  %s\n", point, c.seen[point], sum, strings.Join(parts, ", "))
	}
	for _, what := range endings {
		if c.ends[what] == 0 {
			missed = append(missed, "ending: "+what)
		}
	}
	return b.String(), missed
}

// names returns the listed points and those that were called. The caller holds mu.
func (c *counts) names() []string {
	all := maps.Clone(c.seen)
	for _, p := range points {
		all[p] += 0
	}
	return slices.Sorted(maps.Keys(all))
}
