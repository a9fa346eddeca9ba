package fairness

import (
	"container/heap"
	"time"
)

// event is something that happens at a time since the start of the sale. Events at the same time happen in the order in
// which they were scheduled, so a run depends on its seed only.
type event struct {
	at     time.Duration
	number int
	do     func()
}

type queue struct {
	now    time.Duration
	number int
	events events
}

func (q *queue) at(t time.Duration, do func()) {
	q.number++
	heap.Push(&q.events, event{max(t, q.now), q.number, do})
}

func (q *queue) after(d time.Duration, do func()) { q.at(q.now+d, do) }

// run runs the events until the horizon.
func (q *queue) run(horizon time.Duration) {
	for len(q.events) > 0 && q.events[0].at <= horizon {
		e := heap.Pop(&q.events).(event)
		q.now = e.at
		e.do()
	}
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}
