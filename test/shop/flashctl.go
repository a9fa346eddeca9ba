package shop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/test/rig"
)

// Flashctl runs the program flashctl as an operator does.
type Flashctl struct {
	binary string
	env    []string
}

// NewFlashctl builds flashctl for the system of r.
func NewFlashctl(t *testing.T, r *rig.Rig) Flashctl {
	t.Helper()
	f := Flashctl{binary: filepath.Join(t.TempDir(), "flashctl")}
	build := exec.Command("go", "build", "-o", f.binary, "./flashctl/cmd/flashctl")
	build.Dir = rig.Root(t)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	origins := r.Client.Origins()
	f.env = append(os.Environ(), "SECKILL_URL="+origins.Seckill, "ORDER_URL="+origins.Order,
		"INVENTORY_URL="+origins.Inventory, "BASE_URL=")
	return f
}

// Run runs one command and returns its output.
func (f Flashctl) Run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, f.binary, args...)
	cmd.Env = f.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("flashctl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return out, err
}

// LoadPaths calls the path route of a sale as `flashctl load paths` does with these flags.
func (f Flashctl) LoadPaths(ctx context.Context, activityID string, args ...string) (report load.Report, err error) {
	out, err := f.Run(ctx, append([]string{"load", "paths", "--json", "--activity", activityID}, args...)...)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(out, &report)
}
