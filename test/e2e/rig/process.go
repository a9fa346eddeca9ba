package rig

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
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

	binary string
	env    []string
	log    string
	cmd    *exec.Cmd
	done   chan error
}

// Start starts the process; it does not wait until it is ready.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer out.Close() // the child has its own descriptor
	p.cmd = exec.Command(p.binary, "serve")
	p.cmd.Env = p.env
	p.cmd.Stdout, p.cmd.Stderr = out, out
	require.NoError(t, p.cmd.Start())
	p.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan<- error) { done <- cmd.Wait() }(p.cmd, p.done)
}

// Kill ends the process with SIGKILL, as a crash does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	<-p.done
	p.cmd = nil
}

// Stop ends the process with SIGTERM and demands that it drains and ends with status 0.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if p.cmd == nil {
		return
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.done:
		require.NoError(t, err, "%s did not end cleanly, see its log:\n%s", p.Name, p.Tail(40))
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		t.Errorf("%s did not end within 40 s of SIGTERM:\n%s", p.Name, p.Tail(40))
		<-p.done
	}
	p.cmd = nil
}

// WaitReady waits until /readyz answers 200.
func (p *Process) WaitReady(t testing.TB) {
	t.Helper()
	p.WaitStatus(t, p.Admin+"/readyz", http.StatusOK, 60*time.Second)
}

// WaitStatus polls url until it answers with status, or fails the test.
func (p *Process) WaitStatus(t testing.TB, url string, status int, within time.Duration) {
	t.Helper()
	var last lastAnswer
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			last.note(err.Error())
			return false
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			last.note(err.Error())
			return false
		}
		_ = resp.Body.Close()
		last.note(resp.Status)
		return resp.StatusCode == status
	}, within, 50*time.Millisecond, "%s: %s never answered %d (at last: %s), see its log:\n%s", p.Name, url, status, &last, lazyTail{p})
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

// lastAnswer is what came of the latest attempt at the time of printing. An attempt may still be going on then.
type lastAnswer struct{ text atomic.Pointer[string] }

func (l *lastAnswer) note(s string) { l.text.Store(&s) }

func (l *lastAnswer) String() string {
	if s := l.text.Load(); s != nil {
		return *s
	}
	return "not asked yet"
}

// lazyTail reads the log when the message is printed, not when the wait begins.
type lazyTail struct{ p *Process }

func (l lazyTail) String() string { return l.p.Tail(40) }

// FreeAddr is a loopback address that nothing listened on a moment ago.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Root is the folder of the repository.
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
