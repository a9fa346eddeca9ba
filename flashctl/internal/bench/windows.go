package bench

import (
	"context"
	"strings"
	"time"

	"flashsale.internal/flashctl/internal/load"
)

// Window is one sale, measured over one window: from its first request to its last response. All of its figures are of
// the same run and window, except Behind and Whole.
type Window struct {
	Name        string        `json:"name"`
	Connections int           `json:"connections"`
	Took        time.Duration `json:"took_ns"`
	Accepted    int           `json:"accepted"`
	Landed      int           `json:"landed"`               // orders created in the window
	Behind      time.Duration `json:"last_landed_after_ns"` // from the end of the window to the last order
	Unavailable int64         `json:"unavailable"`          // responses with status 503
	Result      load.BatchResult
	Inline      bool       `json:"inline"`               // Result.Latency is of path and purchase, Result.Second of the purchase
	Bare        float64    `json:"bare_per_s,omitempty"` // mean rate of the bare handler before and after
	Use         Usage      `json:"use"`                  // in the window
	Whole       Usage      `json:"whole"`                // from the first request until the gate has settled the last order
	Course      []Interval `json:"course,omitempty"`
}

func (w Window) acceptedRate() float64 { return ratio(float64(w.Accepted), w.Took.Seconds()) }

func (w Window) landedRate() float64 { return ratio(float64(w.Landed), w.Took.Seconds()) }

// saleWindow describes the sale of a window.
type saleWindow struct {
	name   string
	inline bool // each buyer fetches the path on the connection of the purchase; otherwise paths are fetched before
	traffic
	bare   int           // samples of the bare handler before and after; 0 means no comparison
	every  time.Duration // length of the intervals of Course; 0 means none
	buyers int           // purchases a second for which buyers are prepared; 0 means expectedInline or expectedFetched
}

// expectedRates are the purchases a second for which buyers are prepared: more than the system serves, because a window
// ends early when its buyers are used up.
const (
	expectedInline    = 12_000
	expectedFetched   = 25_000
	expectedSustained = 16_000 // a longer window has a lower rate, and each buyer takes some 400 bytes
)

// scaled returns a duration of the sections as installed, times the scale of the run.
func (b *bench) scaled(d time.Duration) time.Duration {
	if b.cfg.Scale > 0 {
		d = time.Duration(float64(d) * b.cfg.Scale)
	}
	return max(d, time.Second)
}

// scaledCount returns a number of the sections as installed, times the scale of the run, and at least least.
func (b *bench) scaledCount(n, least int) int {
	if b.cfg.Scale > 0 {
		n = int(float64(n) * b.cfg.Scale)
	}
	return max(n, least)
}

// inlined measures purchases of which each buyer fetches the path first, on the same connection.
func (b *bench) inlined(ctx context.Context) error {
	return b.window(ctx, saleWindow{
		name: "path inline", inline: true, bare: 2,
		traffic: traffic{conns: 64, within: b.scaled(30 * time.Second)},
	})
}

// fetched measures purchases with paths that were fetched before.
func (b *bench) fetched(ctx context.Context) error {
	return b.window(ctx, saleWindow{
		name: "path fetched before", bare: 2,
		traffic: traffic{conns: 256, within: b.scaled(20 * time.Second)},
	})
}

// throughEdge measures the same as inlined through the edge, for information.
func (b *bench) throughEdge(ctx context.Context) error {
	if b.cfg.Edge == "" {
		b.logf("no edge")
		return nil
	}
	return b.window(ctx, saleWindow{
		name: "path inline, through the edge", inline: true,
		traffic: traffic{addr: b.cfg.Edge, conns: 64, within: b.scaled(10 * time.Second)},
	})
}

// window prepares a sale and its buyers, measures it and waits until all of its purchases have landed.
func (b *bench) window(ctx context.Context, of saleWindow) error {
	expected := of.buyers
	switch {
	case expected > 0:
	case of.inline:
		expected = expectedInline
	default:
		expected = expectedFetched
	}
	n := int(float64(expected) * of.within.Seconds())
	s, buyers, err := b.prepareWindow(ctx, n, of.inline)
	if err != nil {
		return err
	}
	before, err := b.bareRate(ctx, of.conns, of.bare)
	if err != nil {
		return err
	}
	w, err := b.sellWindow(ctx, s, buyers, of)
	if err != nil {
		return err
	}
	after, err := b.bareRate(ctx, of.conns, of.bare)
	if err != nil {
		return err
	}
	w.Bare = (before + after) / 2
	if of.bare == 0 {
		w.Bare = 0
	}
	b.report.Windows = append(b.report.Windows, w)
	return nil
}

// prepareWindow creates a sale and n buyers, without paths if they are fetched inline.
func (b *bench) prepareWindow(ctx context.Context, n int, inline bool) (*sale, []buyer, error) {
	if !inline {
		return b.prepare(ctx, int64(n), n)
	}
	s, err := b.newSale(ctx, int64(n), 24*time.Hour)
	if err != nil {
		return nil, nil, err
	}
	buyers, err := b.newBuyers(n)
	return s, buyers, err
}

// sellWindow sells to these buyers in one window.
func (b *bench) sellWindow(ctx context.Context, s *sale, buyers []buyer, of saleWindow) (Window, error) {
	w := Window{Name: of.name, Connections: of.conns, Inline: of.inline}
	buy := b.buy
	if of.inline {
		buy = b.buyInline
	}
	first, err := b.created(ctx)
	if err != nil {
		return w, err
	}
	course := b.startCourse(ctx, s, of.every)
	m := b.procs.meter()
	w.Result, err = buy(ctx, s, buyers, of.traffic)
	w.Course = course.stop()
	if err != nil {
		return w, err
	}
	last, err := b.created(ctx)
	if err != nil {
		return w, err
	}
	w.Use, w.Took = m.used(), w.Result.Took
	w.Accepted, w.Landed, w.Unavailable = s.count(), last-first, s.unavailable.Load()
	if w.Behind, err = b.landed(ctx); err != nil {
		return w, err
	}
	w.Whole = m.used()
	b.logf("%-28s %8.0f/s accepted, %.0f/s landed, the last %s after the end; %d responses 503; %s", of.name,
		w.acceptedRate(), w.landedRate(), w.Behind.Round(time.Millisecond), w.Unavailable, w.Result.Latency)
	if w.Accepted == len(buyers) {
		b.logf("all %d buyers were served after %s", w.Accepted, w.Took.Round(time.Millisecond))
	}
	return w, nil
}

// windows prints the sales as installed. before holds those of the system that the run compares with, if any.
func (r *Report) windows(p printer, before *Report) {
	if len(r.Windows) == 0 {
		return
	}
	head := "| Purchases as installed | connections | window | accepted/s | of bare | landed/s | all landed after | 503 |" +
		" p50 | p99 |"
	rule := "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
	if before != nil {
		head += " accepted of before | landed of before |"
		rule += "---:|---:|"
	}
	p("%s", head)
	p("%s", rule)
	for _, w := range r.Windows {
		latency := w.Result.Latency
		if w.Inline {
			latency = w.Result.Second
		}
		cells := row{
			w.Name, count(w.Connections), ms(w.Took), rate(w.acceptedRate()), part(w.acceptedRate(), w.Bare),
			rate(w.landedRate()), ms(w.Behind), count(int(w.Unavailable)), ms(latency.P50), ms(latency.P99),
		}
		if before != nil {
			accepted, landed := before.rates(w.Name)
			cells = append(cells, part(w.acceptedRate(), accepted), part(w.landedRate(), landed))
		}
		p("| %s |", strings.Join(cells, " | "))
	}
	p("")
}

// rates returns the mean rates of the windows with that name, 0 if there is none.
func (r *Report) rates(name string) (accepted, landed float64) {
	n := 0.0
	for _, w := range r.Windows {
		if w.Name == name {
			accepted, landed, n = accepted+w.acceptedRate(), landed+w.landedRate(), n+1
		}
	}
	return ratio(accepted, n), ratio(landed, n)
}
