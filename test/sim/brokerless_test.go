package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// brokerless is a time without the broker, in which messages are calls. The zero value is none.
type brokerless struct {
	from, lasts time.Duration // from the start of the sale
	apart       []separation
	dies        bool          // with all messages that it has confirmed
	stalls      time.Duration // before it dies, it delivers no message of a topic
	holds       string        // that topic
}

// separation is a time during which one process cannot reach a service.
type separation struct {
	process, service string
	from, lasts      time.Duration // from the start of the sale
}

// brokerlessAfter is BROKERLESS_AFTER in sales with a time without the broker. In other sales the brokerless transport
// is off.
const brokerlessAfter = time.Second

// loseBroker adds a time without the broker, for up to two minutes, and cuts up to two processes off from a service
// for a part of it.
func (s *sale) loseBroker(r *rand.Rand) {
	s.brokerless = brokerless{
		from: time.Duration(r.IntN(30)) * 100 * time.Millisecond, lasts: time.Duration(20+r.IntN(100)) * time.Second,
	}
	if r.IntN(2) == 0 {
		s.instances = 2
	}
	links := [][2]string{{"seckill", "inventory"}, {"inventory", "order"}, {"order", "inventory"}}
	for range r.IntN(3) {
		link := links[r.IntN(len(links))]
		s.brokerless.apart = append(s.brokerless.apart, separation{
			process: fmt.Sprintf("%s/%d", link[0], r.IntN(s.instances)), service: link[1],
			from:  s.brokerless.from + time.Duration(r.IntN(100))*100*time.Millisecond,
			lasts: time.Duration(10+r.IntN(190)) * 100 * time.Millisecond,
		})
	}
}

// happens reports whether the broker is unavailable at some time.
func (b brokerless) happens() bool { return b.lasts > 0 }

// runBrokerless makes the broker unavailable for a time.
func (w *world) runBrokerless() {
	b := w.sale.brokerless
	time.Sleep(b.from)
	if b.dies {
		w.stallBroker()
	}
	died := time.Now()
	w.noBroker.Store(true)
	if b.dies {
		w.killBroker()
	}
	w.history.note("broker", "! is unavailable")
	coverage.pass("broker: unavailable")
	coverage.add("broker: unavailable", happens)
	if b.dies {
		w.checkBrokersDeath(died)
	}
	time.Sleep(time.Until(died.Add(b.lasts)))
	w.noBroker.Store(false)
	w.history.note("broker", "! is available")
}

// separated reports whether the process cannot reach the service now.
func (w *world) separated(p *process, service string) bool {
	var apart []separation
	switch {
	case p == nil, !w.begun.Load():
		return false
	case w.noBroker.Load():
		apart = w.sale.brokerless.apart
	case w.sale.redisless.happens():
		apart = w.sale.redisless.apart
	}
	now := time.Since(w.selling)
	for _, a := range apart {
		if a.process == p.name() && a.service == service && now >= a.from && now < a.from+a.lasts {
			coverage.pass("http: a process is cut off from a service")
			coverage.add("http: a process is cut off from a service", happens)
			return true
		}
	}
	return false
}

// handledByCall checks a message that a service has handled by a call, as acknowledged does for one of the broker.
func (w *world) handledByCall(from, to, topic string, body []byte, closed *outcomes) {
	w.acknowledged(to, topic, body, closed)
	switch {
	case topic == contract.TopicReservations:
		w.noteCarried(body)
	case topic == contract.TopicOrderEvents && from == "order":
		w.noteEvents(body)
	}
}

// brokerlessTopic returns the topic of a brokerless message.
func brokerlessTopic(path string) (topic string, is bool) {
	return strings.CutPrefix(path, contract.MessagesPath)
}
