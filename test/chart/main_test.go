package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

const (
	root  = "../.."
	chart = root + "/deploy/helm/flashsale"
)

// The tools, as paths; TestMain has make build those that are missing.
var helm3, helm4, kubeconform string

func TestMain(m *testing.M) {
	if err := tools(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func tools() error {
	cmd := exec.Command("make", "-s", "-C", root, "chart-tools")
	// Not this test's, which make would take for the jobs of a make above it.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("make chart-tools: %w: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	words := strings.Fields(lines[len(lines)-1])
	if len(words) != 3 {
		return fmt.Errorf("make chart-tools says %q", out)
	}
	for i, tool := range []*string{&helm3, &helm4, &kubeconform} {
		path, err := filepath.Abs(filepath.Join(root, words[i]))
		if err != nil {
			return err
		}
		*tool = path
	}
	return nil
}
