package brokerless

import "sync"

// signals wakes several receivers.
type signals struct {
	mu   sync.Mutex
	list []chan struct{}
}

// add returns the channel of a further receiver.
func (s *signals) add() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.list = append(s.list, c)
	return c
}

// send gives each channel a value, unless it has one already. It never blocks.
func (s *signals) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
