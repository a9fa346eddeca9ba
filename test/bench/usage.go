package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/procstat"
)

// The processes of a run, in the order of the tables. The generator is this process.
const (
	generator = "generator"
	bareName  = "bare"
)

var processNames = []string{"seckill", "inventory", "order", "redis", "mariadb", "namesrv", "broker"}

// processes maps the names of measured processes to their pids.
type processes map[string]int

// findProcesses reads the pid files of scripts/dev/dependencies and scripts/dev/services.
func findProcesses(runDir string) (processes, error) {
	found := processes{generator: os.Getpid()}
	for _, name := range processNames {
		raw, err := os.ReadFile(filepath.Join(runDir, name+".pid"))
		if err != nil {
			return nil, err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil {
			return nil, fmt.Errorf("pid of %s: %w", name, err)
		}
		if _, err := procstat.CPU(pid); err != nil {
			return nil, fmt.Errorf("%s is not running: %w", name, err)
		}
		found[name] = pid
	}
	return found, nil
}

// meter holds the processor time that processes have used up to a moment.
type meter struct {
	of      processes
	at      time.Time
	cpu     map[string]time.Duration
	machine time.Duration
}

func (p processes) meter() meter {
	m := meter{of: p, at: time.Now(), cpu: map[string]time.Duration{}}
	for name, pid := range p {
		m.cpu[name], _ = procstat.CPU(pid) // an ended process makes the run fail elsewhere
	}
	m.machine, _ = procstat.Machine()
	return m
}

// usage is the processor time that was used in an interval.
type usage struct {
	wall time.Duration
	cpu  map[string]time.Duration // by process
	// others is the processor time of the rest of the machine, including kernel threads. A value far above 0.1 of the
	// wall time means that other programs were running and the rates are too low.
	others time.Duration
}

func (m meter) used() usage {
	now := m.of.meter()
	u := usage{wall: now.at.Sub(m.at), cpu: map[string]time.Duration{}, others: now.machine - m.machine}
	for name, cpu := range now.cpu {
		u.cpu[name] = cpu - m.cpu[name]
		u.others -= u.cpu[name]
	}
	u.others = max(u.others, 0)
	return u
}

// add adds the usage of another interval.
func (u *usage) add(o usage) {
	if u.cpu == nil {
		u.cpu = map[string]time.Duration{}
	}
	for name, cpu := range o.cpu {
		u.cpu[name] += cpu
	}
	u.wall, u.others = u.wall+o.wall, u.others+o.others
}

// recordCosts records the processor time of each of n requests, purchases or orders. The sum leaves out the generator
// and the bare handler.
func (b *bench) recordCosts(what string, u usage, n int) {
	sum := 0.0
	for _, name := range processNames {
		each := ratio(float64(u.cpu[name].Microseconds()), float64(n))
		b.record(what+": "+name, "µs", none, each)
		sum += each
	}
	b.record(what+": all processes", "µs", lower, sum)
	b.record(what+": generator", "µs", none, ratio(float64(u.cpu[generator].Microseconds()), float64(n)))
	b.record(what+": rest of the machine", "cores", none, ratio(u.others.Seconds(), u.wall.Seconds()))
}

// memory is the resident memory of one process in bytes.
type memory struct{ now, peak int64 }

func (p processes) memory(name string) (m memory) {
	m.now, m.peak, _ = procstat.Memory(p[name])
	return m
}

func (b *bench) recordMemory(when string, of func(memory) int64) {
	for _, name := range append(slices.Clone(processNames), generator) {
		b.record("memory "+when+": "+name, "MiB", none, float64(of(b.procs.memory(name))>>20))
	}
}
