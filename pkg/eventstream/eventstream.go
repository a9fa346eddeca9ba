// Package eventstream sends values to browsers as server-sent events. Streams bounds the open streams of a process and
// delivers to each the latest value only; Serve writes the events of one.
package eventstream

import (
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// Bounds are the bounds of the open streams.
type Bounds struct {
	Total, PerUser int
	// TotalReached and PerUserReached are the texts of refusals, with what the user can do instead.
	TotalReached, PerUserReached string
}

// Streams holds the open streams of a process. It is safe for concurrent use.
type Streams[T any] struct {
	mu      sync.Mutex
	all     map[*Stream[T]]struct{}
	byUser  map[string]int
	stopped bool
}

// New returns Streams.
func New[T any]() *Streams[T] {
	return &Streams[T]{all: map[*Stream[T]]struct{}{}, byUser: map[string]int{}}
}

// Stream delivers values to one user.
type Stream[T any] struct {
	streams *Streams[T]
	user    string
	updates chan T        // holds the latest only
	done    chan struct{} // closed when the process stops
}

// Open opens a stream for a user. It refuses with overloaded if a bound is reached, and with unavailable after Stop. The
// caller closes the stream.
func (s *Streams[T]) Open(user string, b Bounds) (*Stream[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return nil, contract.Refuse(contract.CodeUnavailable, "this server is stopping").After(time.Second)
	case s.byUser[user] >= b.PerUser:
		return nil, contract.Refuse(contract.CodeOverloaded, b.PerUserReached).After(5 * time.Second)
	case len(s.all) >= b.Total:
		return nil, contract.Refuse(contract.CodeOverloaded, b.TotalReached).After(5 * time.Second)
	}
	one := &Stream[T]{streams: s, user: user, updates: make(chan T, 1), done: make(chan struct{})}
	s.all[one] = struct{}{}
	s.byUser[user]++
	return one, nil
}

// Len returns the number of open streams.
func (s *Streams[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Stop ends all streams and refuses new ones. It may be called twice.
func (s *Streams[T]) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	for one := range s.all {
		close(one.done)
	}
}

// Updates delivers the values. It skips those that are outdated before the reader takes them.
func (o *Stream[T]) Updates() <-chan T { return o.updates }

// Done is closed when the process stops.
func (o *Stream[T]) Done() <-chan struct{} { return o.done }

// Send replaces the value that the stream delivers next. It does not block.
func (o *Stream[T]) Send(v T) {
	o.streams.mu.Lock()
	defer o.streams.mu.Unlock()
	select {
	case <-o.updates:
	default:
	}
	o.updates <- v // never blocks: all senders hold the lock
}

// Close removes the stream. It may be called twice.
func (o *Stream[T]) Close() {
	s := o.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.all[o]; !open {
		return
	}
	delete(s.all, o)
	if s.byUser[o.user]--; s.byUser[o.user] == 0 {
		delete(s.byUser, o.user)
	}
}
