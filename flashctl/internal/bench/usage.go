package bench

import (
	"fmt"
	"os"
	"path/filepath"
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
		raw, err := os.ReadFile(filepath.Join(runDir, name+".pid")) //nolint:gosec // the folder that the caller named
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

// Usage is the processor time that was used in an interval.
type Usage struct {
	Wall time.Duration            `json:"wall_ns"`
	CPU  map[string]time.Duration `json:"cpu_ns"` // by process
	// Others is the processor time of the rest of the machine, including kernel threads. A value far above 0.1 of the
	// wall time means that other programs were running and the rates are too low.
	Others time.Duration `json:"others_cpu_ns"`
	Memory int64         `json:"memory_bytes"` // resident memory of all dependencies and services at the end
}

func (m meter) used() Usage {
	now := m.of.meter()
	u := Usage{Wall: now.at.Sub(m.at), CPU: map[string]time.Duration{}, Others: now.machine - m.machine}
	for name, cpu := range now.cpu {
		u.CPU[name] = cpu - m.cpu[name]
		u.Others -= u.CPU[name]
	}
	u.Others = max(u.Others, 0)
	for name, m := range m.of.memory() {
		if name != generator && name != bareName {
			u.Memory += m.Now
		}
	}
	return u
}

// per returns the microseconds that a process used for each of n requests.
func (u Usage) per(name string, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(u.CPU[name].Microseconds()) / float64(n)
}

// Memory is the resident memory of one process in bytes.
type Memory struct {
	Now  int64 `json:"rss"`
	Peak int64 `json:"peak_rss"`
}

func (p processes) memory() map[string]Memory {
	all := map[string]Memory{}
	for name, pid := range p {
		var m Memory
		m.Now, m.Peak, _ = procstat.Memory(pid)
		all[name] = m
	}
	return all
}
