package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report holds the tables of a demo: one for each sale, and one for the border between the merchants.
type Report struct {
	tables []*table
}

// Wrong returns the number of rows that are not as expected.
func (r *Report) Wrong() int {
	n := 0
	for _, t := range r.tables {
		n += t.wrong()
	}
	return n
}

// Print writes the tables as text.
func (r *Report) Print(w io.Writer) error {
	for i, t := range r.tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := t.print(w); err != nil {
			return err
		}
	}
	return nil
}

// table lists expected and actual values.
type table struct {
	title string
	rows  []row
	began time.Time
}

type row struct {
	at         time.Duration
	what       string
	want, got  string
	ok         bool
	isHeadline bool
}

func (t *table) since() time.Duration { return time.Since(t.began).Round(100 * time.Millisecond) }

func (t *table) headline(text string) {
	t.rows = append(t.rows, row{at: t.since(), what: text, ok: true, isHeadline: true})
}

// count adds a row for a number that must be exact.
func (t *table) count(what string, want, got int64) {
	t.rows = append(t.rows,
		row{at: t.since(), what: what, want: fmt.Sprint(want), got: fmt.Sprint(got), ok: want == got})
}

// fact adds a row for another condition.
func (t *table) fact(what, want, got string, ok bool) {
	t.rows = append(t.rows, row{at: t.since(), what: what, want: want, got: got, ok: ok})
}

// wrong returns the number of rows that are not as expected.
func (t *table) wrong() int {
	n := 0
	for _, r := range t.rows {
		if !r.ok {
			n++
		}
	}
	return n
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(tw, "at\t%s\texpected\tactual\t\n", t.title)
	fmt.Fprintf(tw, "--\t%s\t--------\t------\t\n", strings.Repeat("-", len(t.title)))
	for _, r := range t.rows {
		verdict := "ok"
		if !r.ok {
			verdict = "WRONG"
		}
		if r.isHeadline {
			fmt.Fprintf(tw, "%s\t%s\t\t\t\n", r.at, strings.ToUpper(r.what[:1])+r.what[1:])
			continue
		}
		fmt.Fprintf(tw, "\t  %s\t%s\t%s\t%s\n", r.what, r.want, r.got, verdict)
	}
	return tw.Flush()
}
