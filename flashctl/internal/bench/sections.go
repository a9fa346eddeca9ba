package bench

import (
	"context"
	"fmt"
	"strings"
)

// Phase is a part of a run in which the processes of the system are scheduled in one way.
type Phase string

const (
	// Installed is the phase in which the system runs as `make up` starts it.
	Installed Phase = "installed"
	// Priorities is the phase in which all processes are batch processes, and those that land reservations have a lower
	// priority.
	Priorities Phase = "priorities"
)

// section is a group of measurements that can be selected by its name.
type section struct {
	name  string
	phase Phase
	long  bool // runs only when it is selected by name
	run   func(*bench, context.Context) error
}

// sections returns all sections in the order in which they run. Names are unique.
func sections() []section {
	return []section{
		{"inline", Installed, false, (*bench).inlined},
		{"fetched", Installed, false, (*bench).fetched},
		{"payments", Installed, false, (*bench).paying},
		{"due-20k", Installed, false, (*bench).closing20k},
		{"due-100k", Installed, false, (*bench).closing100k},
		{"edge", Installed, false, (*bench).throughEdge},
		{"filled-1m", Installed, false, (*bench).prefilled1M},
		{"filled-5m", Installed, true, (*bench).prefilled5M},
		{"guarded", Installed, true, (*bench).guarded},
		{"sustained", Installed, true, (*bench).sustained},
		{"hour", Installed, true, (*bench).hour},
		{"accepted", Priorities, false, (*bench).accepted},
		{"refused", Priorities, false, (*bench).refused},
		{"polled", Priorities, false, (*bench).polled},
		{"landed", Priorities, false, (*bench).landing},
		{"steady", Priorities, false, (*bench).steady},
		{"closing", Priorities, false, (*bench).closing},
	}
}

// selectSections returns the sections of a phase that run: the one with that name, or all that are not long if only is
// empty. It fails if the phase has no section with that name.
func selectSections(phase Phase, only string) ([]section, error) {
	var selected []section
	for _, s := range sections() {
		if s.phase == phase && (s.name == only || only == "" && !s.long) {
			selected = append(selected, s)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("phase %q has no section %q; sections: %s", phase, only, strings.Join(sectionNames(phase), ", "))
	}
	return selected, nil
}

// sectionNames returns the names of the sections of a phase, or of all phases if phase is empty.
func sectionNames(phase Phase) []string {
	var names []string
	for _, s := range sections() {
		if phase == "" || s.phase == phase {
			names = append(names, s.name)
		}
	}
	return names
}
