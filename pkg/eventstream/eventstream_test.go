package eventstream

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestStreamsAreBounded(t *testing.T) {
	s, b := New[int](), Bounds{Total: 3, PerUser: 2}
	var open []*Stream[int]
	for _, user := range []string{"a", "a", "b"} {
		one, err := s.Open(user, b)
		require.NoError(t, err)
		open = append(open, one)
	}
	for _, user := range []string{"a", "c"} {
		_, err := s.Open(user, b)
		require.Equal(t, contract.CodeOverloaded, contract.CodeOf(err), user)
	}
	require.Equal(t, 3, s.Len())
	open[0].Close()
	open[0].Close()
	again, err := s.Open("a", b)
	require.NoError(t, err)
	for _, one := range append(open, again) {
		one.Close()
	}
	require.Zero(t, s.Len())
	require.Empty(t, s.byUser)
}

func TestSlowReaderGetsTheLatestValue(t *testing.T) {
	one, err := New[int]().Open("a", Bounds{Total: 1, PerUser: 1})
	require.NoError(t, err)
	one.Send(1)
	one.Send(2)
	require.Equal(t, 2, <-one.Updates())
	require.Empty(t, one.Updates())
}

func TestStopEndsStreamsAndRefusesNewOnes(t *testing.T) {
	s, b := New[int](), Bounds{Total: 2, PerUser: 2}
	one, err := s.Open("a", b)
	require.NoError(t, err)
	s.Stop()
	s.Stop()
	<-one.Done()
	_, err = s.Open("a", b)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	one.Close()
	require.Zero(t, s.Len())
}

func TestServe(t *testing.T) {
	serve := func(t *testing.T, method string, act func(one *Stream[int])) string {
		t.Helper()
		one, err := New[int]().Open("a", Bounds{Total: 1, PerUser: 1})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		go act(one)
		Serve(w, httptest.NewRequest(method, "/", nil), Times{For: 10 * time.Second, Heartbeat: 4 * time.Second}, 1, one,
			func(out *Writer, v int) bool { out.Event("n", v); return v == 9 })
		require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
		return w.Body.String()
	}
	const first, end = "retry: 2000\n\nevent: n\ndata: 1\n\n", "event: end\ndata: {}\n\n"
	for name, c := range map[string]struct {
		method string
		act    func(one *Stream[int])
		want   string
	}{
		"until its time is over": {act: func(*Stream[int]) {}, want: first + ": \n\n: \n\n" + end},
		"until the last value": {act: func(one *Stream[int]) {
			time.Sleep(time.Second)
			one.Send(2)
			time.Sleep(time.Second)
			one.Send(9)
		}, want: first + "event: n\ndata: 2\n\nevent: n\ndata: 9\n\n" + end},
		"until the process stops": {act: func(one *Stream[int]) { one.streams.Stop() }, want: first},
		"without a body":          {method: http.MethodHead, act: func(*Stream[int]) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, c.want, serve(t, c.method, c.act)) })
		})
	}
}
