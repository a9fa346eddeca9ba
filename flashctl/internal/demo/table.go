package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table lists expected and actual values of the demo.
type Table struct {
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

func (t *Table) since() time.Duration { return time.Since(t.began).Round(100 * time.Millisecond) }

func (t *Table) headline(text string) {
	t.rows = append(t.rows, row{at: t.since(), what: text, ok: true, isHeadline: true})
}

// count adds a row for a number that must be exact.
func (t *Table) count(what string, want, got int64) {
	t.rows = append(t.rows, row{at: t.since(), what: what, want: fmt.Sprint(want), got: fmt.Sprint(got), ok: want == got})
}

// fact adds a row for another condition.
func (t *Table) fact(what, want, got string, ok bool) {
	t.rows = append(t.rows, row{at: t.since(), what: what, want: want, got: got, ok: ok})
}

// Wrong returns the number of rows that are not as expected.
func (t *Table) Wrong() int {
	n := 0
	for _, r := range t.rows {
		if !r.ok {
			n++
		}
	}
	return n
}

// Print writes the table as text.
func (t *Table) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "at\twhat\texpected\tactual\t")
	fmt.Fprintln(tw, "--\t----\t--------\t------\t")
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
