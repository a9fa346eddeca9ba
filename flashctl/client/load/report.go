package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Step is what a load test measured of one of its steps.
type Step struct {
	Name     string            `json:"name,omitempty"`
	Outcomes map[string]int    `json:"outcomes,omitempty"`
	Examples map[string]string `json:"examples,omitempty"` // the first error of an outcome
	Times    Summary           `json:"times"`

	PerSecond []int           `json:"per_second,omitempty"` // successes in each second since the start
	All       []time.Duration `json:"all,omitempty"`        // the times, until Sum is called
}

// Count counts n outcomes.
func (s *Step) Count(outcome string, n int) {
	if s.Outcomes == nil {
		s.Outcomes = map[string]int{}
	}
	s.Outcomes[outcome] += n
}

// Fail counts an outcome that is an error.
func (s *Step) Fail(outcome string, err error) {
	s.Count(outcome, 1)
	if s.Examples == nil {
		s.Examples = map[string]string{}
	}
	if s.Examples[outcome] == "" {
		s.Examples[outcome] = err.Error()
	}
}

// Time records the time of one call.
func (s *Step) Time(d time.Duration) { s.All = append(s.All, d) }

// Succeed counts a success in the second that has passed since the start.
func (s *Step) Succeed(since time.Duration) {
	second := int(since / time.Second)
	for len(s.PerSecond) <= second {
		s.PerSecond = append(s.PerSecond, 0)
	}
	s.PerSecond[second]++
}

// add adds what another process measured of the step.
func (s *Step) add(o *Step) {
	for outcome, n := range o.Outcomes {
		s.Count(outcome, n)
	}
	if s.Examples == nil {
		s.Examples = o.Examples
	} else {
		maps.Copy(s.Examples, o.Examples)
	}
	s.All = append(s.All, o.All...)
}

// Report is the result of a load test.
type Report struct {
	ActivityID string        `json:"activity_id"`
	Took       time.Duration `json:"took_ns"` // from the first call to the last response
	Steps      []Step        `json:"steps"`
}

// Step returns the step with that name, which is added if it is missing. The pointer is valid until the next step is
// added.
func (r *Report) Step(name string) *Step {
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		i = len(r.Steps)
		r.Steps = append(r.Steps, Step{Name: name})
	}
	return &r.Steps[i]
}

// Add adds what another process measured at the same time.
func (r *Report) Add(o Report) {
	r.Took = max(r.Took, o.Took)
	for i := range o.Steps {
		r.Step(o.Steps[i].Name).add(&o.Steps[i])
	}
}

// Sum replaces the recorded times by their summaries.
func (r *Report) Sum() {
	for i := range r.Steps {
		if s := &r.Steps[i]; len(s.All) > 0 {
			s.Times, s.All = Summarize(s.All), nil
		}
	}
}

// Print writes the report for a reader.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "activity %s, %s\n", r.ActivityID, r.Took.Round(time.Millisecond))
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%-14s", s.Name)
		if s.Times.Count > 0 {
			fmt.Fprintf(w, " %s", s.Times)
		}
		fmt.Fprintln(w)
		for _, outcome := range slices.Sorted(maps.Keys(s.Outcomes)) {
			fmt.Fprintf(w, "  %-24s %8d  %s\n", outcome, s.Outcomes[outcome], s.Examples[outcome])
		}
		if len(s.PerSecond) > 0 {
			fmt.Fprintf(w, "  in each second %v\n", s.PerSecond)
		}
	}
}
