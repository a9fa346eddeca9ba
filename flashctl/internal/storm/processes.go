package storm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client/load"
)

const (
	readyWithin = time.Minute // from the start of a process until it can begin
	headStart   = 500 * time.Millisecond
	exitWithin  = 30 * time.Second // after the last connection may have ended
)

// Processes runs a plan in several processes.
type Processes struct {
	N int
	// Command returns a process that calls Serve with its standard input and output.
	Command func(ctx context.Context) *exec.Cmd
}

// child is one process and its part of the plan.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

// Check returns an error if the plan is wrong or does not fit the processes. The tokens may be empty yet.
func (p Processes) Check(plan Plan) error {
	if err := plan.Check(); err != nil {
		return err
	}
	if p.N < 1 || p.N > min(MaxProcesses, len(plan.Tokens)) {
		return fmt.Errorf("%d processes: 1 to %d, with a connection each", p.N, MaxProcesses)
	}
	limit, err := raiseFileLimit()
	if err != nil {
		return err
	}
	return fits(plan.Connections(), p.N, limit)
}

// Run starts the processes, begins the storm in all of them at one time, and adds up what they measured.
func (p Processes) Run(ctx context.Context, plan Plan) (report load.Report, err error) {
	if err := p.Check(plan); err != nil {
		return report, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin+plan.Within+max(plan.Patience, plan.Watch)+exitWithin)
	defer cancel()

	children := make([]*child, 0, p.N)
	defer func() {
		if err != nil {
			cancel() // ends those that still run
		}
		for _, c := range children {
			_ = c.in.Close()
			_ = c.cmd.Wait()
		}
	}()
	parts := plan.split(p.N)
	for range parts {
		c, err := start(p.Command(ctx))
		if err != nil {
			return report, err
		}
		children = append(children, c)
	}
	err = each(children, func(i int, c *child) error {
		return errors.Join(c.send(parts[i]), c.receive(&struct{}{}))
	})
	if err != nil {
		return report, err
	}
	begin := time.Now().Add(headStart)
	parted := make([]load.Report, p.N)
	err = each(children, func(i int, c *child) error {
		return errors.Join(c.send(begin), c.receive(&parted[i]))
	})
	for _, part := range parted {
		report.Add(part)
	}
	return report, errors.Join(err, ctx.Err())
}

func start(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	cmd.Stderr = &c.errs
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a generator: %w", err)
	}
	return c, nil
}

func (c *child) send(v any) error { return json.NewEncoder(c.in).Encode(v) }

// receive reads the next line of the process, which is a document.
func (c *child) receive(v any) error {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		_ = c.cmd.Wait() // which completes errs
		return fmt.Errorf("a generator ended: %w: %s", err, strings.TrimSpace(c.errs.String()))
	}
	return json.Unmarshal(line, v)
}

// each calls do for every process concurrently.
func each(children []*child, do func(i int, c *child) error) error {
	var all errgroup.Group
	for i, c := range children {
		all.Go(func() error { return do(i, c) })
	}
	return all.Wait()
}

// Serve runs a part of a storm in this process: it reads the plan, responds when it is prepared, reads the time of the
// begin and writes its report. Each document is a line.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if _, err := raiseFileLimit(); err != nil {
		return err
	}
	lines := json.NewDecoder(in)
	var plan Plan
	if err := lines.Decode(&plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	r, err := prepare(ctx, plan)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "{}"); err != nil {
		return err
	}
	var begin time.Time
	if err := lines.Decode(&begin); err != nil {
		return fmt.Errorf("read the begin: %w", err)
	}
	report, err := r.storm(ctx, begin)
	return errors.Join(err, json.NewEncoder(out).Encode(report))
}
