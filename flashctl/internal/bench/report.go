package bench

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"flashsale.internal/flashctl/internal/latency"
	"flashsale.internal/flashctl/internal/load"
)

// Report is the result of one run. Times are in nanoseconds, rates per second, memory in bytes.
type Report struct {
	Began       time.Time         `json:"began"`
	Took        time.Duration     `json:"took_ns"`
	CPUs        int               `json:"cpus"`
	CPU         string            `json:"cpu_model"`
	Connections int               `json:"connections"`
	Phase       Phase             `json:"phase"`
	Scale       float64           `json:"scale"` // of the sections as installed
	Bare        Series            `json:"bare"`
	Windows     []Window          `json:"windows"` // sales as installed
	Burst       Series            `json:"accepted_burst"`
	Steady      Series            `json:"accepted_steady"`
	Refused     Series            `json:"refused"`
	Polled      Series            `json:"polled"`
	Drained     []Landed          `json:"drained"`
	Offered     []Offered         `json:"landed_while_selling"` // at the highest sustained rate
	Raw         []Inserts         `json:"raw_inserts"`
	Closings    []Closing         `json:"closings"`
	Payments    []Payments        `json:"payments"`
	Paths       []Paths           `json:"paths,omitempty"`
	Hour        *Hour             `json:"hour,omitempty"`
	Before      *Report           `json:"before,omitempty"` // of the system that was measured in turns
	Memory      map[string]Memory `json:"memory"`
	Books       Books             `json:"books"`
}

// Sample is one measurement of requests.
type Sample struct {
	load.BatchResult
	Use  Usage   `json:"use"`
	Bare float64 `json:"bare_per_s,omitempty"` // mean rate of the bare handler before and after
}

// only returns an error unless every response had this status.
func (s Sample) only(status int) error {
	if s.Statuses[status] != s.Count {
		return fmt.Errorf("not all %d responses were %d: %v", s.Count, status, s.Statuses)
	}
	return nil
}

// Series is a list of samples of the same measurement.
type Series []Sample

func (s *Series) add(sample Sample) { *s = append(*s, sample) }

// median returns the sample with the median rate; of two middle ones the lower.
func (s Series) median() Sample {
	if len(s) == 0 {
		return Sample{}
	}
	sorted := slices.Clone(s)
	slices.SortFunc(sorted, func(a, b Sample) int { return cmp.Compare(a.PerSec, b.PerSec) })
	return sorted[(len(sorted)-1)/2]
}

// ofBare returns the median ratio of a sample to the bare handler measured beside it; of two middle ones the lower.
func (s Series) ofBare() float64 {
	var ratios []float64
	for _, sample := range s {
		ratios = append(ratios, ratio(sample.PerSec, sample.Bare))
	}
	return middle(ratios)
}

// all formats every rate with its ratio to the bare handler, or their ranges if there are many.
func (s Series) all() string {
	const many = 6
	sorted := slices.Clone(s)
	if len(s) > many {
		slices.SortFunc(sorted, func(a, b Sample) int { return cmp.Compare(a.PerSec, b.PerSec) })
		sorted = Series{sorted[0], sorted[len(sorted)-1]}
	}
	rates, ratios := make([]string, len(sorted)), make([]float64, len(s))
	for i, sample := range s {
		ratios[i] = ratio(sample.PerSec, sample.Bare)
	}
	for i, sample := range sorted {
		rates[i] = fmt.Sprintf("%.0f", sample.PerSec)
		if sample.Bare > 0 && len(s) <= many {
			rates[i] += fmt.Sprintf(" (%.2f)", ratios[i])
		}
	}
	if len(s) <= many {
		return strings.Join(rates, ", ")
	}
	text := fmt.Sprintf("%d, %s", len(s), strings.Join(rates, " to "))
	if s[0].Bare > 0 {
		text += fmt.Sprintf(" (%.2f to %.2f)", slices.Min(ratios), slices.Max(ratios))
	}
	return text
}

// Landed measures how the purchases of a sale became orders.
type Landed struct {
	Orders      int           `json:"orders"`
	Meanwhile   int           `json:"landed_while_selling"`
	Drained     int           `json:"drained"` // landed after the sale
	DrainTook   time.Duration `json:"drain_took_ns"`
	DrainPerSec float64       `json:"drained_per_s"`
	Whole       Usage         `json:"whole"` // from the first purchase until the gate has settled the last order
}

// Offered measures landing while purchases are offered at a rate.
type Offered struct {
	Offered  float64       `json:"offered_per_s"`
	PerSec   float64       `json:"landed_per_s"`
	Accepted Sample        `json:"accepted"`
	Behind   time.Duration `json:"last_landed_after_ns"`
	Whole    Usage         `json:"whole"`
}

// Inserts is one measurement of raw inserts.
type Inserts struct {
	PerSec       float64         `json:"rows_per_s"`
	Transactions latency.Summary `json:"transactions"`
	Use          Usage           `json:"use"`
}

func (r *Report) fill(cfg Config) {
	r.Began, r.CPUs, r.Connections = time.Now().UTC(), runtime.NumCPU(), cfg.Connections
	r.Phase, r.Scale = cfg.Phase, cmp.Or(cfg.Scale, 1)
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				r.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
}

// drainRate returns the median of the orders per second that landed after a sale.
func (r *Report) drainRate() float64 {
	var rates []float64
	for _, d := range r.Drained {
		if d.Drained > d.Orders/4 { // the rate of fewer orders is not meaningful
			rates = append(rates, d.DrainPerSec)
		}
	}
	return middle(rates)
}

func (r *Report) rawRate() float64 {
	var rates []float64
	for _, i := range r.Raw {
		rates = append(rates, i.PerSec)
	}
	return middle(rates)
}

func middle(rates []float64) float64 {
	if len(rates) == 0 {
		return 0
	}
	rates = slices.Clone(rates)
	slices.Sort(rates)
	return rates[(len(rates)-1)/2]
}

// Targets, as ratios to the rate that is measured beside.
const (
	targetAccepted = 0.30
	targetRefused  = 0.60
	targetLanded   = 0.08
	targetRestored = 10 * time.Second // of targetClosings orders
	targetClosings = 20_000
)

// Markdown writes the report as Markdown tables.
func (r *Report) Markdown(w io.Writer) {
	p := printTo(w)
	p("%s, %s, %d processors (%s), %d connections, run of %s",
		phaseTitles[r.Phase], r.Began.Format("2006-01-02 15:04 MST"), r.CPUs, r.CPU, r.Connections,
		r.Took.Round(time.Second))
	if r.Scale != 1 {
		p("")
		p("Durations and counts times %g: the figures do not compare with those of a whole run.", r.Scale)
	}
	p("")
	r.windows(p, r.Before)
	r.paths(p)
	r.courses(p)
	r.hour(p)
	r.requests(p)
	r.landings(p)
	r.closings(p)
	r.payments(p)
	r.costs(p)
	r.memory(p)
	r.books(p)
	if r.Before != nil {
		p("")
		p("The system of before, in turns with the one above:")
		p("")
		r.Before.Markdown(w)
	}
}

var phaseTitles = map[Phase]string{Installed: "As installed", Priorities: "With priorities"}

type printer = func(format string, args ...any)

func printTo(w io.Writer) printer {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

func (r *Report) requests(p printer) {
	if len(r.Bare)+len(r.Burst)+len(r.Steady)+len(r.Refused)+len(r.Polled) == 0 {
		return
	}
	p("| Requests | per second | of bare | target | p50 | p99 | max | measurements (of bare) |")
	p("|---|---:|---:|---:|---:|---:|---:|---|")
	line := func(name string, s Series, target float64) {
		if len(s) == 0 {
			return
		}
		m := s.median()
		of, goal := "1.00", "–"
		if target > 0 {
			goal = fmt.Sprintf("≥ %.2f", target)
		}
		if m.Bare > 0 {
			of = fmt.Sprintf("%.2f", s.ofBare())
		}
		p("| %s | %.0f | %s | %s | %s | %s | %s | %s |", name, m.PerSec, of, goal,
			ms(m.Latency.P50), ms(m.Latency.P99), ms(m.Latency.Max), s.all())
	}
	line("bare handler", r.Bare, 0)
	line("purchases accepted, burst", r.Burst, targetAccepted)
	line("purchases accepted, steady", r.Steady, targetAccepted)
	line("purchases refused as sold out", r.Refused, targetRefused)
	line("results polled", r.Polled, 0)
	p("")
}

func (r *Report) landings(p printer) {
	raw := r.rawRate()
	if raw == 0 && len(r.Drained) == 0 {
		return
	}
	p("| Orders | per second | of raw inserts | target | |")
	p("|---|---:|---:|---:|---|")
	if raw > 0 {
		took := r.Raw[len(r.Raw)-1].Transactions
		p("| raw inserts: the order store alone, 64 orders a transaction, 4 writers | %.0f | 1.00 | – | "+
			"a transaction in %s p50, %s p99, %s max |",
			raw, ms(took.P50), ms(took.P99), ms(took.Max))
	}
	if len(r.Offered) > 0 {
		o := r.Offered[len(r.Offered)-1]
		accepted := o.Accepted.Latency
		p("| landed while %.0f purchases/s were offered | %.0f | %.3f | ≥ %.2f | "+
			"the last order %s after the last purchase; accepted in %s p50, %s p99, %s max |",
			o.Offered, o.PerSec, ratio(o.PerSec, raw), targetLanded, ms(o.Behind),
			ms(accepted.P50), ms(accepted.P99), ms(accepted.Max))
	}
	if rate := r.drainRate(); rate > 0 {
		p("| landed while draining a backlog | %.0f | %.3f | – | |", rate, ratio(rate, raw))
	}
	p("")
}

func (r *Report) closings(p printer) {
	for _, c := range r.Closings {
		p("| Closing | |")
		p("|---|---|")
		p("| orders due | %d of %d activities, deadlines within %s |", c.Orders, c.Activities, ms(c.Spread))
		p("| closed and restored, MySQL and gate | %s after the last deadline%s |", ms(c.Restored), c.target())
		p("| delay of an order's closing after its deadline | %s p50, %s p99, %s max; early: %d |",
			ms(c.Lateness.P50), ms(c.Lateness.P99), ms(c.Lateness.Max), c.Early)
		p("")
	}
}

// costs prints the processor time of one request, and of one purchase until the gate has settled its order.
func (r *Report) costs(p printer) {
	names := []string{bareName, "seckill", "redis", "inventory", "order", "mariadb", "namesrv", "broker", generator}
	p("| CPU µs for each | %s | sum without generator | others, cores | MiB afterwards |", strings.Join(names, " | "))
	p("|---|%s", strings.Repeat("---:|", len(names)+3))
	line := func(name string, u Usage, n int) {
		if n == 0 || u.Wall == 0 {
			return
		}
		var cells []string
		sum := 0.0
		for _, of := range names {
			v := u.per(of, n)
			if of != generator {
				sum += v
			}
			cells = append(cells, fmt.Sprintf("%.0f", v))
		}
		others := u.Others.Seconds() / u.Wall.Seconds()
		p("| %s | %s | %.0f | %.2f | %d |", name, strings.Join(cells, " | "), sum, others, u.Memory>>20)
	}
	median := func(name string, s Series) {
		if m := s.median(); m.Count > 0 {
			line(name, m.Use, m.Count)
		}
	}
	median("bare request", r.Bare)
	median("accepted, burst (with landing meanwhile)", r.Burst)
	median("accepted, steady (with landing meanwhile)", r.Steady)
	median("refused as sold out", r.Refused)
	median("result polled", r.Polled)
	for i, d := range r.Drained {
		line(fmt.Sprintf("whole purchase until the gate settles its order, sale %d (%d)", i+1, d.Orders), d.Whole,
			d.Orders)
	}
	for _, o := range r.Offered {
		line(fmt.Sprintf("whole purchase, %.0f/s offered", o.Offered), o.Whole, o.Accepted.Count)
	}
	for _, w := range r.Windows {
		line("whole purchase: "+w.Name, w.Whole, w.Accepted)
	}
	if r.Hour != nil {
		line("whole purchase, with all calls of an hour", r.Hour.Whole, r.Hour.Result.Accepted)
	}
	for _, c := range r.Closings {
		line(fmt.Sprintf("order closed and restored (%d)", c.Orders), c.Use, c.Orders)
	}
	for _, of := range r.Payments {
		line("payment begun", of.BegunUse, of.Count)
		line("callback, and paid event until the gate settles it", of.PaidUse, of.Count)
	}
	rows := 0.0
	var use Usage
	for _, i := range r.Raw {
		rows, use = i.PerSec*i.Use.Wall.Seconds(), i.Use
	}
	line("raw inserted order", use, int(rows))
	p("")
}

func (r *Report) memory(p printer) {
	if len(r.Memory) == 0 {
		return
	}
	p("| Memory, MiB | at the end | peak |")
	p("|---|---:|---:|")
	for _, name := range append(slices.Clone(processNames), generator, bareName) {
		m := r.Memory[name]
		p("| %s | %d | %d |", name, m.Now>>20, m.Peak>>20)
	}
	p("")
}

func (r *Report) books(p printer) {
	k := r.Books
	p("Accepted %d, in the ledger %d, orders %d, dead letters %d.", k.Accepted, k.Ledger, k.Orders, k.DeadLetters)
	for _, wrong := range k.Wrong[:min(len(k.Wrong), 20)] {
		p("WRONG: %s", wrong)
	}
	if len(k.Wrong) == 0 {
		p("No purchase was lost or sold twice; difference 0 in all sales.")
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func ms(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
