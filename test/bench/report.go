package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is the result of a run.
type Report struct {
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took_ns"`
	CPUs    int           `json:"cpus"`
	CPU     string        `json:"cpu_model"`
	Scale   float64       `json:"scale"`
	Figures []Figure      `json:"figures"`
	Tables  []Table       `json:"tables,omitempty"`
	Books   []Books       `json:"books"` // of each system
}

// Figure is one measured value, by round.
type Figure struct {
	Section string    `json:"section"`
	Name    string    `json:"name"`
	Unit    string    `json:"unit,omitempty"`
	Better  better    `json:"better,omitempty"`
	Now     []float64 `json:"now"`
	Before  []float64 `json:"before,omitempty"` // of the earlier system, which was measured in the same rounds
}

// better states which of two values of a figure is the better one.
type better string

const (
	none   better = "" // the figure is for information
	higher better = "higher"
	lower  better = "lower"
)

// figures are the figures of one system, in the order in which they were first recorded.
type figures []Figure

func (f figures) find(section, name string) int {
	return slices.IndexFunc(f, func(of Figure) bool { return of.Section == section && of.Name == name })
}

// last returns the value of the last round.
func (f figures) last(section, name string) float64 {
	values := f[f.find(section, name)].Now
	return values[len(values)-1]
}

// record adds the value of a round to a figure of the present section.
func (b *bench) record(name, unit string, better better, value float64) {
	i := b.figures.find(b.section, name)
	if i < 0 {
		i = len(b.figures)
		b.figures = append(b.figures, Figure{Section: b.section, Name: name, Unit: unit, Better: better})
	}
	b.figures[i].Now = append(b.figures[i].Now, value)
}

// costs returns how many times as much the present system costs as the earlier one, by round: the ratio of the values,
// or its inverse where higher values are better. It is empty for a figure that is for information.
func (f *Figure) costs() (all []float64) {
	if f.Better == none {
		return nil
	}
	for i := range min(len(f.Now), len(f.Before)) {
		if f.Better == higher {
			all = append(all, ratio(f.Before[i], f.Now[i]))
		} else {
			all = append(all, ratio(f.Now[i], f.Before[i]))
		}
	}
	return all
}

// interval95 returns an interval that holds the median of the distribution of these values with a probability of at
// least 95 %, whatever the distribution: that between the k-th lowest and the k-th highest value. ok is false if there
// are too few values, which is fewer than six.
func interval95(values []float64) (low, high float64, ok bool) {
	sorted := slices.Sorted(slices.Values(values))
	n, k := len(sorted), 0
	// chance is that of exactly k of n values below the median, tail that of at most k; those above are as likely.
	chance, tail := math.Pow(0.5, float64(n)), 0.0
	for {
		tail += chance
		if tail > 0.025 {
			break
		}
		k++
		chance *= float64(n-k+1) / float64(k)
	}
	if k == 0 {
		return 0, 0, false
	}
	return sorted[k-1], sorted[n-k], true
}

// Table is a table of a section.
type Table struct {
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
}

// add adds a row. Times and rates are rounded for a reader.
func (t *Table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case float64:
			row[i] = number(c)
		case time.Duration:
			row[i] = number(milliseconds(c)) + " ms"
		default:
			row[i] = fmt.Sprint(c)
		}
	}
	t.Rows = append(t.Rows, row)
}

func (t *Table) markdown(w io.Writer) {
	fmt.Fprintf(w, "| %s |\n|---|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---:|", len(t.Head)-1))
	for _, row := range t.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintln(w)
}

func newReport(cfg Config) Report {
	r := Report{Began: time.Now().UTC(), CPUs: runtime.NumCPU(), Scale: cfg.Scale}
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				r.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return r
}

// add completes the report with what the systems measured: the present one, and the earlier one if there is one.
func (r *Report) add(systems []*bench) {
	r.Took = time.Since(r.Began)
	r.Figures = systems[0].figures
	for i, b := range systems {
		r.Tables, r.Books = append(r.Tables, b.tables...), append(r.Books, b.books)
		if i == 0 {
			continue
		}
		for _, f := range b.figures {
			if k := figures(r.Figures).find(f.Section, f.Name); k >= 0 {
				r.Figures[k].Before = f.Now
			}
		}
	}
}

// Markdown writes the report as Markdown tables. A figure is the median of the rounds.
func (r *Report) Markdown(w io.Writer) {
	fmt.Fprintf(w, "%s, %d processors (%s), run of %s.", r.Began.Format("2006-01-02 15:04 MST"), r.CPUs, r.CPU,
		r.Took.Round(time.Second))
	if r.Scale != 1 {
		fmt.Fprintf(w, " Durations and counts times %g: the figures do not compare with those of a whole run.", r.Scale)
	}
	fmt.Fprint(w, "\n\n")
	t := Table{Head: []string{"Section", "figure", "unit", "median", "lowest to highest"}}
	if len(r.Books) > 1 {
		t.Head = append(t.Head, "before", "costs of before", "95 %")
	}
	for _, f := range r.Figures {
		row := []any{f.Section, f.Name, f.Unit, median(f.Now), "–"}
		if len(f.Now) > 1 {
			row[4] = number(slices.Min(f.Now)) + " to " + number(slices.Max(f.Now))
		}
		if len(r.Books) > 1 {
			row = append(row, f.comparison()...)
		}
		t.add(row...)
	}
	t.markdown(w)
	for _, t := range r.Tables {
		t.markdown(w)
	}
	for i, k := range r.Books {
		fmt.Fprintf(w, "%s: accepted %d, in the ledger %d, orders %d, dead letters %d.\n",
			[]string{"The books", "The books of before"}[i], k.Accepted, k.Ledger, k.Orders, k.DeadLetters)
		for _, wrong := range k.Wrong[:min(len(k.Wrong), 20)] {
			fmt.Fprintln(w, "WRONG:", wrong)
		}
		if len(k.Wrong) == 0 {
			fmt.Fprintln(w, "No purchase was lost or sold twice; difference 0 in all sales.")
		}
	}
}

// comparison returns the cells of the earlier system: its value, and the median of the ratios of the rounds with its
// interval.
func (f *Figure) comparison() []any {
	cells := []any{"–", "–", "–"}
	if len(f.Before) > 0 {
		cells[0] = median(f.Before)
	}
	if costs := f.costs(); len(costs) > 0 {
		cells[1] = fmt.Sprintf("%.3f", median(costs))
		if low, high, ok := interval95(costs); ok {
			cells[2] = fmt.Sprintf("%.3f to %.3f", low, high)
		}
	}
	return cells
}

// median returns the median of values, 0 without values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// number formats v with about three digits.
func number(v float64) string {
	digits := 0
	switch abs := math.Abs(v); {
	case abs == 0:
	case abs < 1:
		digits = 3
	case abs < 10:
		digits = 2
	case abs < 100:
		digits = 1
	}
	return fmt.Sprintf("%.*f", digits, cmp.Or(v, 0))
}
