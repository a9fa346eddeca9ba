package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
)

// room is the waiting room of a sale. The zero value is none.
type room struct {
	rate  int64 // places that it admits a second
	early bool  // it opens early enough that the first places are drawn by lot
}

// happens reports whether the sale has a waiting room.
func (r room) happens() bool { return r.rate > 0 }

// addRoom adds a waiting room, through which buyers pass in a part of the sale.
func (s *sale) addRoom(r *rand.Rand) {
	s.room = room{rate: int64(1 + r.IntN(6)), early: r.IntN(3) == 0}
}

// joining is the time within which buyers join early.
const joining = 4 * time.Second

// lead is the time from the creation of an activity to its start.
func (s *sale) lead() time.Duration {
	if s.room.early {
		return stockgate.RoomCloses + joining + 2*time.Second
	}
	return time.Second
}

// queue holds what the checks have read of the waiting room of an activity.
type queue struct {
	admitted int64             // the highest number of admitted places that Redis had
	early    int64             // tickets that take part in the draw; -1 while early joining goes on
	seed     *draw.Hash        // of the draw; nil until Redis has it
	keyHash  string            // which buyers read first
	tickets  map[string]string // user by ticket
	holders  map[int64]string  // user by sequence number
}

// queueOf returns the queue of an activity. The caller holds mu.
func (w *world) queueOf(activityID string) *queue {
	q := w.queues[activityID]
	if q == nil {
		q = &queue{early: -1, tickets: map[string]string{}, holders: map[int64]string{}}
		w.queues[activityID] = q
	}
	return q
}

// place returns the place of a ticket, as docs/room.md defines it; false while it is not known.
func (q *queue) place(sequence int64) (place int64, known bool) {
	switch {
	case q.early < 0, sequence <= q.early && q.seed == nil:
		return 0, false
	case sequence > q.early:
		return sequence, true
	}
	permutation, err := draw.NewPermutation(*q.seed, q.early)
	if err != nil {
		return 0, false
	}
	place, err = permutation.Place(sequence)
	return place, err == nil
}

func sequenceOf(ticket string) int64 {
	text, _, _ := strings.Cut(ticket, ".")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// lostRooms reports whether Redis has lost rooms, or changes of them. Processes restore what they have read. The caller
// holds mu.
func (w *world) lostRooms() bool {
	return w.happened["emptied"] || w.happened["gate deleted"] || w.happened[inFailover]
}

// lateAdmission is the time for which a room may admit at once: a second after a pause, and a fifth of one for each
// controller that takes over.
const lateAdmission = 3 * time.Second

// watchRoom checks a room after each script that changes it: it admits no faster than its rate, and what is published
// stays. It is called between commands.
func (w *world) watchRoom(script string, args []any) {
	if !strings.HasPrefix(script, "script room_") {
		return
	}
	gate, key := fmt.Sprint(args[3]), fmt.Sprint(args[16]) // keys as in prelude.lua and room.lua
	mini := w.mini.Load()
	number := func(key, field string) int64 {
		n, _ := strconv.ParseInt(mini.HGet(key, field), 10, 64)
		return n
	}
	id := strings.TrimSuffix(strings.TrimPrefix(key, "fs:{"), "}:room")
	admitted, starts := number(key, "admitted"), time.UnixMilli(number(gate, "starts"))
	open := time.Since(starts) + lateAdmission
	w.mu.Lock()
	q := w.queueOf(id)
	before, lossy := *q, w.lostRooms()
	q.admitted = max(q.admitted, admitted)
	if mini.HGet(key, "early") != "" {
		q.early = number(key, "early")
	}
	if seed, err := draw.ParseHash(mini.HGet(key, "seed")); err == nil {
		q.seed = &seed
	}
	after := *q
	w.mu.Unlock()
	switch {
	case admitted > before.admitted && float64(admitted) > open.Seconds()*float64(w.sale.room.rate)+1:
		w.fail("the room of %s has admitted %d places %v after the start, at %d a second", id, admitted,
			time.Since(starts), w.sale.room.rate)
	case lossy:
	case admitted < before.admitted, before.early >= 0 && after.early != before.early,
		before.seed != nil && *after.seed != *before.seed:
		w.fail("the room of %s changed from %+v to %+v (%s)", id, before, after, script)
	}
}

// highest returns the highest place that may be admitted now, and whether processes admit by themselves. While Redis is
// unavailable they do so from what they have read, none faster than the others. The caller holds mu.
func (w *world) highest(q *queue) (place int64, alone bool) {
	r := w.sale.redisless
	lost := time.Since(w.selling.Add(r.from))
	if !r.happens() || lost < 0 {
		return q.admitted, false
	}
	pace := min(w.sale.room.rate, int64(r.perSecond))
	alone = lost < r.lasts+15*time.Second // then the sale returns to its gate
	lost = min(lost, r.lasts+15*time.Second) + 2*time.Second
	return q.admitted + int64(float64(pace)*lost.Seconds()) + 1, alone
}

// join returns the ticket of the buyer, "" if there is none.
func (b *caller) join(act *activity) string {
	a := b.insist(http.MethodPost, roomOf(act), "", nil, 12)
	var got struct{ Ticket string }
	if a.status != http.StatusCreated || a.into(&got) != nil {
		return ""
	}
	w := b.w
	w.mu.Lock()
	q := w.queueOf(act.id)
	sequence := sequenceOf(got.Ticket)
	other, user, lossy := q.holders[sequence], q.tickets[got.Ticket], w.lostRooms()
	q.holders[sequence], q.tickets[got.Ticket] = b.id, b.id
	w.mu.Unlock()
	if user != "" && user != b.id || other != "" && other != b.id && !lossy {
		w.fail("ticket %s of %s was given to %s, its number to %s before", got.Ticket, act.id, b.id, other)
	}
	return got.Ticket
}

func roomOf(act *activity) string { return "http://seckill/v1/activities/" + act.id + "/room" }

// joinEarly joins the rooms as soon as they open, as half of the buyers do.
func (b *caller) joinEarly() {
	if !b.w.sale.room.happens() || b.r.IntN(2) == 0 {
		return
	}
	b.sleep(0, joining)
	for _, act := range b.w.activities {
		b.join(act)
	}
}

// ticketState is the state of a ticket as its buyer reads it.
type ticketState struct {
	State        string
	Place, Ahead int64
	Draw         struct {
		KeyHash string `json:"key_sha256"`
	}
}

// await returns an admitted ticket, or any if the buyer is hasty; "" if the activity ends before.
func (b *caller) await(act *activity) string {
	hasty, ticket := b.r.IntN(4) == 0, ""
	for time.Now().Before(act.ends) {
		if ticket == "" {
			if ticket = b.join(act); ticket == "" {
				b.sleep(300*time.Millisecond, 1500*time.Millisecond)
				continue
			}
		}
		if hasty {
			return ticket
		}
		a := b.call(http.MethodGet, roomOf(act)+"?ticket="+url.QueryEscape(ticket), "", nil)
		var got ticketState
		if a.status == http.StatusOK && a.into(&got) == nil {
			b.w.watchTicket(act, ticket, got)
			switch got.State {
			case "admitted":
				return ticket
			case "lapsed":
				ticket = ""
			}
		}
		b.sleep(300*time.Millisecond, 1500*time.Millisecond)
	}
	return ""
}

// watchTicket checks what a buyer reads of a ticket: the place that follows from what Redis has published, and no more
// admitted places than that.
func (w *world) watchTicket(act *activity, ticket string, got ticketState) {
	w.mu.Lock()
	q := w.queueOf(act.id)
	place, known := q.place(sequenceOf(ticket))
	most, _ := w.highest(q)
	lossy, keyHash := w.lostRooms(), q.keyHash
	if keyHash == "" {
		q.keyHash = got.Draw.KeyHash
	}
	paused := w.decided[act.id].state == "paused"
	w.mu.Unlock()
	published := got.Place
	if got.State == "waiting" {
		published = got.Place - got.Ahead - 1
	}
	switch {
	case got.Place == 0: // not drawn yet
	case published > most:
		w.fail("ticket %s of %s is %+v, at most %d places are admitted", ticket, act.id, got, most)
	case !lossy && (!known || got.Place != place || keyHash != "" && got.Draw.KeyHash != keyHash):
		w.fail("ticket %s of %s is %+v, its place is %d by the draw of key %s", ticket, act.id, got, place, keyHash)
	}
	if paused && got.State == "waiting" {
		coverage.end("ticket waits in a paused sale")
	}
}

// watchPath requires that a path was issued for an admitted place only.
func (w *world) watchPath(act *activity, user, ticket string) {
	if !w.sale.room.happens() {
		return
	}
	w.mu.Lock()
	q := w.queueOf(act.id)
	owner := q.tickets[ticket]
	place, known := q.place(sequenceOf(ticket))
	most, alone := w.highest(q)
	admitted, lossy := q.admitted, w.lostRooms() && q.early != 0
	resumed := w.decided[act.id].state == "published"
	w.mu.Unlock()
	if owner != user || !lossy && (!known || place > most) {
		w.fail("%s has got a path in %s by the ticket %q of %s: place %d (%v), at most %d are admitted", user, act.id,
			ticket, owner, place, known, most)
	}
	coverage.end("place used")
	if alone && place > admitted {
		coverage.end("place admitted without Redis")
	}
	if resumed {
		coverage.end("place used after a pause")
	}
}

// checkDraws requires that the draws that were published are right.
func (w *world) checkDraws(f *findings) {
	w.mu.Lock()
	lossy := w.lostRooms()
	w.mu.Unlock()
	if !w.sale.room.early || lossy {
		return
	}
	reader, err := w.newCaller("reader", "checker")
	if err != nil {
		f.add("", "reader: %v", err)
		return
	}
	for _, act := range w.activities {
		a := reader.insist(http.MethodGet, roomOf(act)+"/draw", "", nil, 5)
		p, err := draw.ParsePublished(bytes.NewReader(a.raw))
		if a.status != http.StatusOK || err != nil {
			f.add("", "draw of %s: %d %s (%v)", act.id, a.status, short(a.raw), err)
			continue
		}
		if p.Root == nil || p.Seed == nil || *p.EarlyTickets == 0 {
			continue // no controller has reached Redis in time, or no buyer
		}
		list := reader.insist(http.MethodGet, "http://seckill"+p.TicketsURL, "", nil, 5)
		tickets, err := draw.ParseTickets(bytes.NewReader(list.raw))
		if err == nil {
			_, err = draw.Verify(p, tickets)
		}
		w.mu.Lock()
		keyHash := w.queueOf(act.id).keyHash
		w.mu.Unlock()
		if err != nil || keyHash != "" && keyHash != p.KeySHA256.String() {
			f.add("", "draw of %s by the key %s: %+v: %v", act.id, keyHash, p, err)
			continue
		}
		coverage.end("draw verified")
	}
}
