package allinone

import (
	"context"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flashsale.internal/pkg/lifecycle"
)

// redisComponent ages the keys of the embedded Redis and closes it at the end. miniredis answers TIME by the clock but
// lets keys live for ever unless it is told that time has passed.
func redisComponent(server *miniredis.Miniredis) lifecycle.Component {
	return lifecycle.Component{Name: "embedded redis", Run: func(ctx context.Context) error {
		defer server.Close()
		const step = time.Second
		tick := time.NewTicker(step)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				server.FastForward(step)
			}
		}
	}}
}
