package lock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The kinds of calls that a Locker makes.
const (
	take  = "take"
	fence = "fence"
	renew = "renew"
	give  = "give"
)

var errCut = errors.New("connection cut by the test")

// trouble is a fault injected into one call.
type trouble struct {
	until  <-chan struct{} // closed before the response can arrive
	before time.Duration   // until Redis gets the call
	after  time.Duration   // until the response arrives
	cut    bool            // the response is replaced by an error
	refuse bool            // Redis never gets the call; the caller gets an error
}

// call is one recorded call.
type call struct {
	kind string
	key  string
	at   time.Time
}

// wire is a hook between a client and Redis that records calls and injects faults. A call that times out still reaches
// Redis, like one in the buffer of a socket.
type wire struct {
	mu      sync.Mutex
	calls   []call
	trouble func(c call) trouble
	custom  func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error
	late    sync.WaitGroup
}

// inject applies f to every call from now on; nil ends that.
func (w *wire) inject(f func(c call) trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = f
}

// around makes every call through f from now on.
func (w *wire) around(f func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.custom = f
}

// made returns the calls of a kind so far, all calls for "".
func (w *wire) made(kind string) (calls []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if kind == "" || c.kind == kind {
			calls = append(calls, c)
		}
	}
	return calls
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		c := call{at: time.Now()}
		switch {
		case cmd.Name() == "set":
			c.kind, c.key = take, args[1].(string)
		case cmd.Name() == "evalsha" || cmd.Name() == "eval":
			c.key = args[3].(string)
			c.kind = map[int]string{5: give, 6: renew}[len(args)]
			if args[2] == 2 {
				c.kind = fence
			}
		default:
			return next(ctx, cmd)
		}
		w.mu.Lock()
		w.calls = append(w.calls, c)
		f, custom := w.trouble, w.custom
		w.mu.Unlock()
		if custom != nil {
			return custom(ctx, cmd, next)
		}
		if f == nil {
			return next(ctx, cmd)
		}
		return w.hinder(ctx, cmd, next, f(c))
	}
}

// hinder makes the call with a separate command, since the caller reads cmd as soon as its context ends.
func (w *wire) hinder(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook, t trouble) error {
	if t == (trouble{}) {
		return next(ctx, cmd)
	}
	done := make(chan func() error, 1)
	w.late.Go(func() {
		time.Sleep(t.before)
		if t.refuse {
			done <- func() error { return errCut }
			return
		}
		var respond func() error
		detached := context.WithoutCancel(ctx)
		switch cmd := cmd.(type) {
		case *redis.BoolCmd:
			own := redis.NewBoolCmd(detached, cmd.Args()...)
			err := next(detached, own)
			respond = func() error { cmd.SetVal(own.Val()); return err }
		case *redis.Cmd:
			own := redis.NewCmd(detached, cmd.Args()...)
			err := next(detached, own)
			respond = func() error { cmd.SetVal(own.Val()); return err }
		}
		if t.until != nil {
			<-t.until
		}
		time.Sleep(t.after)
		if t.cut {
			respond = func() error { return errCut }
		}
		done <- respond
	})
	select {
	case respond := <-done:
		err := respond()
		cmd.SetErr(err)
		return err
	case <-ctx.Done():
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}
}
