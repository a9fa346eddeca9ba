package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/settings"
)

// TestMain lets the test binary run as a service, so that tests can send signals to a process.
func TestMain(m *testing.M) {
	switch os.Getenv("BE_A_SERVICE") {
	case "draining":
		Main(Spec{Name: "shop", Serve: func(ctx context.Context, _ *slog.Logger) error {
			fmt.Println("serving")
			<-ctx.Done()
			fmt.Println("drained")
			return nil
		}})
	case "stuck":
		Main(Spec{Name: "shop", Serve: func(ctx context.Context, _ *slog.Logger) error {
			fmt.Println("serving")
			<-ctx.Done()
			fmt.Println("stopping")
			select {}
		}})
	}
	goleak.VerifyTestMain(m)
}

func TestCommands(t *testing.T) {
	var did string
	spec := Spec{
		Name:  "shop",
		Serve: func(context.Context, *slog.Logger) error { did = "serve"; return nil },
		Migrate: func(_ context.Context, _ *slog.Logger, m Migration) error {
			did = fmt.Sprintf("migrate %t %s", m.Up, m.Wait)
			return nil
		},
		Await:       func(context.Context, *slog.Logger) error { did = "await"; return nil },
		CheckConfig: func() error { did = "check"; return nil },
		Connect: func(_ context.Context, out io.Writer) error {
			did = "connect"
			fmt.Fprintln(out, "shelf  FAILED")
			return errors.New("1 of 1 back ends cannot be used")
		},
		More: []Subcommand{{
			Words: []string{"shelf", "tidy"}, Arguments: "--for <id>", Does: "tidy the shelf",
			Run: func(_ context.Context, _ *slog.Logger, args []string, out io.Writer) error {
				if len(args) != 2 {
					return fmt.Errorf("%w: --for", ErrUsage)
				}
				did = "tidy for " + args[1]
				fmt.Fprintln(out, "The shelf is tidy.")
				return nil
			},
		}},
	}
	for line, c := range map[string]struct {
		code         int
		did          string
		out, problem string
	}{
		"serve":                  {0, "serve", "", ""},
		"migrate up":             {0, "migrate true 0s", "", ""},
		"migrate up -wait 5m":    {0, "migrate true 5m0s", "", ""},
		"migrate status":         {0, "migrate false 0s", "", ""},
		"migrate wait":           {0, "await", "", ""},
		"check-config":           {0, "check", "The settings are valid.", ""},
		"check-config --connect": {1, "connect", "shelf  FAILED", "shop: 1 of 1 back ends cannot be used"},
		"version":                {0, "", "shop ", ""},
		"help":                   {0, "", "Usage: shop", ""},
		"shelf tidy --for 7":     {0, "tidy for 7", "The shelf is tidy.", ""},
		"shelf tidy":             {2, "", "", "shelf tidy --for <id>  tidy the shelf"},
		"shelf":                  {2, "", "", "Usage: shop"},
		"":                       {2, "", "", "Usage: shop"},
		"dance":                  {2, "", "", "Usage: shop"},
		"serve now":              {2, "", "", "Usage: shop"},
		"migrate":                {2, "", "", "migrate up"},
		"migrate down":           {2, "", "", "migrate up"},
		"migrate up -wait 2h":    {2, "", "", "migrate up"},
		"migrate up -wait x":     {2, "", "", "migrate up"},
		"migrate up now":         {2, "", "", "migrate up"},
		"check-config twice":     {2, "", "", "Usage"},
	} {
		t.Run(line, func(t *testing.T) {
			did = ""
			var out, problem bytes.Buffer
			require.Equal(t, c.code, run(context.Background(), spec, strings.Fields(line), &out, &problem))
			require.Equal(t, c.did, did)
			require.Contains(t, out.String(), c.out)
			require.Contains(t, problem.String(), c.problem)
		})
	}
}

func TestAMissingCommand(t *testing.T) {
	var out, problem bytes.Buffer
	require.Equal(t, 2, run(context.Background(), Spec{Name: "shop"}, []string{"migrate", "up"}, &out, &problem))
	require.NotContains(t, problem.String(), "migrate")
}

func TestExitCodes(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		args    string
		err     error
		code    int
		problem string
	}{
		"setting":         {context.Background(), "serve", fmt.Errorf("start: %w", settings.Wrong("HTTP_ADDR", "is wrong")), 2, "shop: start: HTTP_ADDR is wrong\n"},
		"check-config":    {context.Background(), "check-config", errors.New("PATH_KEYS is wrong"), 2, "shop: PATH_KEYS is wrong\n"},
		"failed":          {context.Background(), "serve", errors.New("listener HTTP_ADDR: taken"), 1, "shop: listener HTTP_ADDR: taken\n"},
		"cancelled":       {ended, "serve", context.Canceled, 0, ""},
		"not by a signal": {context.Background(), "serve", context.Canceled, 1, "shop: context canceled\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problem bytes.Buffer
			spec := Spec{Name: "shop", Serve: func(context.Context, *slog.Logger) error { return c.err }, CheckConfig: func() error { return c.err }}
			require.Equal(t, c.code, run(c.ctx, spec, []string{c.args}, &out, &problem))
			require.Equal(t, c.problem, problem.String())
		})
	}
}

// service starts this test binary as a service and waits until it serves.
func service(t *testing.T, kind string) (*exec.Cmd, io.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "serve")
	cmd.Env = append(os.Environ(), "BE_A_SERVICE="+kind)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read(t, pipe, "serving\n")
	if kind == "stuck" {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		read(t, pipe, "stopping\n")
	}
	return cmd, pipe
}

func read(t *testing.T, pipe io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(pipe, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestTheFirstSignalEndsInOrder(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		cmd, out := service(t, "draining")
		require.NoError(t, cmd.Process.Signal(signal))
		read(t, out, "drained\n")
		require.NoError(t, cmd.Wait())
	}
}

func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	cmd, _ := service(t, "stuck")
	// The default handling is restored shortly after the context was cancelled.
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	resend := time.NewTicker(20 * time.Millisecond)
	defer resend.Stop()
	for {
		select {
		case err := <-exited:
			require.ErrorContains(t, err, "signal: terminated")
			return
		case <-resend.C:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}
