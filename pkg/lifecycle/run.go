// Package lifecycle starts the components of a process and stops them in the reverse order.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
)

// Component is a background job or listener of a process. Run blocks until ctx is done and everything that it started
// has ended; DrainContext bounds the time for that. Run returns nil earlier if its work is complete.
type Component struct {
	Name string
	Run  func(ctx context.Context) error
}

type drainKey struct{}

// drain is the state of the shutdown, shared by all components.
type drain struct {
	stopping chan struct{}   // closed when the shutdown begins, before any component's ctx is cancelled
	until    time.Time       // deadline of the shutdown; set before stopping is closed
	expired  context.Context // done at the deadline
}

// Stopping returns a channel that is closed when the shutdown begins, before the ctx of any component is cancelled.
// Outside of Run it is nil, thus never ready.
func Stopping(ctx context.Context) <-chan struct{} {
	if d, ok := ctx.Value(drainKey{}).(*drain); ok {
		return d.stopping
	}
	return nil
}

// DrainContext returns a context for the work that a component has to do after its ctx is done. It has the values of
// ctx and ends at the deadline of the shutdown; outside of Run, 10 s after the call.
func DrainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	d, ok := ctx.Value(drainKey{}).(*drain)
	if !ok {
		return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	}
	var out context.Context
	var cancel context.CancelFunc
	select {
	case <-d.stopping:
		out, cancel = context.WithDeadline(context.WithoutCancel(ctx), d.until)
	default: // the shutdown has not begun, so its deadline is unknown
		out, cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	stop := context.AfterFunc(d.expired, cancel)
	return out, func() { stop(); cancel() }
}

type running struct {
	Component
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// Run starts the components in order and waits until ctx is done or one of them fails. Then it cancels them in the
// reverse order and waits for each, all within drainFor. It returns the first unexpected error, nil after an orderly
// end. The error names the components that have not ended by then; Run does not wait for them any longer.
func Run(ctx context.Context, log *slog.Logger, drainFor time.Duration, comps ...Component) error {
	expired, expire := context.WithCancel(context.WithoutCancel(ctx))
	defer expire()
	d := &drain{stopping: make(chan struct{}), expired: expired}
	base := context.WithValue(context.WithoutCancel(ctx), drainKey{}, d)

	failed := make(chan *running, len(comps))
	started := make([]*running, 0, len(comps))
	for _, c := range comps {
		own, cancel := context.WithCancel(base)
		p := &running{Component: c, cancel: cancel, done: make(chan struct{})}
		started = append(started, p)
		go func() {
			defer close(p.done)
			p.err = call(own, c)
			if p.err != nil && own.Err() == nil {
				failed <- p
			}
		}()
	}

	var first error
	select {
	case <-ctx.Done():
		log.InfoContext(ctx, "stopping", "drain", drainFor.String())
	case p := <-failed:
		first = fmt.Errorf("%s: %w", p.Name, p.err)
		log.ErrorContext(ctx, "stopping because a component failed", "component", p.Name, "error", p.err)
	}
	d.until = time.Now().Add(drainFor)
	close(d.stopping)
	timer := time.AfterFunc(drainFor, expire)
	defer timer.Stop()

	var late []string
	for i := len(started) - 1; i >= 0; i-- {
		p := started[i]
		p.cancel()
		select {
		case <-p.done:
		case <-expired.Done():
			// A moment for components that end because of the deadline.
			select {
			case <-p.done:
			case <-time.After(100 * time.Millisecond):
				late = append(late, p.Name)
				continue
			}
		}
		if p.err != nil && !errors.Is(p.err, context.Canceled) && first == nil {
			first = fmt.Errorf("%s: %w", p.Name, p.err)
		}
	}
	if len(late) > 0 {
		err := fmt.Errorf("not ended within %s: %s", drainFor, strings.Join(late, ", "))
		return errors.Join(first, err)
	}
	return first
}

// call runs the component and turns a panic into an error.
func call(ctx context.Context, c Component) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return c.Run(ctx)
}
