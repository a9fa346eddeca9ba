package core

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func follow(t *testing.T, w *world, s *Service, user, sn string) (*Stream, error) {
	t.Helper()
	w.change(func() {
		if _, ok := w.held[sn]; !ok {
			w.held[sn] = Reservation{ActivityID: "7", OrderSN: sn, UserID: user, Status: StatusQueued}
		}
	})
	_, stream, err := s.Follow(t.Context(), "7", sn, s.Seal.ticket("7", user, sn, noon.Add(time.Minute)))
	return stream, err
}

func (w *world) rise(sn string, to Status) {
	w.change(func() {
		r := w.held[sn]
		r.Status = to
		w.held[sn] = r
	})
}

func TestStreamDeliversEachHigherStatus(t *testing.T) {
	w, s := newWorld(t)
	stream, err := follow(t, w, s, "alice", "1")
	require.NoError(t, err)
	defer stream.Close()

	s.Feed.poll(t.Context())
	require.Empty(t, stream.Updates(), "no change")
	w.rise("1", StatusCreated)
	s.Feed.poll(t.Context())
	require.Equal(t, StatusCreated, (<-stream.Updates()).Status)
	w.rise("1", StatusQueued)
	s.Feed.poll(t.Context())
	require.Empty(t, stream.Updates(), "never a lower status")
	w.rise("1", StatusPaid)
	s.Feed.poll(t.Context())
	require.Equal(t, StatusPaid, (<-stream.Updates()).Status)

	before := w.lookups
	s.Feed.poll(t.Context())
	require.Equal(t, before, w.lookups, "a terminal purchase is not looked up")
}

func TestSlowReaderGetsTheLatestStatus(t *testing.T) {
	w, s := newWorld(t)
	stream, err := follow(t, w, s, "alice", "1")
	require.NoError(t, err)
	defer stream.Close()
	w.rise("1", StatusCreated)
	s.Feed.poll(t.Context())
	w.rise("1", StatusClosed)
	s.Feed.poll(t.Context())
	require.Equal(t, StatusClosed, (<-stream.Updates()).Status)
}

func TestStreamsOfAnActivityShareALookup(t *testing.T) {
	w, s := newWorld(t)
	for _, sn := range []string{"1", "2", "3"} {
		stream, err := follow(t, w, s, "user"+sn, sn)
		require.NoError(t, err)
		defer stream.Close()
	}
	before := w.lookups
	s.Feed.poll(t.Context())
	require.Equal(t, 1, w.lookups-before)
}

func TestStreamsAreBounded(t *testing.T) {
	w, s := newWorld(t)
	one, err := follow(t, w, s, "alice", "1")
	require.NoError(t, err)
	two, err := follow(t, w, s, "alice", "2")
	require.NoError(t, err)
	_, err = follow(t, w, s, "alice", "3")
	refused(t, err, contract.CodeOverloaded)
	three, err := follow(t, w, s, "bob", "4")
	require.NoError(t, err)
	_, err = follow(t, w, s, "carol", "5")
	refused(t, err, contract.CodeOverloaded)

	one.Close()
	one.Close()
	again, err := follow(t, w, s, "alice", "3")
	require.NoError(t, err)
	for _, stream := range []*Stream{two, three, again} {
		stream.Close()
	}
	require.Zero(t, s.Feed.Open())
	require.Empty(t, s.Feed.byActivity)
}

func TestFollowChecksTheTicketAndTheBuyer(t *testing.T) {
	w, s := newWorld(t)
	w.held["1"] = Reservation{ActivityID: "7", OrderSN: "1", UserID: "alice", Status: StatusQueued}
	w.held["2"] = Reservation{ActivityID: "7", OrderSN: "2", UserID: "alice", Status: StatusFailed}

	_, _, err := s.Follow(t.Context(), "7", "1", "")
	refused(t, err, contract.CodeUnauthenticated)
	_, _, err = s.Follow(t.Context(), "7", "1", s.Seal.ticket("7", "alice", "1", noon))
	refused(t, err, contract.CodeUnauthenticated)
	_, _, err = s.Follow(t.Context(), "7", "1", s.Seal.ticket("7", "alice", "2", noon.Add(time.Minute)))
	refused(t, err, contract.CodeUnauthenticated)
	_, _, err = s.Follow(t.Context(), "7", "1", s.Seal.ticket("7", "bob", "1", noon.Add(time.Minute)))
	refused(t, err, contract.CodeNotFound)
	r, stream, err := s.Follow(t.Context(), "7", "2", s.Seal.ticket("7", "alice", "2", noon.Add(time.Minute)))
	require.NoError(t, err)
	require.Nil(t, stream, "the status is terminal")
	require.Equal(t, StatusFailed, r.Status)
	require.Zero(t, s.Feed.Open())
}

func TestRunFeedsAndEndsTheStreams(t *testing.T) {
	w, s := newWorld(t)
	stream, err := follow(t, w, s, "alice", "1")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = s.Feed.Run(ctx) })
	w.rise("1", StatusCreated)
	select {
	case r := <-stream.Updates():
		require.Equal(t, StatusCreated, r.Status)
	case <-time.After(30 * time.Second):
		t.Fatal("no update")
	}
	stop()
	loop.Wait()
	<-stream.Done()
	stream.Close()
	_, err = follow(t, w, s, "alice", "1")
	refused(t, err, contract.CodeUnavailable)
}
