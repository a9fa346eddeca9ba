package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var built struct {
	sync.Once
	dir string
	err error
	out []byte
}

// Build builds the three services of the work tree, once for all tests of the process, and returns the folder of their
// programs.
func Build(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		//nolint:usetesting // all tests of the process use it
		if built.dir, built.err = os.MkdirTemp("", "flashsale-e2e-"); built.err != nil {
			return
		}
		built.out, built.err = buildServices(Root(t), built.dir)
	})
	require.NoError(t, built.err, "%s", built.out)
	return built.dir
}

// BuildCommit builds the three services of a commit, and returns the folder of their programs, which ends with the
// test.
func BuildCommit(t testing.TB, commit string) string {
	t.Helper()
	run := func(name string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = Root(t)
		return cmd.CombinedOutput()
	}
	_, err := run("git", "cat-file", "-e", commit+"^{commit}")
	require.NoError(t, err, "this clone does not have commit %s: run `git fetch --unshallow`", commit)
	tree, programs := t.TempDir(), t.TempDir()
	archive := filepath.Join(t.TempDir(), "tree.tar")
	out, err := run("git", "archive", "--format=tar", "--output="+archive, commit)
	require.NoError(t, err, "%s", out)
	out, err = run("tar", "-x", "-f", archive, "-C", tree)
	require.NoError(t, err, "%s", out)
	out, err = buildServices(tree, programs)
	require.NoError(t, err, "build %s:\n%s", commit, out)
	return programs
}

// buildServices builds the three services of a work tree into a folder, and returns what the compiler prints. Without
// the profile of seckill, for which every dependency would be compiled again, it is slower and otherwise the same.
func buildServices(tree, programs string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-pgo=off", "-o", programs+string(filepath.Separator),
		"./services/seckill/cmd/seckill", "./services/order/cmd/order", "./services/inventory/cmd/inventory")
	cmd.Dir = tree
	return cmd.CombinedOutput()
}
