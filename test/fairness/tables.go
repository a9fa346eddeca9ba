package fairness

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// Scenario is a row of a table.
type Scenario struct {
	Name   string
	On     Set
	Change func(*Parameters) // nil for the defaults
}

// ControlScenarios returns the rows of the table of controls: none, each alone, all, and all but one.
func ControlScenarios() []Scenario {
	rows := []Scenario{{Name: "none"}}
	for _, c := range Controls() {
		rows = append(rows, Scenario{Name: "only " + string(c), On: Set{c}})
	}
	rows = append(rows, Scenario{Name: "**all**, with the image", On: All()})
	for _, c := range All() {
		rows = append(rows, Scenario{Name: "all without " + string(c), On: All().without(c)})
	}
	return append(rows,
		Scenario{Name: "all, proof of work instead of the image", On: All().without(Image).with(Proof)},
		Scenario{Name: "all, " + string(OpenProof) + " beside the image", On: All().with(OpenProof)},
	)
}

// SensitivityScenarios returns the rows of the sensitivity table, all controls on.
func SensitivityScenarios() []Scenario {
	rows := []Scenario{{Name: "defaults", On: All()}}
	add := func(name string, change func(*Parameters)) {
		rows = append(rows, Scenario{name, All(), change})
	}
	add("half the units", func(p *Parameters) { p.Units /= 2 })
	add("twice the units", func(p *Parameters) { p.Units *= 2 })
	add("half the seconds of a robot per image", func(p *Parameters) { p.ImageRobot /= 2 })
	add("twice the seconds of a robot per image", func(p *Parameters) { p.ImageRobot *= 2 })
	add("robots that solve one image at a time", func(p *Parameters) { p.Solvers = 1 })
	add("that, and use each solution four times", func(p *Parameters) {
		p.Solvers, p.ImageRobot = 1, p.ImageRobot/contract.ChallengeImageUses
	})
	add("robots that solve five at a time", func(p *Parameters) { p.Solvers = 5 })
	add("half the accounts per robot", func(p *Parameters) { p.AccountsPerRobot /= 2 })
	add("twice the accounts per robot", func(p *Parameters) { p.AccountsPerRobot *= 2 })
	add("half the seconds of a person per image", func(p *Parameters) { p.ImageMedian /= 2 })
	add("twice the seconds of a person per image", func(p *Parameters) { p.ImageMedian *= 2 })
	add("half the admission rate", func(p *Parameters) { p.AdmitPerSecond /= 2 })
	add("twice the admission rate", func(p *Parameters) { p.AdmitPerSecond *= 2 })
	add("four times the admission rate", func(p *Parameters) { p.AdmitPerSecond *= 4 })
	return rows
}

// Row is a scenario with its results, one for each seed.
type Row struct {
	Scenario
	Lottery float64 // share of the robots in a lottery over accounts
	Results []Result
}

// Simulate runs every scenario with the seeds 1 to seeds, on all processors. scale makes the population smaller.
func Simulate(scenarios []Scenario, seeds, scale int) ([]Row, error) {
	rows := make([]Row, len(scenarios))
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, s := range scenarios {
		p := Defaults()
		if s.Change != nil {
			s.Change(&p)
		}
		accounts := p.Robots * p.AccountsPerRobot
		rows[i] = Row{s, float64(accounts) / float64(accounts+p.Humans), make([]Result, seeds)}
		p = p.smaller(scale)
		for seed := range seeds {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				r, err := Run(p, s.On, uint64(seed)+1, scale)
				mu.Lock()
				defer mu.Unlock()
				rows[i].Results[seed] = r
				if err != nil {
					failed = err
				}
			})
		}
	}
	wg.Wait()
	return rows, failed
}

// smaller divides the numbers of humans, robots and units, and the rate of admission.
func (p Parameters) smaller(scale int) Parameters {
	p.Humans, p.Robots, p.Units = p.Humans/scale, p.Robots/scale, p.Units/scale
	p.AdmitPerSecond /= scale
	return p
}

// spread returns the mean of a figure over the seeds, its least and its largest value.
func (r Row) spread(figure func(Result) float64) (mean, least, most float64) {
	var all []float64
	for _, x := range r.Results {
		all = append(all, figure(x))
		mean += figure(x) / float64(len(r.Results))
	}
	return mean, slices.Min(all), slices.Max(all)
}

// Table formats rows for a page.
func Table(first string, rows []Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | Robots' share of units | Least to most | In a lottery | Units sold | Unpaid by robots, s a unit"+
		" | Humans refused by mistake | Of those with a turn |\n|---|---:|---:|---:|---:|---:|---:|---:|\n", first)
	for _, r := range rows {
		robots, least, most := r.spread(func(x Result) float64 { return 100 * x.Robots })
		sold, _, _ := r.spread(func(x Result) float64 { return float64(x.Sold) })
		held, _, _ := r.spread(func(x Result) float64 { return x.Held.Seconds() })
		mistaken, _, _ := r.spread(func(x Result) float64 { return 100 * x.Mistaken })
		turn, _, _ := r.spread(func(x Result) float64 { return 100 * x.MistakenOfTurn })
		fmt.Fprintf(&b, "| %s | %.1f %% | %.1f to %.1f %% | %.0f %% | %.0f | %.0f | %.2f %% | %.2f %% |\n",
			r.Name, robots, least, most, 100*r.Lottery, sold, held, mistaken, turn)
	}
	return b.String()
}

// ParameterTable formats the parameters for a page.
func ParameterTable(p Parameters) string {
	var b strings.Builder
	b.WriteString("| Parameter | Value |\n|---|---:|\n")
	for _, row := range []struct {
		name  string
		value any
	}{
		{"humans; robots; accounts of each", fmt.Sprintf("%d; %d; %d", p.Humans, p.Robots, p.AccountsPerRobot)},
		{"units; limit for each user", fmt.Sprintf("%d; %d", p.Units, p.PerUserLimit)},
		{"places admitted a second", p.AdmitPerSecond},
		{"humans who join early; in the last minute", fmt.Sprintf("%.0f %%; %.0f %%", 100*p.EarlyShare, 100*p.LastMinuteShare)},
		{"time in which the others arrive", p.LateFor},
		{"reaction: least; mean above it", fmt.Sprintf("%s; %s", p.ReactionLeast, p.Reaction)},
		{"refusals until a person leaves", p.Patience},
		{"humans who stay at a sold-out sale; their reaction", fmt.Sprintf("%.0f %%; %s", 100*p.Stay, p.StayReaction)},
		{"humans who do not pay; pay window", fmt.Sprintf("%.0f %%; %s", 100*p.Unpaid, p.PayWithin)},
		{"humans with an address of their own", fmt.Sprintf("%.0f %%", 100*p.HomeShare)},
		{"humans who share one with an office; humans in it", fmt.Sprintf("%.0f %%; %d", 100*p.OfficeShare, p.OfficeSize)},
		{"buyers behind one address of a carrier", p.CarrierSize},
		{"image, a person: median; sigma; right", fmt.Sprintf("%s; %.1f; %.0f %%", p.ImageMedian, p.ImageSpread, 100*p.ImageRight)},
		{"humans who use proof of work instead", fmt.Sprintf("%.0f %%", 100*p.Accessible)},
		{"proof of work: person; robot", fmt.Sprintf("%s; %s", p.ProofPerson, p.ProofRobot)},
		{"image, a robot; how many at a time", fmt.Sprintf("%s; %d", p.ImageRobot, p.Solvers)},
		{"robot: delay; pause between calls", fmt.Sprintf("%s; %s", p.RobotDelay, p.RobotPause)},
		{"addresses of a robot; of one with many", fmt.Sprintf("%d; %d", p.AddressesPerRobot, p.AccountsPerRobot)},
		{"paths that a hoarding account collects", p.KeptPaths},
		{"robots that hold: time to a cancellation; cancellations", fmt.Sprintf("%s; %d", p.HoldFor, p.Holds)},
		{"reorder limit", p.ReorderLimit},
		{"a call of a person", p.Latency},
		{"end of the sale after", p.Horizon},
	} {
		value := row.value
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		fmt.Fprintf(&b, "| %s | %v |\n", row.name, value)
	}
	return b.String()
}
