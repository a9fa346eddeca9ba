package installation

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// helm runs Helm in the installation's namespace and returns its output.
func helm(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(ctx, helmPath, append(args, "--namespace", namespace)...)
	require.NoError(t, err)
	return string(out)
}

// change runs a Helm command and waits until the objects of the release are ready.
func change(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	helm(ctx, t, append(args, "--wait", "--wait-for-jobs", "--timeout", "8m")...)
}

// Install installs the chart with these arguments.
func Install(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	change(ctx, t, append([]string{"install", release, chart}, args...)...)
}

// Test runs the tests of the chart.
func Test(ctx context.Context, t *testing.T) {
	t.Helper()
	helm(ctx, t, "test", release, "--timeout", "5m")
}

// Upgrade upgrades the release: its present values, then those of the arguments.
func Upgrade(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	change(ctx, t, append([]string{"upgrade", release, chart, "--reuse-values"}, args...)...)
}

// Rollback rolls the release back to a revision.
func Rollback(ctx context.Context, t *testing.T, revision int) {
	t.Helper()
	change(ctx, t, "rollback", release, strconv.Itoa(revision))
}

// Revision returns the release's present revision.
func Revision(ctx context.Context, t *testing.T) int {
	t.Helper()
	var history []struct{ Revision int }
	require.NoError(t, json.Unmarshal([]byte(helm(ctx, t, "history", release, "--max", "1", "-o", "json")), &history))
	require.Len(t, history, 1)
	return history[0].Revision
}

// Uninstall uninstalls the release and waits until nothing of it is left but Secrets and volume claims. It returns a
// function that installs the release again with the values that it had.
func Uninstall(ctx context.Context, t *testing.T) (install func()) {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(values, []byte(helm(ctx, t, "get", "values", release, "-o", "yaml")), 0o600))
	helm(ctx, t, "uninstall", release, "--wait", "--timeout", "8m")
	left := ""
	// A pod of the edge may take edge.leaveSeconds to end.
	Eventually(t, 6*time.Minute, time.Second, "the end of the release's objects", func() bool {
		now := Kubectl(t, "get", "all,configmaps,secrets,pvc,networkpolicies,serviceaccounts,pdb,hpa",
			"-l", "app.kubernetes.io/instance="+release, "-o", "name")
		if now != left {
			left = now
			t.Logf("left: %s", strings.Join(strings.Fields(left), " "))
		}
		for _, name := range strings.Fields(left) {
			if !strings.HasPrefix(name, "secret/") && !strings.HasPrefix(name, "persistentvolumeclaim/") {
				return false
			}
		}
		return true
	})
	return func() {
		t.Helper()
		Install(ctx, t, "--values", values)
	}
}

// Tag returns the tag of the image that the release sets for seckill.
func Tag(t *testing.T) string {
	t.Helper()
	image := Kubectl(t, "get", "deployment", release+"-seckill",
		"-o", "jsonpath={.spec.template.spec.containers[0].image}")
	return image[strings.LastIndex(image, ":")+1:]
}

// OtherTag returns the tag of the images that the release does not run now, so that an upgrade can replace every pod.
func OtherTag(t *testing.T) string {
	t.Helper()
	if Tag(t) == nextTag {
		return firstTag
	}
	return nextTag
}

// Settings returns the data of the ConfigMap of a component.
func Settings(t *testing.T, component string) string {
	t.Helper()
	return Kubectl(t, "get", "configmap", release+"-"+component, "-o", "jsonpath={.data}")
}
