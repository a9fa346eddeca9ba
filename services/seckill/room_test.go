package seckill_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
)

// roomSale is a sale with a waiting room, whose start a test moves.
type roomSale struct {
	*rig
	id  string
	cfg stockgate.Config
}

func newRoomSale(r *rig, startsIn time.Duration, rate int64) *roomSale {
	s := &roomSale{rig: r}
	s.id = r.sale(100_000, func(c *stockgate.Config) {
		c.StartsAt, c.EndsAt, c.RoomRate = r.now().Add(startsIn), r.now().Add(startsIn+time.Hour), rate
		s.cfg = *c
	})
	return s
}

// startsIn moves the start and waits until the service uses it.
func (s *roomSale) startsIn(d time.Duration) {
	s.Helper()
	s.cfg.StartsAt = s.now().Add(d).Truncate(time.Millisecond)
	s.cfg.Version++
	require.NoError(s, s.gate.Configure(s.Context(), s.id, s.cfg))
	require.Eventually(s, func() bool {
		shown, err := time.Parse(time.RFC3339Nano, s.call("GET", s.at(""), "", nil).str("starts_at"))
		return err == nil && shown.Equal(s.cfg.StartsAt)
	}, 30*time.Second, 50*time.Millisecond)
}

func (s *roomSale) at(path string) string { return "/v1/activities/" + s.id + path }

func (s *roomSale) join(user string) string {
	s.Helper()
	return s.call("POST", s.at("/room"), s.token(user), nil).is(s, http.StatusCreated, "").str("ticket")
}

func (s *roomSale) ticket(user, ticket string) response {
	s.Helper()
	return s.call("GET", s.at("/room?ticket="+ticket), s.token(user), nil).is(s, http.StatusOK, "")
}

func (s *roomSale) press(user, ticket string) response {
	s.Helper()
	return s.call("POST", s.at("/paths"), s.token(user), map[string]any{"room_ticket": ticket})
}

// published returns the draw and its tickets once done holds.
func (s *roomSale) published(done func(draw.Published) bool) (p draw.Published, tickets []draw.Hash) {
	s.Helper()
	require.Eventually(s, func() bool {
		a := s.call("GET", s.at("/room/draw"), "", nil).is(s, http.StatusOK, "")
		var err error
		p, err = draw.ParsePublished(strings.NewReader(a.raw))
		require.NoError(s, err)
		return done(p)
	}, 30*time.Second, 50*time.Millisecond)
	a := s.call("GET", p.TicketsURL, "", nil).is(s, http.StatusOK, "")
	tickets, err := draw.ParseTickets(bytes.NewReader([]byte(a.raw)))
	require.NoError(s, err)
	return p, tickets
}

func TestWaitingRoomBeforeItOpens(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := newRoomSale(r, 20*time.Minute, 100)
	for _, call := range []response{
		r.call("POST", s.at("/room"), r.token("ann"), nil), r.call("GET", s.at("/room?ticket=x"), r.token("ann"), nil),
		r.call("GET", s.at("/room/draw"), "", nil), r.call("GET", s.at("/room/tickets"), "", nil),
	} {
		call.is(t, http.StatusConflict, contract.CodeActivityNotStarted)
		starts, err := time.Parse(time.RFC3339Nano, call.str("starts_at"))
		require.NoError(t, err)
		opens, err := time.Parse(time.RFC3339Nano, call.str("opens_at"))
		require.NoError(t, err)
		require.Equal(t, 10*time.Minute, starts.Sub(opens))
	}
	shown := r.call("GET", s.at(""), "", nil)
	require.Equal(t, true, shown.body["waiting_room"])
	require.NotEmpty(t, shown.body["room_opens_at"])
	r.call("POST", s.at("/room"), "", nil).is(t, http.StatusUnauthorized, contract.CodeUnauthenticated)

	plain := r.sale(10)
	shown = r.call("GET", "/v1/activities/"+plain, "", nil)
	require.Equal(t, false, shown.body["waiting_room"])
	require.NotContains(t, shown.body, "room_opens_at")
	r.call("POST", "/v1/activities/"+plain+"/room", r.token("ann"), nil).is(t, http.StatusNotFound, contract.CodeNotFound)
	r.path("ann", plain)
}

// A waiting room from the first ticket to the last purchase: every place is the one of the published draw, and every
// ticket is admitted once.
func TestWaitingRoom(t *testing.T) {
	each(t, func(t *testing.T, real bool) {
		const early, late, rate = 240, 60, 200
		r := newRig(t, setup{real: real, cfg: func(c *config) { c.PathRate = 100_000 }})
		s := newRoomSale(r, 5*time.Minute, rate)
		tickets := make([]string, early+late)
		concurrently := func(from, to int, do func(i int)) {
			var wg sync.WaitGroup
			for worker := range 8 {
				wg.Go(func() {
					for i := from + worker; i < to; i += 8 {
						do(i)
					}
				})
			}
			wg.Wait()
		}
		join := func(from, to int) {
			concurrently(from, to, func(i int) { tickets[i] = s.join(fmt.Sprint("u", i)) })
		}
		join(0, early)
		require.Equal(t, tickets[7], s.join("u7"))
		state := s.ticket("u7", tickets[7])
		require.Equal(t, "early", state.body["state"])
		require.NotContains(t, state.body, "place")
		require.NotEmpty(t, state.Header.Get("Retry-After"))
		s.press("u7", tickets[7]).is(t, http.StatusConflict, contract.CodeActivityNotStarted)

		s.startsIn(50 * time.Second)
		p, published := s.published(func(p draw.Published) bool { return p.Root != nil })
		require.EqualValues(t, early, *p.EarlyTickets)
		require.Nil(t, p.Key)
		join(early, early+late)

		s.startsIn(-time.Second)
		complete, again := s.published(func(p draw.Published) bool { return p.Key != nil })
		require.Equal(t, published, again)
		require.Equal(t, p.KeySHA256, complete.KeySHA256)
		places, err := draw.Verify(complete, published)
		require.NoError(t, err)

		s.press("u0", "").is(t, http.StatusForbidden, contract.CodeRoomRequired)
		s.press("u0", tickets[1]).is(t, http.StatusForbidden, contract.CodeRoomRequired)
		// Everyone polls until admitted and then gets a path, within the minute that a turn lasts. The places are all
		// different, and as published.
		var mu sync.Mutex
		taken := make([]bool, early+late+1)
		highest := 0
		concurrently(0, early+late, func(i int) {
			user, ticket := fmt.Sprint("u", i), tickets[i]
			var state response
			require.Eventually(t, func() bool {
				state = s.ticket(user, ticket)
				if state.body["state"] == "waiting" {
					require.NotEmpty(t, state.Header.Get("Retry-After"))
					require.Contains(t, state.body, "ahead")
				}
				return state.body["state"] == "admitted"
			}, time.Minute, 20*time.Millisecond)
			place := int(state.body["place"].(float64))
			mu.Lock()
			twice := taken[place]
			taken[place] = true
			highest = max(highest, place)
			mu.Unlock()
			require.False(t, twice, "place %d is given twice", place)
			if proof, ok := state.body["proof"].(map[string]any); ok {
				require.EqualValues(t, places[int(proof["sequence"].(float64))-1], place)
			} else {
				require.Greater(t, place, early)
			}
			s.press(user, ticket).is(t, http.StatusCreated, "")
		})
		require.Equal(t, early+late, highest)
	})
}

// Only buyers with an admitted ticket get a path. One whose ticket lapsed joins again.
func TestRoomRefusesOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := newRoomSale(r, -time.Minute, 1)
	first := s.join("ann")
	require.Eventually(t, func() bool { return s.press("ann", first).StatusCode == http.StatusCreated },
		30*time.Second, 20*time.Millisecond)
	for i := range 20 { // a queue of twenty seconds
		s.join(fmt.Sprint("u", i))
	}
	last := s.join("last")
	refused := s.press("last", last).is(t, http.StatusTooManyRequests, contract.CodeRoomWaiting)
	require.Greater(t, refused.body["ahead"], 5.0)
	require.Greater(t, refused.body["estimate_s"], 5.0)

	// Time passes without a call of the controller, as while Redis is unreachable: no place lapses. Then time in which
	// places can be used.
	r.mini.SetTime(r.now().Add(61 * time.Second))
	second := s.join("u0")
	require.Eventually(t, func() bool { return s.ticket("u0", second).body["state"] == "admitted" },
		30*time.Second, 50*time.Millisecond, "the controller has called since")
	require.Equal(t, "admitted", s.ticket("ann", first).body["state"])
	_, err := r.mini.HIncrBy("fs:{"+s.id+"}:room", "usable", 61_000)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.ticket("ann", first).body["state"] == "lapsed" },
		30*time.Second, 50*time.Millisecond)
	s.press("ann", first).is(t, http.StatusForbidden, contract.CodeRoomRequired)
	require.NotEqual(t, first, s.join("ann"))
}
