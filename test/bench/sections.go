package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// section is a group of measurements that can be selected by its name.
type section struct {
	name string
	long bool // runs only when it is selected by name
	run  func(*bench, context.Context) error
}

// sections returns all sections in the order in which they run. Names are unique.
func sections() []section {
	return []section{
		{"inline", false, (*bench).inline},
		{"fetched", false, (*bench).fetched},
		{"refused", false, (*bench).refused},
		{"payments", false, (*bench).payments},
		{"due", false, (*bench).due},
		{"sustained", true, (*bench).sustained},
		{"hour", true, (*bench).hour},
	}
}

// selectSections returns the sections that run: those with the names of only, which are separated by commas, or all that
// are not long if only is empty.
func selectSections(only string) (selected []section, err error) {
	names := strings.Split(only, ",")
	known := []string{}
	for _, s := range sections() {
		known = append(known, s.name)
		if slices.Contains(names, s.name) || only == "" && !s.long {
			selected = append(selected, s)
		}
	}
	for _, name := range names {
		if only != "" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("no section %q; sections: %s", name, strings.Join(known, ", "))
		}
	}
	return selected, nil
}

// scaled returns a duration times the scale of the run, and at least a second.
func (b *bench) scaled(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*b.Scale), time.Second)
}

// scaledCount returns a number times the scale of the run, and at least least.
func (b *bench) scaledCount(n, least int) int { return max(int(float64(n)*b.Scale), least) }
