// Package lifecycle starts the parts of a process and stops them in the reverse order.
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

// Component is one part of a process. Run blocks until ctx is done and everything it started has ended; the time it
// may take for that is bounded by DrainContext. Returning nil earlier means that its work is done.
type Component struct {
	Name string
	Run  func(ctx context.Context) error
}

type drainKey struct{}

// drain is what components may ask about the end of the process.
type drain struct {
	stopping chan struct{}   // closed when the end begins, before any component is told of it
	until    time.Time       // set before stopping is closed
	over     context.Context // done when the time to drain is over
}

// Stopping is closed as soon as the process begins to end, which is before all but the last component hear of it. It
// is nil, thus never ready, outside of Run.
func Stopping(ctx context.Context) <-chan struct{} {
	if d, ok := ctx.Value(drainKey{}).(*drain); ok {
		return d.stopping
	}
	return nil
}

// DrainContext is for what a component still has to do after its ctx is done: it has ctx's values and ends when the
// time to drain is over. Outside of Run that is 10 s from the call.
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
	default: // the end has not begun, so that nobody knows when it will be over
		out, cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	stop := context.AfterFunc(d.over, cancel)
	return out, func() { stop(); cancel() }
}

type running struct {
	Component
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// Run starts the components in order and waits until ctx is done or one of them fails. Then it tells them to end in
// the reverse order, waiting for each, all within drain. It returns the first unexpected error, nil after an orderly
// end. Whoever has not ended when drain is over is named in the error and left behind.
func Run(ctx context.Context, log *slog.Logger, drainFor time.Duration, comps ...Component) error {
	over, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	d := &drain{stopping: make(chan struct{}), over: over}
	base := context.WithValue(context.WithoutCancel(ctx), drainKey{}, d)

	failed := make(chan *running, len(comps))
	parts := make([]*running, 0, len(comps))
	for _, c := range comps {
		own, cancel := context.WithCancel(base)
		p := &running{Component: c, cancel: cancel, done: make(chan struct{})}
		parts = append(parts, p)
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
		log.ErrorContext(ctx, "stopping because a part failed", "part", p.Name, "error", p.err)
	}
	d.until = time.Now().Add(drainFor)
	close(d.stopping)
	timer := time.AfterFunc(drainFor, giveUp)
	defer timer.Stop()

	var late []string
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		p.cancel()
		select {
		case <-p.done:
		case <-over.Done():
			// A moment for those that end because the time is over.
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
