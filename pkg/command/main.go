// Package command implements the command line of every service: serve, migrate, check-config, version.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
)

// Exit codes.
const (
	exitOK    = 0
	exitRun   = 1 // the work failed
	exitUsage = 2 // the command line or a setting is wrong
)

// gcPercent is the value of GOGC: the heap growth between two collections in percent of the live heap. GOMEMLIMIT,
// which the chart sets, bounds the memory.
const gcPercent = 800

// version may be set by the linker: -X flashsale.internal/pkg/command.version=v1.2.3.
var version string

// Spec defines the commands of a service. A nil function is a command that the service does not have. Any error of
// package settings counts as a wrong setting.
type Spec struct {
	Name        string
	Serve       func(ctx context.Context, log *slog.Logger) error
	Migrate     func(ctx context.Context, log *slog.Logger, m Migration) error
	Await       func(ctx context.Context, log *slog.Logger) error // waits until all migrations are applied
	CheckConfig func() error
	// Connect checks the settings and each back end, of which it writes a line. It fails if one cannot be used.
	Connect func(ctx context.Context, out io.Writer) error
	More    []Subcommand
}

// Subcommand is a command that only one service has, such as contacts reencrypt of order.
type Subcommand struct {
	Words     []string // contacts, reencrypt
	Arguments string   // as they are shown in the usage: --user <id>
	Does      string   // one line for the usage
	// Run gets the arguments after Words. It returns ErrUsage if they are wrong, which prints the usage.
	Run func(ctx context.Context, log *slog.Logger, args []string, out io.Writer) error
}

// ErrUsage is returned by a Subcommand whose arguments are wrong.
var ErrUsage = errors.New("wrong arguments")

// find returns the subcommand of a command line and the arguments after its words.
func (s Spec) find(args []string) (c Subcommand, rest []string, ok bool) {
	for _, c := range s.More {
		if len(args) >= len(c.Words) && slices.Equal(args[:len(c.Words)], c.Words) {
			return c, args[len(c.Words):], true
		}
	}
	return Subcommand{}, nil, false
}

// Main runs the command of the process's arguments and ends the process. The first SIGINT or SIGTERM cancels the
// command's context; the second ends the process at once.
func Main(s Spec) {
	// A service has a live heap of some ten MiB and allocates hundreds of MiB in a second of a sale. With Go's
	// default of 100 it would spend much of its CPU time on garbage collection; 400 costs an eighth more for each
	// refusal than 800. The runtime's variables GOGC and GOMEMLIMIT take precedence.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default handling is restored, so the second one kills the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, s, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, s Spec, args []string, stdout, stderr io.Writer) int {
	var level slog.Level // package settings reports a wrong LOG_LEVEL
	_ = level.UnmarshalText([]byte(os.Getenv("LOG_LEVEL")))
	log := telemetry.NewLogger(stdout, level).With("service", s.Name)

	var err error
	switch command, rest := split(args); {
	case command == "serve" && s.Serve != nil && len(rest) == 0:
		err = s.Serve(ctx, log)
	case command == "migrate" && s.Migrate != nil && len(rest) >= 1 && rest[0] == "up":
		var m Migration
		if m, err = parseUp(rest[1:]); err == nil {
			err = s.Migrate(ctx, log, m)
		}
	case command == "migrate" && s.Migrate != nil && len(rest) == 1 && rest[0] == "status":
		err = s.Migrate(ctx, log, Migration{})
	case command == "migrate" && s.Await != nil && len(rest) == 1 && rest[0] == "wait":
		err = s.Await(ctx, log)
	case command == "check-config" && s.CheckConfig != nil && len(rest) == 0:
		if err = s.CheckConfig(); err == nil {
			fmt.Fprintln(stdout, "The settings are valid.")
		}
	case command == "check-config" && s.Connect != nil && len(rest) == 1 && rest[0] == "--connect":
		if err = s.Connect(ctx, stdout); err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	case command == "version" && len(rest) == 0:
		fmt.Fprintf(stdout, "%s %s\n", s.Name, Version())
	case (command == "help" || command == "-h" || command == "--help") && len(rest) == 0:
		fmt.Fprint(stdout, usage(s))
	default:
		err = ErrUsage
		if c, rest, ok := s.find(args); ok {
			err = c.Run(ctx, log, rest, stdout)
		}
	}
	if errors.Is(err, ErrUsage) {
		fmt.Fprint(stderr, usage(s))
		return exitUsage
	}
	var wrong *settings.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitOK // ended by a signal
	case errors.As(err, &wrong), s.CheckConfig != nil && len(args) == 1 && args[0] == "check-config":
		fmt.Fprintf(stderr, "%s: %v\n", s.Name, err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "%s: %v\n", s.Name, err)
		return exitRun
	}
}

func split(args []string) (command string, rest []string) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], args[1:]
}

func usage(s Spec) string {
	text := "Usage: " + s.Name + " <command>\n\n"
	if s.Serve != nil {
		text += "  serve            run until SIGINT or SIGTERM\n"
	}
	if s.Migrate != nil {
		text += "  migrate up       apply the pending migrations; -wait 5m waits that long for the database\n" +
			"  migrate status   show which migrations are applied\n"
	}
	if s.Await != nil {
		text += "  migrate wait     wait until all migrations are applied\n"
	}
	if s.CheckConfig != nil {
		text += "  check-config     check the settings and exit"
		if s.Connect != nil {
			text += "; --connect: also check each back end"
		}
		text += "\n"
	}
	for _, c := range s.More {
		line := strings.TrimSpace(strings.Join(c.Words, " ") + " " + c.Arguments)
		text += fmt.Sprintf("  %-15s  %s\n", line, c.Does)
	}
	return text + "  version          print the version\n\nSettings come from the environment.\n"
}

// Version returns the version set by the linker, else the module's version or the commit of the build.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	switch {
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	case revision != "":
		return revision + dirty
	}
	return "devel"
}
