package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

// rooms is a fake of Store with one room, which a test changes.
type rooms struct {
	mu          sync.Mutex
	room        Room
	err         error
	tickets     map[string]Number
	commitments []draw.Hash
	unreadable  error // of Commitments
	reads       int
	known       Room // of the last call of Room
}

func (r *rooms) Join(_ context.Context, _ string, j Join) (Number, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return Number{}, r.err
	}
	n, ok := r.tickets[j.UserID]
	if !ok || n.Sequence == j.Replace {
		r.room.Sequence++
		n = Number{r.room.Sequence, j.Nonce}
		r.tickets[j.UserID] = n
		if !r.room.Closed {
			r.commitments = append(r.commitments, j.Commitment)
		}
	}
	return n, nil
}

func (r *rooms) Room(_ context.Context, _ string, known Room) (Room, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	r.known = known
	if r.room.Key == (draw.Hash{}) {
		r.room.Key = known.Key
	}
	return r.room, r.err
}

func (r *rooms) Commitments(_ context.Context, _ string, n int64) ([]draw.Hash, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.commitments[:n], errors.Join(r.err, r.unreadable)
}

func (r *rooms) StoreDraw(context.Context, string, draw.Hash, *draw.Hash, draw.Beacon, int64) (Room, error) {
	return Room{}, errors.New("the controller stores the draw")
}

func (r *rooms) Admit(context.Context, string, int64, int64, int64) (Room, error) {
	return Room{}, errors.New("the controller admits")
}

// change changes the room.
func (r *rooms) change(f func(room *Room)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.room)
}

// close closes early joining and stores the draw.
func (r *rooms) close(t *testing.T) {
	t.Helper()
	tree, err := draw.NewTree(r.commitments)
	require.NoError(t, err)
	root, err := tree.Root()
	require.NoError(t, err)
	r.change(func(room *Room) {
		seed := draw.Seed(room.Key, root, nil)
		room.Closed, room.Early, room.Root, room.Seed = true, tree.Count(), &root, &seed
	})
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sale is a fake of core.Catalogue with the sale of the room.
type sale struct {
	core.Catalogue
	rooms *rooms
	mu    sync.Mutex
	state core.GateState
	now   time.Time
	pace  int64 // places a second without Redis
}

func (w *sale) paceOf(string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pace
}

// noPace admits no place without Redis.
func noPace(string) int64 { return 0 }

func (w *sale) Sale(context.Context, string) (core.Sale, error) {
	return core.Sale{ActivityID: "7"}, nil
}

func (w *sale) GateStates(context.Context, []string) (map[string]core.GateState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]core.GateState{"7": w.state}, nil
}

func (w *sale) Now(context.Context) (time.Time, error) { return w.clock(), nil }

func (w *sale) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *sale) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// advance moves the clock.
func (w *sale) advance(d time.Duration) { w.change(func() { w.now = w.now.Add(d) }) }

// newSale returns a sale with a waiting room that starts in five minutes.
func newSale(t *testing.T) (*sale, *Tickets) {
	t.Helper()
	w := &sale{rooms: &rooms{tickets: map[string]Number{}}, now: noon, state: core.GateState{
		State: core.StateOpen, StartsAt: noon.Add(5 * time.Minute), EndsAt: noon.Add(time.Hour), RoomRate: 100,
		Left: map[string]int64{"1": 1},
	}}
	w.rooms.room = Room{Now: noon, StartsAt: w.state.StartsAt, EndsAt: w.state.EndsAt, State: core.StateOpen, Rate: 100}
	seal, err := core.NewSeal("new", "old")
	require.NoError(t, err)
	cache, err := NewCache(w.rooms, w.paceOf, telemetry.Discard(t), w.clock)
	require.NoError(t, err)
	return w, NewTickets(w.rooms, cache, core.NewSaleCache(w, w.clock), seal)
}

func refused(t *testing.T, err error, code contract.Code) {
	t.Helper()
	var r *contract.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, code, r.Code, r.Error())
}

func mustJoin(t *testing.T, s *Tickets, user string) string {
	t.Helper()
	ticket, err := s.Join(t.Context(), user, "7")
	require.NoError(t, err)
	return ticket
}

func mustTicket(t *testing.T, s *Tickets, user, ticket string) Ticket {
	t.Helper()
	v, err := s.Ticket(t.Context(), user, "7", ticket)
	require.NoError(t, err)
	return v
}

func TestRoomOpensBeforeTheStart(t *testing.T) {
	w, s := newSale(t)
	w.change(func() { w.state.StartsAt = noon.Add(10*time.Minute + time.Minute) })
	for _, call := range []func() error{
		func() error { _, err := s.Join(t.Context(), "ann", "7"); return err },
		func() error { _, err := s.Ticket(t.Context(), "ann", "7", "x"); return err },
		func() error { _, err := s.Draw(t.Context(), "7"); return err },
	} {
		err := call()
		refused(t, err, contract.CodeActivityNotStarted)
		members := map[string]any{}
		for _, m := range contract.RefusalOf(err).Members {
			members[m.Name] = m.Value
		}
		require.Equal(t, map[string]any{
			"starts_at": noon.Add(10*time.Minute + time.Minute), "opens_at": noon.Add(time.Minute),
		}, members)
	}
	require.Zero(t, w.rooms.reads)

	w.change(func() { w.state.RoomRate = 0 })
	w.advance(2 * time.Second)
	_, err := s.Join(t.Context(), "ann", "7")
	refused(t, err, contract.CodeNotFound)
	require.NoError(t, s.Check(t.Context(), "ann", "7", ""), "without a room no buyer needs a ticket")
}

func TestTicketsOfARoom(t *testing.T) {
	w, s := newSale(t)
	tickets := map[string]string{}
	for i := range 20 {
		user := fmt.Sprint("u", i)
		tickets[user] = mustJoin(t, s, user)
	}
	require.Equal(t, tickets["u3"], mustJoin(t, s, "u3"), "joining again returns the same ticket")

	v := mustTicket(t, s, "u3", tickets["u3"])
	require.Equal(t, Early, v.State)
	require.Nil(t, v.Proof)
	require.Nil(t, v.Draw.Root)
	require.Equal(t, draw.KeyHash(w.rooms.room.Key), v.Draw.KeySHA256)
	refused(t, s.Check(t.Context(), "u3", "7", tickets["u3"]), contract.CodeRoomWaiting)

	w.rooms.close(t)
	w.advance(4*time.Minute + 30*time.Second)
	late := mustJoin(t, s, "late")
	v = mustTicket(t, s, "late", late)
	require.Equal(t, Waiting, v.State)
	require.EqualValues(t, 21, v.Place)
	require.EqualValues(t, 20, v.Ahead)
	require.Greater(t, v.Estimate, 30*time.Second, "the time until the start is part of it")
	require.Nil(t, v.Proof)
	v = mustTicket(t, s, "u3", tickets["u3"])
	require.Equal(t, Early, v.State, "its place is published at the start")
	require.NotNil(t, v.Proof)
	require.NoError(t, draw.CheckProof(*v.Draw.Root, *v.Draw.EarlyTickets, v.Proof.Sequence, v.Proof.Commitment, v.Proof.Path))
	require.Nil(t, v.Draw.Key, "the key is published at the start")

	w.advance(31 * time.Second)
	w.rooms.change(func(r *Room) { r.Admitted = 5 })
	published, err := s.Draw(t.Context(), "7")
	require.NoError(t, err)
	commitments, err := s.Commitments(t.Context(), "7")
	require.NoError(t, err)
	places, err := draw.Verify(published, commitments)
	require.NoError(t, err)
	admitted := 0
	for user, ticket := range tickets {
		v := mustTicket(t, s, user, ticket)
		require.Equal(t, places[v.Proof.Sequence-1], v.Place)
		err := s.Check(t.Context(), user, "7", ticket)
		if v.Place <= 5 {
			require.Equal(t, Admitted, v.State)
			require.NoError(t, err)
			admitted++
			continue
		}
		require.Equal(t, Waiting, v.State)
		require.Equal(t, v.Place-6, v.Ahead)
		refused(t, err, contract.CodeRoomWaiting)
	}
	require.Equal(t, 5, admitted)

	// Places that were admitted a minute ago lapse. Joining again gives a place at the end.
	w.rooms.change(func(r *Room) {
		r.Admitted, r.Lapsed, r.Now, r.EndsAt = 20, 5, noon, noon.Add(45*time.Second)
		r.Admissions = []stockgate.RoomAdmission{{Last: 20, Left: 50 * time.Second}, {Last: 5}, {Last: 12, Left: 20 * time.Second}}
	})
	w.advance(2 * time.Second)
	for user, ticket := range tickets {
		v := mustTicket(t, s, user, ticket)
		err := s.Check(t.Context(), user, "7", ticket)
		if v.Place > 5 {
			require.NoError(t, err)
			require.Equal(t, ticket, mustJoin(t, s, user))
			require.Equal(t, map[bool]time.Duration{true: 20 * time.Second, false: 45 * time.Second}[v.Place <= 12], v.Until.Sub(noon))
			continue
		}
		require.Equal(t, Lapsed, v.State)
		require.Zero(t, v.Until)
		refused(t, err, contract.CodeRoomRequired)
		again := mustJoin(t, s, user)
		require.NotEqual(t, ticket, again)
		require.Equal(t, again, mustJoin(t, s, user))
		require.Equal(t, Waiting, mustTicket(t, s, user, again).State)
	}
}

// A ticket that Redis lost before the draw keeps its place. While tickets cannot be read, or after they were lost, a ticket
// keeps its state without a proof. Those of another root are no proof.
func TestLostTickets(t *testing.T) {
	w, s := newSale(t)
	tickets := map[string]string{}
	for i := range 5 {
		user := fmt.Sprint("u", i)
		tickets[user] = mustJoin(t, s, user)
	}
	w.rooms.commitments[2] = draw.Lost
	w.rooms.close(t)
	w.rooms.change(func(r *Room) { r.Admitted = 5 })
	w.advance(6 * time.Minute)
	w.rooms.unreadable = core.ErrUnavailable
	for user, ticket := range tickets {
		v := mustTicket(t, s, user, ticket)
		require.Equal(t, Admitted, v.State)
		require.Positive(t, v.Place)
		require.Nil(t, v.Proof)
		require.NoError(t, s.Check(t.Context(), user, "7", ticket))
	}
	_, err := s.Commitments(t.Context(), "7")
	refused(t, err, contract.CodeGateUnavailable)

	w.rooms.unreadable = nil
	require.Nil(t, mustTicket(t, s, "u2", tickets["u2"]).Proof, "read again after a pause")
	w.advance(drawInterval)
	for user, lost := range map[string]bool{"u1": false, "u2": true} {
		v := mustTicket(t, s, user, tickets[user])
		require.Equal(t, lost, v.Proof.Commitment == draw.Lost)
		require.NoError(t, draw.CheckProof(*v.Draw.Root, 5, v.Proof.Sequence, v.Proof.Commitment, v.Proof.Path))
	}

	// Another root is published, and then its tickets are lost: they are not read again and again.
	other := draw.NewHash()
	w.rooms.change(func(r *Room) { r.Root = &other })
	w.advance(2 * maxAge)
	for range 3 {
		require.Nil(t, mustTicket(t, s, "u1", tickets["u1"]).Proof)
		w.advance(2 * drawInterval)
	}
	w.rooms.unreadable = errors.New("read again")
	_, err = s.Commitments(t.Context(), "7")
	refused(t, err, contract.CodeGateUnavailable)
}

func TestForeignTicketsAreRefused(t *testing.T) {
	_, s := newSale(t)
	ticket := mustJoin(t, s, "ann")
	for _, try := range map[string][2]string{
		"none": {"ann", ""}, "of another user": {"bob", ticket}, "cut": {"ann", ticket[:len(ticket)-1]},
		"longer": {"ann", ticket + "A"}, "another number": {"ann", "2" + strings.TrimPrefix(ticket, "1")},
		"leading zero": {"ann", "0" + ticket}, "line feed": {"ann", ticket + "\n"}, "rubbish": {"ann", "a.b.c"},
	} {
		refused(t, s.Check(t.Context(), try[0], "7", try[1]), contract.CodeRoomRequired)
		if try[1] != "" {
			_, err := s.Ticket(t.Context(), try[0], "7", try[1])
			refused(t, err, contract.CodeRoomRequired)
		}
	}
	elsewhere := seal(s.seal, "8", "ann", Number{Sequence: 1})
	refused(t, s.Check(t.Context(), "ann", "7", elsewhere), contract.CodeRoomRequired)
}

// While Redis is unreachable, the counter does not move and tickets stay valid.
func TestRoomWithoutRedis(t *testing.T) {
	w, s := newSale(t)
	w.change(func() { w.state.StartsAt = noon.Add(-time.Minute) })
	w.rooms.change(func(r *Room) { r.StartsAt, r.Closed, r.Admitted = noon.Add(-time.Minute), true, 1 })
	ann, bob := mustJoin(t, s, "ann"), mustJoin(t, s, "bob")
	require.NoError(t, s.Check(t.Context(), "ann", "7", ann))
	w.rooms.mu.Lock()
	w.rooms.err = core.ErrUnavailable
	reads := w.rooms.reads
	w.rooms.mu.Unlock()
	w.advance(2 * time.Second)
	for range 5 {
		require.NoError(t, s.Check(t.Context(), "ann", "7", ann))
		refused(t, s.Check(t.Context(), "bob", "7", bob), contract.CodeRoomWaiting)
	}
	require.Equal(t, reads+1, w.rooms.reads, "an unreachable Redis is not called for every request")
	_, err := s.Join(t.Context(), "cid", "7")
	refused(t, err, contract.CodeGateUnavailable)

	// A later read brings what this process has read before, so that a lost counter continues above it.
	require.EqualValues(t, 1, w.rooms.known.Admitted)
}

// The proof of a ticket does not depend on who else reads the draw: once it was read, none waits for another.
func TestAKnownDrawIsReadByManyAtOnce(t *testing.T) {
	w, s := newSale(t)
	ticket := mustJoin(t, s, "ann")
	w.advance(5*time.Minute + time.Second)
	w.rooms.close(t)
	require.NotNil(t, mustTicket(t, s, "ann", ticket).Proof)
	_, slot, err := s.cache.get(t.Context(), "7")
	require.NoError(t, err)
	require.NoError(t, slot.drawing.take(t.Context()))
	defer slot.drawing.end()
	require.NotNil(t, mustTicket(t, s, "ann", ticket).Proof)
}

// In a sale that goes on without Redis the next places are admitted in the order of the draw, each process computes the same
// ones, and Redis continues with them. No buyer joins meanwhile, and no place lapses.
func TestPlacesAreAdmittedWithoutRedis(t *testing.T) {
	w, s := newSale(t)
	tickets := map[string]string{}
	for i := range 20 {
		user := fmt.Sprint("u", i)
		tickets[user] = mustJoin(t, s, user)
	}
	var until time.Time // of an admitted place
	admitted := func() (places []int64) {
		for user, ticket := range tickets {
			v := mustTicket(t, s, user, ticket)
			if err := s.Check(t.Context(), user, "7", ticket); err == nil {
				require.Equal(t, Admitted, v.State)
				until = v.Until
				places = append(places, v.Place)
			} else if v.State != Lapsed {
				refused(t, err, contract.CodeRoomWaiting)
			}
		}
		slices.Sort(places)
		return places
	}
	lose := func(err error) {
		w.rooms.mu.Lock()
		defer w.rooms.mu.Unlock()
		w.rooms.err = err
	}
	pass := func(d time.Duration) []int64 {
		for end := w.clock().Add(d); w.clock().Before(end); w.advance(refreshInterval) {
			admitted()
		}
		return admitted()
	}
	w.change(func() { w.pace = 3 })
	w.advance(5*time.Minute + time.Second)
	w.rooms.change(func(r *Room) { r.Closed, r.Early = true, 20 })
	pass(2 * time.Second)
	lose(core.ErrUnavailable)
	require.Empty(t, pass(2*time.Second), "there are no places before the draw")

	lose(nil)
	w.advance(2 * time.Second)
	admitted() // one reading
	require.Zero(t, w.rooms.known.Admitted, "and none that Redis continues with")
	w.rooms.close(t)
	w.rooms.change(func(r *Room) {
		r.Admitted, r.Lapsed, r.EndsAt = 4, 2, noon.Add(time.Hour)
		r.Admissions = []stockgate.RoomAdmission{{Last: 4, Left: time.Minute}}
	})
	require.Equal(t, []int64{3, 4}, pass(2*time.Second))
	require.NotZero(t, until)
	lose(core.ErrUnavailable)
	w.change(func() { w.pace = 0 })
	require.Equal(t, []int64{3, 4}, pass(5*time.Second), "the sale waits for Redis")
	require.Zero(t, until)
	w.change(func() { w.pace = 3 })
	before := pass(3 * time.Second)
	require.Len(t, before, 2+3*3)
	for i, place := range before {
		require.EqualValues(t, 3+i, place, "in the order of the places")
	}
	_, err := s.Join(t.Context(), "late", "7")
	refused(t, err, contract.CodeGateUnavailable)
	require.Len(t, pass(time.Minute), 18, "all who have a place")

	lose(nil)
	w.advance(2 * time.Second)
	admitted()
	require.EqualValues(t, 20, w.rooms.known.Admitted, "Redis continues from there")
	require.EqualValues(t, 2, w.rooms.known.Lapsed)
}

func FuzzOpenTicket(f *testing.F) {
	macs, err := core.NewSeal("secret")
	require.NoError(f, err)
	f.Add(seal(macs, "7", "ann", Number{Sequence: 12}))
	f.Add("1..")
	f.Fuzz(func(t *testing.T, token string) {
		n, err := open(macs, token, "7", "ann")
		if err == nil {
			require.Equal(t, token, seal(macs, "7", "ann", n))
		}
	})
}

// slowRooms does not respond to a caller that reads the room before it is released.
type slowRooms struct {
	*rooms
	entered, release chan struct{}
}

func (r slowRooms) Room(ctx context.Context, activityID string, known Room) (Room, error) {
	r.entered <- struct{}{}
	<-r.release
	return r.rooms.Room(ctx, activityID, known)
}

// A caller that finds another one reading a room that was never read waits no longer than its context. While Redis does
// not respond, also in a redisless sale, each caller that waited would make one more call.
func TestACallerDoesNotWaitForTheFirstReadingForEver(t *testing.T) {
	t.Parallel()
	store := slowRooms{&rooms{}, make(chan struct{}, 2), make(chan struct{})}
	cache, err := NewCache(store, noPace, telemetry.Discard(t), time.Now)
	require.NoError(t, err)
	var first sync.WaitGroup
	first.Go(func() { _, _, _ = cache.get(t.Context(), "1") })
	<-store.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := make(chan error, 1)
	first.Go(func() {
		_, _, err := cache.get(ctx, "1")
		got <- err
	})
	select {
	case err := <-got:
		require.ErrorIs(t, err, core.ErrUnavailable)
	case <-time.After(20 * time.Second):
		t.Error("it waits for the other caller")
	}
	close(store.release)
	first.Wait()
}
