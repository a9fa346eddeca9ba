package trouble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
)

// ticketsOfOneAddress joins a waiting room with 10,000 accounts of one address. A pod gives it 40 tickets at once and
// 20 a second.
func (a *attacked) ticketsOfOneAddress(t *testing.T) {
	const accounts, burst, rate = 10_000, 40, 20
	id := a.newRoom(t, 9*time.Minute)
	joins := func(ctx context.Context, b purchase.Buyer) error {
		_, err := b.JoinRoom(ctx, id)
		return err
	}
	robots := a.accounts(t, accounts)
	got, took := responses{n: map[int]int{}}, time.Duration(0)
	served := a.meanwhile(t, joins, func() {
		began := time.Now()
		require.NoError(t, purchase.Each(t.Context(), 64, accounts, func(ctx context.Context, i int) error {
			got.add(statusOf(joins(ctx, robots[i])))
			return ctx.Err()
		}))
		took = time.Since(began)
	})
	assert.LessOrEqual(t, got.n[http.StatusCreated], burst+int(rate*took.Seconds())+1)
	assert.Equal(t, accounts, got.n[http.StatusCreated]+got.n[http.StatusTooManyRequests], "%v", got.n)
	a.row(t, fmt.Sprintf("10,000 accounts in %s: %v", took.Round(time.Second), got.n),
		fmt.Sprintf("%d tickets", got.n[http.StatusCreated]), served)
}

// drawOf publishes a sale whose waiting room has this many early tickets.
func (a *attacked) drawOf(t *testing.T, tickets int) (activityID string) {
	t.Helper()
	const ahead = 150 * time.Second // early joining closes a minute before the start
	began := time.Now()
	id, gate := a.newRoom(t, ahead), stockgate.New(a.r.Redis(t), stockgate.Options{Timeout: anyWithin})
	for n := 0; n < tickets; {
		var joins []stockgate.RoomJoin
		for ; n < tickets && len(joins) < stockgate.MaxRoomGroup; n++ {
			joins = append(joins, stockgate.RoomJoin{
				UserID: "early-" + strconv.Itoa(n), Nonce: strconv.Itoa(n), Commitment: draw.NewHash(),
			})
		}
		_, err := gate.JoinRoom(t.Context(), id, draw.NewHash().String(), joins)
		require.NoError(t, err)
	}
	require.Less(t, time.Since(began), ahead-time.Minute, "joining took too long for this machine")
	return id
}

// slowReaders request the list of draw tickets, each from an address of its own, and read 100 bytes of it. They take
// the disk of one list and no temporary files, and others read the whole list.
func (a *attacked) slowReaders(t *testing.T, activityID string, tickets int) {
	path, size := "/v1/activities/"+activityID+"/room/tickets", int64(tickets*(2*draw.HashBytes+1))
	whole := func(ctx context.Context) error {
		resp, err := a.browser(t).Get(a.edge.URL + path)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && (resp.StatusCode != http.StatusOK || n < size) {
			err = fmt.Errorf("%d with %d of %d bytes", resp.StatusCode, n, size)
		}
		return errors.Join(err, ctx.Err())
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, whole(t.Context()))
	}, 4*time.Minute, time.Second, "the draw")
	reads := func(ctx context.Context, _ purchase.Buyer) error { return whole(ctx) }
	served := a.meanwhile(t, reads, func() {
		for range 12 {
			dialer := net.Dialer{LocalAddr: a.address()}
			conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(a.edge.URL, "http://"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.example\r\n\r\n", path)
			require.NoError(t, err)
			_, err = io.ReadFull(conn, make([]byte, 100)) // and no more
			require.NoError(t, err)
		}
	})
	served += a.meanwhile(t, a.buys, func() {
		require.NoError(t, purchase.Each(t.Context(), 4, 12, func(ctx context.Context, _ int) error { return whole(ctx) }))
	})
	for _, temporary := range []string{"body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		assert.Zero(t, a.edge.Bytes(t, temporary), temporary)
	}
	assert.LessOrEqual(t, a.edge.Bytes(t, "tickets"), 3*size/2)
	a.row(t, fmt.Sprintf("12 readers of %d MB", size>>20), "temporary files of 0 bytes", served+12)
}
