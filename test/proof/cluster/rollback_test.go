package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/cluster/installation"
)

// The release is upgraded during a sale and then rolled back: images, settings and rules are the earlier ones.
func TestRollbackDuringASale(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	load := installation.NewLoad(t, 500_000)
	settings := func() []string {
		return []string{installation.Settings(t, "seckill"), installation.Settings(t, "edge")}
	}
	revision, tag, before := installation.Revision(ctx, t), installation.Tag(t), settings()
	perUser := installation.PerUser(ctx, t, load.Sale())
	load.During(ctx, installation.Rate(t), func() {
		other := installation.OtherTag(t)
		installation.Upgrade(ctx, t, "--set", "image.tag="+other, "--set", "components.seckill.env.PATH_RATE=1400",
			"--set", "edge.limits.connections=4000", "--set-file", "limits.rules="+installation.Rules(t, 70))
		require.Equal(t, other, installation.Tag(t))
		require.NotEqual(t, before, settings())
		installation.WaitForRules(ctx, t, load.Sale(), 70)

		began := time.Now()
		installation.Rollback(ctx, t, revision)
		t.Logf("rolled back in %s", installation.Seconds(time.Since(began)))
		require.Equal(t, tag, installation.Tag(t))
		require.Equal(t, before, settings())
		installation.WaitForRules(ctx, t, load.Sale(), perUser)
	})
	load.Verify(t)
}
