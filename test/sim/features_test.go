package sim

import "net/http"

// entry is the body of a request for a path.
type entry struct {
	RoomTicket string `json:"room_ticket,omitempty"`
}

// enter passes the waiting room, if the sale has one. It returns false if the sale ends before.
func (b *caller) enter(act *activity) (e entry, ok bool) {
	room := b.w.sale.room.happens()
	if room && b.r.IntN(4) == 0 {
		a := b.call(http.MethodPost, "http://seckill/v1/activities/"+act.id+"/paths", "", e)
		if a.status == http.StatusCreated {
			b.w.fail("%s has got a path in %s without what it requires", b.id, act.id)
		}
	}
	if room {
		e.RoomTicket = b.await(act)
	}
	return e, !room || e.RoomTicket != ""
}

// drawFeatures draws what merchant and operator chose for the sale. Each feature has a random source of its own, and
// depends on no fault.
func (s *sale) drawFeatures(seed uint64) {
	if r := rng(seed, "room"); r.IntN(4) == 0 {
		s.addRoom(r)
	}
	s.waits = rng(seed, "waits").IntN(4) == 0
	s.reviews = rng(seed, "reviews").IntN(5) == 0
	s.pauses = rng(seed, "pauses").IntN(5) == 0
}
