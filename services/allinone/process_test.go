package allinone_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/porttest"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "allinone-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "allinone")
	code := m.Run()
	_ = os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

var (
	binary    string
	buildOnce sync.Once
)

// program builds the program once and returns its path.
func program(t *testing.T) string {
	t.Helper()
	buildOnce.Do(func() {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/allinone").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	require.FileExists(t, binary)
	return binary
}

// process is the program with its own data folder, which stays after a kill.
type process struct {
	url, admin string
	env        []string
	cmd        *exec.Cmd
	log        bytes.Buffer // of the current run; only read after its end
}

func newProcess(t *testing.T, dataDir string) *process {
	t.Helper()
	public, admin := porttest.Free(t), porttest.Free(t)
	p := &process{url: "http://" + public, admin: "http://" + admin, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "DATA_DIR=" + dataDir, "HTTP_ADDR=" + public, "ADMIN_ADDR=" + admin,
		"DEMO=false", "PATH_RATE=10000",
	}}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.kill(t)
		}
	})
	return p
}

// start starts the program and waits until it responds, with a filled gate.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.log.Reset()
	p.cmd = exec.CommandContext(context.Background(), program(t), "serve")
	p.cmd.Env = p.env
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	require.NoError(t, p.cmd.Start())
	require.Eventually(t, func() bool { return responds(p.admin+"/readyz") && responds(p.url+"/v1/activities") },
		patience, 50*time.Millisecond, "the program does not respond")
}

// kill ends the program with SIGKILL.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	p.cmd = nil
	if t.Failed() {
		t.Logf("output of the program:\n%s", p.log.String())
	}
}

func responds(url string) bool {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
