package stockgate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var roomKey = strings.Repeat("ab", 32)

// openRoom preloads a gate with a waiting room whose sale starts in this time.
func (e *env) openRoom(startsIn time.Duration) Config {
	e.t.Helper()
	c := openConfig()
	c.StartsAt, c.EndsAt, c.RoomRate = time.Now().Add(startsIn).Truncate(time.Millisecond).UTC(), c.EndsAt.Add(time.Hour), 100
	e.open(c, 10)
	e.t.Cleanup(func() { e.rdb.Del(context.Background(), roomKeys(e.activityID)...) })
	return c
}

// startsIn moves the start of the sale.
func (e *env) startsIn(c *Config, d time.Duration) {
	e.t.Helper()
	c.StartsAt = time.Now().Add(d).Truncate(time.Millisecond).UTC()
	c.Version++
	require.NoError(e.t, e.Configure(e.t.Context(), e.activityID, *c))
}

func commitment(user string) [CommitmentBytes]byte { return sha256.Sum256([]byte(user)) }

func (e *env) join(user string, replace int64) RoomTicket {
	e.t.Helper()
	nonce := fmt.Sprintf("nonce-%s-%d", user, time.Now().UnixNano())
	tickets, err := e.JoinRoom(e.t.Context(), e.activityID, roomKey, []RoomJoin{
		{UserID: user, Nonce: nonce, Commitment: commitment(user), Replace: replace},
	})
	require.NoError(e.t, err)
	require.Len(e.t, tickets, 1)
	return tickets[0]
}

func (e *env) room() Room {
	e.t.Helper()
	r, err := e.Room(e.t.Context(), e.activityID, Room{Key: roomKey})
	require.NoError(e.t, err)
	return r
}

func (e *env) admit(fence, from, to int64) Room {
	e.t.Helper()
	r, err := e.Admit(e.t.Context(), e.activityID, fence, from, to)
	require.NoError(e.t, err)
	return r
}

func TestRoomOpensTenMinutesBeforeTheStart(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		join := []RoomJoin{{UserID: "ann", Nonce: "n", Commitment: commitment("ann")}}
		_, err := e.JoinRoom(t.Context(), e.activityID, roomKey, join)
		require.ErrorIs(t, err, ErrNoGate)
		c := e.openRoom(RoomOpens + time.Minute)
		_, err = e.JoinRoom(t.Context(), e.activityID, roomKey, join)
		require.ErrorIs(t, err, ErrRoomNotOpen)
		require.Empty(t, e.room().Key)

		e.startsIn(&c, RoomOpens-time.Second)
		require.Equal(t, roomKey, e.room().Key)
		other, err := e.Room(t.Context(), e.activityID, Room{Key: strings.Repeat("cd", 32)})
		require.NoError(t, err)
		require.Equal(t, roomKey, other.Key, "the first key stays")
		require.EqualValues(t, 1, e.join("ann", 0).Sequence)

		c.State, c.Version = GateEnded, c.Version+1
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		_, err = e.JoinRoom(t.Context(), e.activityID, roomKey, join)
		require.ErrorIs(t, err, ErrRoomEnded)

		c.RoomRate, c.Version = 0, c.Version+1
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		_, err = e.JoinRoom(t.Context(), e.activityID, roomKey, join)
		require.ErrorIs(t, err, ErrNoRoom)
		_, err = e.Room(t.Context(), e.activityID, Room{Key: roomKey})
		require.ErrorIs(t, err, ErrNoRoom)
	})
}

// A thousand joins of one user make one leaf.
func TestOneTicketForEachUser(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.openRoom(5 * time.Minute)
		first := e.join("ann", 0)
		joins := make([]RoomJoin, 125)
		for i := range joins {
			joins[i] = RoomJoin{UserID: "ann", Nonce: strconv.Itoa(i), Commitment: commitment("ann")}
		}
		for range 8 {
			tickets, err := e.JoinRoom(t.Context(), e.activityID, roomKey, joins)
			require.NoError(t, err)
			for _, ticket := range tickets {
				require.Equal(t, first, ticket)
			}
		}
		tickets, err := e.JoinRoom(t.Context(), e.activityID, roomKey, []RoomJoin{
			{UserID: "bob", Nonce: "b1", Commitment: commitment("bob")},
			{UserID: "bob", Nonce: "b2", Commitment: commitment("bob")},
			{UserID: "cid", Nonce: "c", Commitment: commitment("cid")},
		})
		require.NoError(t, err)
		require.Equal(t, []RoomTicket{{2, "b1"}, {2, "b1"}, {3, "c"}}, tickets)
		require.EqualValues(t, 3, e.room().Sequence)
		leaves, err := e.Commitments(t.Context(), e.activityID, 3)
		require.NoError(t, err)
		require.Equal(t, [][CommitmentBytes]byte{commitment("ann"), commitment("bob"), commitment("cid")}, leaves)
		_, err = e.JoinRoom(t.Context(), e.activityID, roomKey, make([]RoomJoin, MaxRoomGroup+1))
		require.Error(t, err)
	})
}

func TestEarlyJoiningClosesAMinuteBeforeTheStart(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := e.openRoom(5 * time.Minute)
		e.join("ann", 0)
		e.join("bob", 0)
		require.False(t, e.room().Closed)
		_, err := e.StoreDraw(t.Context(), e.activityID, roomKey, "", roomKey, 2)
		require.ErrorIs(t, err, ErrRoomNotReady)

		e.startsIn(&c, RoomCloses-time.Second)
		late := e.join("cid", 0) // also without a call that reads the state
		require.EqualValues(t, 3, late.Sequence)
		r := e.room()
		require.True(t, r.Closed)
		require.EqualValues(t, 2, r.Early)
		require.EqualValues(t, 1, e.join("ann", 0).Sequence, "a ticket stays early")
		require.EqualValues(t, 2, e.rdb.StrLen(t.Context(), keyOf(e.activityID, "leaves")).Val()/CommitmentBytes)

		_, err = e.Admit(t.Context(), e.activityID, 1, 0, 1)
		require.ErrorIs(t, err, ErrRoomNotReady, "before the start")
		_, err = e.StoreDraw(t.Context(), e.activityID, roomKey, "", roomKey, 3)
		require.ErrorIs(t, err, ErrRoomNotReady, "another number of tickets")
		e.startsIn(&c, -time.Second)
		_, err = e.Admit(t.Context(), e.activityID, 1, 0, 1)
		require.ErrorIs(t, err, ErrRoomNotReady, "without a draw")
		r, err = e.StoreDraw(t.Context(), e.activityID, roomKey, "", "", 2)
		require.NoError(t, err)
		require.Equal(t, []string{roomKey, ""}, []string{r.Root, r.Seed})
		_, err = e.Admit(t.Context(), e.activityID, 1, 0, 1)
		require.ErrorIs(t, err, ErrRoomNotReady, "without a seed")
		for _, root := range []string{roomKey, strings.Repeat("ef", 32)} {
			r, err = e.StoreDraw(t.Context(), e.activityID, root, "be", root, 2)
			require.NoError(t, err)
			require.Equal(t, []string{roomKey, "be", roomKey}, []string{r.Root, r.Beacon, r.Seed}, "the first draw stays")
		}
		require.EqualValues(t, 1, e.admit(1, 0, 1).Admitted)
	})
}

func TestPlacesAreAdmittedOnceAndLapse(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		e.openRoom(-time.Second)
		for i := range 5 {
			e.join(fmt.Sprint("u", i), 0)
		}
		require.True(t, e.room().Closed, "a room that opens late has no early tickets")
		require.EqualValues(t, 2, e.admit(7, 0, 2).Admitted)
		require.EqualValues(t, 2, e.admit(7, 0, 2).Admitted, "a repeated call")
		require.EqualValues(t, 2, e.admit(7, 1, 4).Admitted, "read before another admission")
		e.roomIsUsable(AdmittedFor - 20*time.Second)
		_, err := e.Admit(t.Context(), e.activityID, 6, 2, 3)
		require.ErrorIs(t, err, ErrFenced)
		require.EqualValues(t, 5, e.admit(8, 2, 99).Admitted, "not above the last ticket")
		require.Zero(t, e.room().Lapsed)

		e.roomIsUsable(20 * time.Second)
		require.EqualValues(t, 2, e.admit(8, 5, 5).Lapsed)
		require.EqualValues(t, 2, e.admit(8, 5, 5).Lapsed)
		left := map[int64]time.Duration{}
		for _, a := range e.room().Admissions {
			left[a.Last] = a.Left
		}
		require.LessOrEqual(t, left[2], time.Duration(0))
		require.InDelta(t, 40*time.Second, left[5], float64(10*time.Second))

		// A lapsed ticket is replaced once.
		require.EqualValues(t, 6, e.join("u1", 2).Sequence)
		require.EqualValues(t, 6, e.join("u1", 2).Sequence)
		require.EqualValues(t, 6, e.join("u1", 0).Sequence)
		require.EqualValues(t, 6, e.admit(8, 5, 6).Admitted)

		places, err := e.RoomPlaces(t.Context(), e.activityID)
		require.NoError(t, err)
		require.Equal(t, RoomPlaces{Sequence: 6, Admitted: 6, Lapsed: 2}, places)
		places, err = e.RoomPlaces(t.Context(), "424242")
		require.NoError(t, err)
		require.Zero(t, places, "no room")
	})
}

// roomIsUsable lets time pass in which admitted places could take paths.
func (e *env) roomIsUsable(d time.Duration) {
	e.t.Helper()
	require.NoError(e.t, e.rdb.HIncrBy(e.t.Context(), keyOf(e.activityID, "room"), "usable", d.Milliseconds()).Err())
}

// An admitted place does not lapse by a pause of the sale, nor by an outage of Redis, in which no place is admitted.
func TestOnlyUsableTimeCountsAgainstAPlace(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := e.openRoom(-time.Second)
		e.join("ann", 0)
		e.admit(1, 0, 1)
		ago := func(d time.Duration) { // the last call of a controller
			at := time.Now().Add(-d).UnixMilli()
			require.NoError(t, e.rdb.HSet(t.Context(), keyOf(e.activityID, "room"), "called", at).Err())
		}
		c.State, c.Version = GatePaused, c.Version+1
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		for range AdmittedFor / time.Second * 11 / 10 {
			ago(2 * time.Second)
			require.Zero(t, e.admit(1, 1, 1).Lapsed, "paused")
		}
		ago(2 * time.Second)
		require.Greater(t, e.room().Admissions[0].Left, AdmittedFor-10*time.Second, "paused")
		c.State, c.Version = GateOpen, c.Version+1
		require.NoError(t, e.Configure(t.Context(), e.activityID, c))
		ago(2 * AdmittedFor)
		require.Zero(t, e.admit(1, 1, 1).Lapsed, "unreachable")
		e.roomIsUsable(AdmittedFor)
		require.EqualValues(t, 1, e.admit(1, 1, 1).Lapsed)
	})
}

// Redis loses its latest writes in a failover. The ticket that it lost is a gap in the draw, and what followed it keeps
// its sequence number.
func TestALostTicketIsAGap(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := e.openRoom(5 * time.Minute)
		for _, user := range []string{"ann", "bob", "cid"} {
			e.join(user, 0)
		}
		known := e.room()
		room, leaves := keyOf(e.activityID, "room"), keyOf(e.activityID, "leaves")
		require.NoError(t, e.rdb.HSet(t.Context(), room, "sequence", 2).Err())
		require.NoError(t, e.rdb.HDel(t.Context(), keyOf(e.activityID, "tickets"), "cid").Err())
		kept := e.rdb.GetRange(t.Context(), leaves, 0, 2*CommitmentBytes-1).Val()
		require.NoError(t, e.rdb.Set(t.Context(), leaves, kept, 0).Err())
		r, err := e.Room(t.Context(), e.activityID, known)
		require.NoError(t, err)
		require.EqualValues(t, 3, r.Sequence)
		require.EqualValues(t, 4, e.join("dan", 0).Sequence)
		e.startsIn(&c, -time.Second)
		require.EqualValues(t, 4, e.room().Early)
		all, err := e.Commitments(t.Context(), e.activityID, 4)
		require.NoError(t, err)
		require.Equal(t, [][CommitmentBytes]byte{commitment("ann"), commitment("bob"), {}, commitment("dan")}, all)

		require.NoError(t, e.rdb.Del(t.Context(), leaves).Err())
		all, err = e.Commitments(t.Context(), e.activityID, 4)
		require.NoError(t, err)
		require.Equal(t, make([][CommitmentBytes]byte, 4), all)
	})
}

// What was published of a draw does not change: not by a loss of the number of early tickets, and not by a process that
// has read another draw.
func TestAPublishedDrawStays(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := e.openRoom(5 * time.Minute)
		e.join("ann", 0)
		e.startsIn(&c, 50*time.Second)
		e.room()
		first, err := e.StoreDraw(t.Context(), e.activityID, roomKey, "be", roomKey, 1)
		require.NoError(t, err)
		e.join("bob", 0)
		room := keyOf(e.activityID, "room")
		require.NoError(t, e.rdb.HDel(t.Context(), room, "early", "root", "beacon", "seed").Err())
		known := first
		known.Sequence = 2
		r, err := e.Room(t.Context(), e.activityID, known)
		require.NoError(t, err)
		r.Now = known.Now
		require.Equal(t, known, r)

		// Redis loses the room, and a process that has not read it publishes another draw.
		require.NoError(t, e.rdb.Del(t.Context(), roomKeys(e.activityID)[len(keysOf(e.activityID)):]...).Err())
		e.startsIn(&c, 5*time.Minute)
		other := strings.Repeat("cd", 32)
		_, err = e.Room(t.Context(), e.activityID, Room{Key: other})
		require.NoError(t, err)
		e.join("cid", 0)
		e.startsIn(&c, 50*time.Second)
		_, err = e.Room(t.Context(), e.activityID, Room{Key: other})
		require.NoError(t, err)
		_, err = e.StoreDraw(t.Context(), e.activityID, other, "", "", 1)
		require.NoError(t, err)
		r, err = e.Room(t.Context(), e.activityID, known)
		require.NoError(t, err)
		require.Equal(t, []string{other, other, ""}, []string{r.Key, r.Root, r.Seed})
		require.EqualValues(t, 2, r.Sequence, "no sequence number is given twice from now on")
	})
}

// A room that Redis has lost continues with what its readers have read.
func TestLostRoomContinues(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := e.openRoom(5 * time.Minute)
		for i := range 3 {
			e.join(fmt.Sprint("u", i), 0)
		}
		e.startsIn(&c, -time.Second)
		require.EqualValues(t, 3, e.room().Early)
		_, err := e.StoreDraw(t.Context(), e.activityID, roomKey, "", roomKey, 3)
		require.NoError(t, err)
		known := e.admit(1, 0, 2)

		require.NoError(t, e.rdb.Del(t.Context(), roomKeys(e.activityID)[len(keysOf(e.activityID)):]...).Err())
		for range 2 {
			r, err := e.Room(t.Context(), e.activityID, known)
			require.NoError(t, err)
			require.Equal(t, []RoomAdmission{{2, AdmittedFor}}, r.Admissions, "their time begins again")
			r.Now, r.Admissions = known.Now, known.Admissions
			require.Equal(t, known, r)
		}
		require.EqualValues(t, 4, e.join("u9", 0).Sequence)
		known = e.admit(1, 2, 3)
		require.EqualValues(t, 3, known.Admitted)

		// Another process, which has read nothing of it, opens the room again before.
		require.NoError(t, e.rdb.Del(t.Context(), roomKeys(e.activityID)[len(keysOf(e.activityID)):]...).Err())
		other, err := e.Room(t.Context(), e.activityID, Room{Key: strings.Repeat("cd", 32)})
		require.NoError(t, err)
		require.Zero(t, other.Early)
		require.EqualValues(t, 1, e.join("u10", 0).Sequence)
		r, err := e.Room(t.Context(), e.activityID, known)
		require.NoError(t, err)
		r.Now, r.Admissions = known.Now, known.Admissions
		require.Equal(t, known, r)
		r, err = e.Room(t.Context(), e.activityID, other)
		require.NoError(t, err)
		require.Equal(t, roomKey, r.Key)
	})
}

// The keys of a room expire a day after the end of its activity.
func TestRoomExpires(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		c := e.openRoom(5 * time.Minute)
		expires := func(names ...string) {
			for _, name := range names {
				ttl := e.rdb.PTTL(t.Context(), keyOf(e.activityID, name)).Val()
				require.InDelta(t, time.Until(c.EndsAt.Add(24*time.Hour)), ttl, float64(time.Minute), name)
			}
		}
		e.room()
		expires("room") // which no buyer has joined
		e.join("ann", 0)
		expires("room", "tickets", "leaves")
	})
}
