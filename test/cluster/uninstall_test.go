package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
)

// An uninstall leaves the data, and nothing else; an install finds it again. The last of the tests, by its name.
func TestUninstallLeavesTheData(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	s := &shoppers{sale: openSale(t, signer(t, client.Options{Attempts: 60}), 100)}
	for n := range 20 {
		s.shop(ctx, n)
	}
	s.books(t)
	require.NoError(t, helm(ctx, "uninstall", release, "--wait", "--timeout", "8m"))
	// A pod of the edge takes its time (edge.leaveSeconds).
	eventually(t, 6*time.Minute, time.Second, "what the release leaves", func() bool {
		left := strings.Fields(kubectl(t, "get", "all,configmaps,secrets,pvc,networkpolicies,serviceaccounts,pdb,hpa",
			"-l", "app.kubernetes.io/instance="+release, "-o", "name"))
		for _, name := range left {
			kept := strings.HasPrefix(name, "secret/") || strings.HasPrefix(name, "persistentvolumeclaim/")
			if !kept {
				return false
			}
		}
		return true
	})
	require.NoError(t, helm(ctx, "install", release, chart, "--values", values, "--set", "image.tag="+nextTag, "--wait", "--wait-for-jobs", "--timeout", "8m"))
	s.books(t)
}
