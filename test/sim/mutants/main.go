// Command mutants breaks the services on purpose, one mutant at a time, and prints after how many sales the simulation
// detects it. Mutants of the border between merchants are detected by the property test of inventory instead. It
// changes no file: the compiler gets the broken files as an overlay. At the end it prints a table of all mutants with the
// sale that detected each.
//
// Some mutants are detected by a test that needs MariaDB (MYSQL_DSN); `make proof LANE=mutants` starts one.
//
//	go run ./test/sim/mutants                   all of them, 1,000 sales each
//	go run ./test/sim/mutants -set border       those of the border between merchants
//	go run ./test/sim/mutants -only outbox -seeds 50
//	go run ./test/sim/mutants -list             check that each of both sets still applies to the code
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	seeds := flag.Int("seeds", 1000, "sales per mutant")
	set := flag.String("set", "sim", "sim or border")
	only := flag.String("only", "", "run only the mutants whose names match")
	list := flag.Bool("list", false, "only check that each still applies to the code")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *set, *seeds, *only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, set string, seeds int, only string, list bool) error {
	all := mutants
	switch {
	case list:
		all = slices.Concat(mutants, borderMutants)
	case set == "sim":
	case set == "border":
		all = borderMutants
	default:
		return fmt.Errorf("unknown set %q", set)
	}
	named, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := rootDir(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "flashsale-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if !list {
		if err := passes(ctx, root, dir, all, named, set == "border"); err != nil {
			return err
		}
	}
	var undetected, table []string
	for _, m := range all {
		if !named.MatchString(m.name) {
			continue
		}
		if err := m.write(root, dir); err != nil {
			return err
		}
		if list {
			continue
		}
		found, took, err := m.detect(ctx, set, root, dir, seeds)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // its text no longer compiles, for example: the others are run all the same
			found = "NOT RUN: " + strings.Join(strings.Fields(err.Error()), " ")
		}
		if found == "" {
			found = "NOT DETECTED"
		}
		if strings.HasPrefix(found, "NOT ") {
			undetected = append(undetected, m.name)
		}
		fmt.Printf("%-52s %-7s %s\n", m.name, took.Round(time.Second), found)
		table = append(table, fmt.Sprintf("| %s | %s |", m.name, strings.ReplaceAll(found, "|", "/")))
	}
	if len(table) > 0 {
		fmt.Printf("\n| Mutant | Detected |\n|---|---|\n%s\n", strings.Join(table, "\n"))
	}
	if len(undetected) > 0 {
		return fmt.Errorf("not detected: %s", strings.Join(undetected, ", "))
	}
	return nil
}

// rootDir returns the folder of go.work.
func rootDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return "", err
	}
	work := strings.TrimSpace(string(out))
	if filepath.Base(work) != "go.work" {
		return "", errors.New("no go.work found")
	}
	return filepath.Dir(work), nil
}

// write creates the broken file and the overlay that replaces the original by it.
func (m mutant) write(root, dir string) error {
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return fmt.Errorf("%s: the old text occurs %d times in %s, want 1", m.name, n, m.file)
	}
	broken := filepath.Join(dir, "broken"+filepath.Ext(path))
	if err := os.WriteFile(broken, []byte(strings.Replace(string(source), m.old, m.now, 1)), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
}

// detect runs what must detect the mutant, and returns its finding, or "" without one.
func (m mutant) detect(ctx context.Context, set, root, dir string, seeds int) (string, time.Duration, error) {
	switch {
	case m.hidden != "":
		return m.asserted(ctx, root, dir)
	case set == "border":
		return m.playBorder(ctx, root, dir)
	}
	return m.play(ctx, root, dir, seeds)
}

var (
	played = regexp.MustCompile(`(\d+) seeds in`)
	seed   = regexp.MustCompile(`seed (\d+), repeat`)
	first  = regexp.MustCompile(`(?m)^ +\* (.*)$`)
)

// play runs the simulation and returns its first finding, or "" without one.
func (m mutant) play(ctx context.Context, root, dir string, seeds int) (found string, took time.Duration, err error) {
	test := filepath.Join(dir, "sim.test")
	if out, err := goTest(ctx, root, dir, "-c", "-o", test, "./test/sim"); err != nil {
		return "", 0, fmt.Errorf("does not compile: %s", out)
	}
	began := time.Now()
	sim := exec.CommandContext(ctx, test, "-test.run", "^TestSim$", "-test.v", "-test.timeout", "60m", "-failures",
		"1", "-seeds", fmt.Sprint(seeds))
	sim.Dir = filepath.Join(root, "test", "sim")
	sim.Env = append(os.Environ(), "GOGC=400", "SIM_LUA="+m.lua(dir))
	out, err := sim.CombinedOutput()
	took = time.Since(began)
	if err == nil {
		return "", took, nil
	}
	n, s, f := played.FindSubmatch(out), seed.FindSubmatch(out), first.FindSubmatch(out)
	if s == nil || f == nil {
		return "ended with " + err.Error(), took, nil
	}
	count := "?"
	if n != nil {
		count = string(n[1])
	}
	return fmt.Sprintf("after %s sales, seed %s: %.110s", count, s[1], f[1]), took, nil
}

var (
	worlds = regexp.MustCompile(`failed after (\d+) tests`)
	trace  = regexp.MustCompile(`Error Trace:\s+\S*/(border\w*_test\.go:\d+)`)
	flaky  = []byte("[rapid] flaky test")
	// The outcome of a test that failed for another reason than the border.
	unrelated = regexp.MustCompile(
		`panic after \d+ tests|panic: |Received unexpected error|"code":"(unavailable|internal)"`)
)

// passes checks that the tests pass without a mutant, so that a failure is an effect of the mutant and not, for
// example, of a missing database.
func passes(ctx context.Context, root, dir string, all []mutant, named *regexp.Regexp, border bool) error {
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), []byte(`{"Replace":{}}`), 0o600); err != nil {
		return err
	}
	none := mutant{name: "no mutant"}
	if border {
		found, _, err := none.playBorder(ctx, root, dir)
		if err == nil && found != "" {
			err = errors.New(found)
		}
		if err != nil {
			return fmt.Errorf("without a mutant: %w", err)
		}
	}
	checked := map[unit]bool{}
	for _, m := range all {
		if m.hidden == "" || checked[m.test] || !named.MatchString(m.name) {
			continue
		}
		checked[m.test], none.test = true, m.test
		failed, _, err := none.asserted(ctx, root, dir)
		if failed != "" {
			err = errors.New(failed)
		}
		if err != nil {
			return fmt.Errorf("without a mutant: %w", err)
		}
	}
	return nil
}

// playBorder runs the property test of the border between merchants, and returns its finding, or "" without one.
func (m mutant) playBorder(ctx context.Context, root, dir string) (found string, took time.Duration, err error) {
	began := time.Now()
	out, err := goTest(ctx, root, dir, "-count=1", "-v", "-timeout", "30m", "-run",
		"^TestMerchantsAreSeparate$", "./services/inventory", "-border.calls=20000", "-rapid.seed=1",
		"-rapid.shrinktime=1s", "-rapid.nofailfile")
	took = time.Since(began)
	if err == nil {
		return "", took, nil
	}
	// A mutant that depends on rows of earlier worlds fails in another way when rapid repeats it; then the number is
	// not printed.
	count, at, n := "some", trace.FindSubmatch(out), worlds.FindSubmatch(out)
	if n != nil {
		count = string(n[1])
	}
	if at == nil || n == nil && !bytes.Contains(out, flaky) || unrelated.Match(out) {
		return "", took, fmt.Errorf("fails for another reason: %s", out)
	}
	return fmt.Sprintf("after %s worlds, %s", count, at[1]), took, nil
}

// absent is what a test prints that failed because its database does not run.
var absent = regexp.MustCompile(`run .make test., which starts one`)

// asserted runs the unit test of the rule, and returns its name if it fails, or "".
func (m mutant) asserted(ctx context.Context, root, dir string) (found string, took time.Duration, err error) {
	began := time.Now()
	out, err := goTest(ctx, root, dir, "-count=1", "-v", "-run", m.test.run, "./"+m.test.pkg)
	took = time.Since(began)
	switch {
	case err == nil && !bytes.Contains(out, []byte("--- PASS")):
		return "", took, fmt.Errorf("no test %s in %s", m.test.run, m.test.pkg)
	case err == nil:
		return "", took, nil
	case bytes.Contains(out, []byte("--- FAIL")) && !absent.Match(out):
		return m.test.run + " fails", took, nil
	}
	return "", took, fmt.Errorf("%s in %s cannot be run: %s", m.test.run, m.test.pkg, out)
}

// goTest runs go test with the overlay in dir, and returns what it prints.
func goTest(ctx context.Context, root, dir string, args ...string) ([]byte, error) {
	args = append([]string{"test", "-overlay", filepath.Join(dir, "overlay.json")}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}

// lua returns the value of SIM_LUA for a broken script: the simulation finds scripts by the hash of their text.
func (m mutant) lua(dir string) string {
	if filepath.Ext(m.file) != ".lua" {
		return ""
	}
	return filepath.Base(m.file) + "=" + filepath.Join(dir, "broken.lua")
}
