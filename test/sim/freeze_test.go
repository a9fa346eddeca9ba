package sim

import (
	"context"
	"strconv"
	"time"
)

// freeze is a stop of a process (SIGSTOP) that lasts longer than its leases.
type freeze struct {
	service string
	slot    int
	at      time.Duration // after the start of the sale
	length  time.Duration
}

// runFreeze stops the process and lets it continue later. Its calls and the responses to them wait meanwhile; its
// leases and locks do not.
func (w *world) runFreeze(f freeze) {
	time.Sleep(f.at)
	w.mu.Lock()
	p := w.lives[f.service+"/"+strconv.Itoa(f.slot)]
	w.mu.Unlock()
	if p == nil {
		return // it is starting
	}
	stop := make(chan struct{})
	if !p.frozen.CompareAndSwap(nil, &stop) {
		return
	}
	w.history.note(p.name(), "! is stopped")
	coverage.pass("stopped: " + f.service)
	coverage.add("stopped: "+f.service, happens)
	time.Sleep(f.length)
	p.thaw()
	w.history.note(p.name(), "! continues")
}

// thaw lets a stopped process continue.
func (p *process) thaw() {
	if stop := p.frozen.Swap(nil); stop != nil {
		close(*stop)
	}
}

// transaction marks the context of statements in a transaction. A process is not stopped in one: the single writer of
// SQLite would stop all processes of the service.
type transaction struct{}

// hold waits while the process is stopped.
func (p *process) hold(ctx context.Context) {
	if p == nil || ctx.Value(transaction{}) != nil {
		return
	}
	if stop := p.frozen.Load(); stop != nil {
		<-*stop
	}
}

// receive waits, as a client, until the process runs. It returns false if the client gave up.
func (p *process) receive(ctx context.Context) bool {
	stop := p.frozen.Load()
	if stop == nil {
		return true
	}
	select {
	case <-*stop:
		return true
	case <-ctx.Done():
		return false
	}
}
