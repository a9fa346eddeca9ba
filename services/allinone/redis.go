package allinone

import (
	"context"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flashsale.internal/pkg/lifecycle"
)

// redisComponent expires the keys of the embedded Redis and closes it at the end. miniredis returns the clock's time
// from TIME, but keys expire only when FastForward is called.
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
