package gates

import (
	"context"
	"fmt"
	"sync"

	"flashsale.internal/services/inventory/internal/core"
)

// builds runs the builds of gates in this process, one at a time for an activity. A build has a context of its own: the
// callers that wait for it come and go. It is safe for concurrent use.
type builds struct {
	mu      sync.Mutex
	running map[string]*buildRun // by activity
	stopped bool
	done    sync.WaitGroup // the goroutines of running
}

// buildRun is one build.
type buildRun struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at its end
	err    error         // set before done is closed
}

func newBuilds() *builds { return &builds{running: map[string]*buildRun{}} }

// do waits for the build of an activity's gate, and begins it with work if there is none. The end of ctx ends the wait,
// not the build.
func (b *builds) do(ctx context.Context, activityID string, work func(ctx context.Context) error) error {
	run := b.join(ctx, activityID, work)
	if run == nil {
		return fmt.Errorf("%w: this process is ending", core.ErrGateUnavailable)
	}
	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return fmt.Errorf("%w: it is being built: %w", core.ErrGateUnavailable, ctx.Err())
	}
}

// join returns the running build of an activity's gate, and begins it if there is none. It returns nil after stop.
func (b *builds) join(ctx context.Context, activityID string, work func(ctx context.Context) error) *buildRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	if run := b.running[activityID]; run != nil || b.stopped {
		return run
	}
	run := &buildRun{done: make(chan struct{})}
	ctx, run.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.running[activityID] = run
	run.err = core.ErrGateUnavailable // if work ends its goroutine
	b.done.Go(func() {
		defer func() {
			run.cancel()
			b.mu.Lock()
			delete(b.running, activityID)
			b.mu.Unlock()
			close(run.done)
		}()
		run.err = work(ctx)
	})
	return run
}

// stop cancels the builds, waits for their ends, and prevents further ones.
func (b *builds) stop() {
	b.mu.Lock()
	b.stopped = true
	for _, run := range b.running {
		run.cancel()
	}
	b.mu.Unlock()
	b.done.Wait()
}
