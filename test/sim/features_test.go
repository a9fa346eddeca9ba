package sim

import "net/http"

// entry is the body of a request for a path.
type entry struct {
	RoomTicket    string `json:"room_ticket,omitempty"`
	ChallengePass string `json:"captcha_pass,omitempty"`
}

// enter passes the waiting room and the challenge, if the sale has them. It returns false if the sale ends before.
func (b *caller) enter(act *activity) (e entry, ok bool) {
	room, challenge := b.w.sale.room.happens(), b.w.sale.challenge
	if (room || challenge) && b.r.IntN(4) == 0 {
		a := b.call(http.MethodPost, "http://seckill/v1/activities/"+act.id+"/paths", "", e)
		if a.status == http.StatusCreated {
			b.w.fail("%s has got a path in %s without what it requires", b.id, act.id)
		}
	}
	if room {
		if e.RoomTicket = b.await(act); e.RoomTicket == "" {
			return e, false
		}
	}
	if challenge {
		e.ChallengePass = b.solve(act, e.RoomTicket)
	}
	return e, !challenge || e.ChallengePass != ""
}

// drawFeatures draws what merchant and operator chose for the sale. Each feature has a random source of its own, and
// depends on no fault.
func (s *sale) drawFeatures(seed uint64) {
	if r := rng(seed, "room"); r.IntN(4) == 0 {
		s.addRoom(r)
	}
	s.waits = rng(seed, "waits").IntN(4) == 0
	s.challenge = rng(seed, "challenge").IntN(5) == 0
	s.reviews = rng(seed, "reviews").IntN(5) == 0
	s.pauses = rng(seed, "pauses").IntN(5) == 0
	s.compares = rng(seed, "compares").IntN(4) == 0
	if r := rng(seed, "provider"); r.IntN(4) == 0 {
		s.addProvider(r)
	}
	if r := rng(seed, "webhooks"); r.IntN(4) == 0 {
		s.addWebhooks(r)
	}
}
