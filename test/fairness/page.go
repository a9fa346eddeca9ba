package fairness

import (
	"fmt"
	"strings"
)

// Parts of docs/fairness.md that cmd/fairness writes.
const (
	PartParameters  = "parameters"
	PartControls    = "controls"
	PartSensitivity = "sensitivity"
)

const (
	// Seeds is the number of runs of each row.
	Seeds = 3
	// SmallScale makes the population of the small tables smaller. cmd/fairness writes them into testdata/small.txt. A
	// test computes them again, so that a change of the model or of a limit is noticed without the minutes of a full run.
	SmallScale = 50
)

// Replace puts text between the marks of a part of the page.
func Replace(page, part, text string) (string, error) {
	begin, end := "<!-- "+part+" begin -->\n", "<!-- "+part+" end -->"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("the page has no part %q", part)
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}

// Small returns the small tables.
func Small() (string, error) {
	var parts []string
	for _, t := range []struct {
		first     string
		scenarios []Scenario
	}{{"Controls that are on", ControlScenarios()}, {"All controls on, with", SensitivityScenarios()}} {
		rows, err := Simulate(t.scenarios, 1, SmallScale)
		if err != nil {
			return "", err
		}
		parts = append(parts, Table(t.first, rows))
	}
	return strings.Join(parts, "\n"), nil
}
