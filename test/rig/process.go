package rig

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is one running service.
type Process struct {
	Name  string
	URL   string // public API
	Admin string // admin listener

	fronts map[string]*front // by the address of the process behind it
	binary string
	env    []string
	log    string
	cmd    *exec.Cmd
	done   chan error
}

// Start starts the process; it does not wait until it is ready.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, p.TryStart())
}

// TryStart is Start with an error instead of a failed test, for goroutines.
func (p *Process) TryStart() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command(p.binary, "serve")
	cmd.Env = p.env
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	done := make(chan error, 1)
	p.cmd, p.done = cmd, done
	go func() { done <- cmd.Wait() }()
	return nil
}

// Command runs another command of the service beside the process, with its settings.
func (p *Process) Command(t testing.TB, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := p.Output(ctx, words...)
	require.NoError(t, err, "%s %s:\n%s", p.Name, strings.Join(words, " "), out)
}

// Output runs another command of the service as Command does, and returns what it prints.
func (p *Process) Output(ctx context.Context, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.binary, words...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, p.TryKill())
}

// TryKill is Kill with an error instead of a failed test.
func (p *Process) TryKill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.done
	p.cmd = nil
	return nil
}

// Stop ends the process with SIGTERM and requires that it drains and exits with status 0.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.TryStop())
}

// TryStop is Stop with an error instead of a failed test, for goroutines.
func (p *Process) TryStop() error {
	if p.cmd == nil {
		return nil
	}
	defer func() { p.cmd = nil }()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case err := <-p.done:
		if err != nil {
			return fmt.Errorf("%s did not end cleanly: %w, see its log:\n%s", p.Name, err, p.Tail(40))
		}
		return nil
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within 40 s of SIGTERM:\n%s", p.Name, p.Tail(40))
	}
}

// Restart stops the process as Stop does, starts it with its present settings and waits until it is ready. As from a
// load balancer that checks readiness, it gets no new connections from the front until then.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	require.NoError(t, p.TryRestart(context.Background()))
}

// TryRestart is Restart with an error instead of a failed test, for goroutines.
func (p *Process) TryRestart(ctx context.Context) error {
	p.takeOut(true)
	if err := p.TryStop(); err != nil {
		return err
	}
	if err := p.TryStart(); err != nil {
		return err
	}
	if err := p.TryStatus(ctx, p.Admin+"/readyz", http.StatusOK, 3*time.Minute); err != nil {
		return err
	}
	p.takeOut(false)
	return nil
}

func (p *Process) takeOut(out bool) {
	for addr, f := range p.fronts {
		f.takeOut(addr, out)
	}
}

// WaitReady waits until /readyz responds 200.
func (p *Process) WaitReady(t testing.TB) {
	t.Helper()
	p.WaitStatus(t, p.Admin+"/readyz", http.StatusOK, 3*time.Minute)
}

// WaitStatus polls url until it responds with status, or fails the test.
func (p *Process) WaitStatus(t testing.TB, url string, status int, within time.Duration) {
	t.Helper()
	require.NoError(t, p.TryStatus(context.Background(), url, status, within))
}

// TryStatus is WaitStatus with an error instead of a failed test.
func (p *Process) TryStatus(ctx context.Context, url string, status int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		response := responseOf(ctx, url)
		if response == http.StatusText(status) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %s did not respond %d (last: %s), see its log:\n%s", p.Name, url, status, response,
				p.Tail(40))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// responseOf returns the text of the response status of url, or the error if there is no response.
func responseOf(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	_ = resp.Body.Close()
	return http.StatusText(resp.StatusCode)
}

// Tail returns the last lines of the log.
func (p *Process) Tail(lines int) string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Log returns the whole log.
func (p *Process) Log(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(p.log)
	require.NoError(t, err)
	return string(raw)
}

// Root returns the root folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		require.NotEqual(t, up, dir, "go.work not found above the working directory")
		dir = up
	}
}
