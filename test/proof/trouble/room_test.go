package trouble

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/test/rig"
)

// TestWaitingRoom takes ROOM_TICKETS (50,000) tickets, four fifths of them early, and admits ROOM_RATE (1,000) a second,
// while Redis is killed twice and each of the two processes of seckill, one of which is the controller, twice. Every
// place from 1 to the last is given to one ticket, and early ones are those of the published draw, which two verifiers
// accept: pkg/draw, and the one of docs/draw.md.
func TestWaitingRoom(t *testing.T) {
	count, rate := number(t, "ROOM_TICKETS", 50_000), number(t, "ROOM_RATE", 1000)
	early := count * 4 / 5
	redis := rig.StartRedis(t)
	r := rig.Start(t, rig.Twice(), rig.RedisAt(redis.Addr))
	r.UsePatientClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()

	token, err := r.Client.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	merchant := r.Client.As(token)
	sku, err := merchant.NewProduct(ctx, client.Product{Name: "Phone", ListPrice: 99900, Currency: "EUR"})
	require.NoError(t, err)
	// Time for the early joins at 300 a second, and a minute more. A slower machine gives fewer early tickets.
	start := time.Now().Add(time.Duration(early)*time.Second/300 + time.Minute + 5*time.Second)
	id, err := merchant.NewActivity(ctx, client.Draft{
		Title: "Sale", StartsAt: start, EndsAt: start.Add(time.Hour), PerUserLimit: 1, PayWithinS: 300,
		Items:       []client.Item{{SKUID: sku, Price: 49900, Stock: 1000}},
		WaitingRoom: &client.WaitingRoom{AdmitPerSecond: int64(rate)},
	})
	require.NoError(t, err)
	require.NoError(t, merchant.Change(ctx, id, "publish"))

	buyers, err := purchase.NewBuyers(ctx, r.Client, count)
	require.NoError(t, err)
	tickets := make([]string, count)
	join := func(from, to int) {
		t.Helper()
		began := time.Now()
		require.NoError(t, purchase.Each(ctx, 64, to-from, func(ctx context.Context, i int) error {
			ticket, err := buyers[from+i].JoinRoom(ctx, id)
			tickets[from+i] = ticket
			return err
		}))
		t.Logf("%d joined in %s", to-from, time.Since(began).Round(time.Millisecond))
	}
	join(0, early)
	require.Less(t, time.Now(), start.Add(-time.Minute), "early joining took too long for this machine")
	time.Sleep(time.Until(start.Add(-58 * time.Second)))
	join(early, count)

	// Kill what moves the counter while it moves, and sample it.
	room := "fs:{" + id + "}:room"
	admitted := func() int64 {
		n, _ := redis.Client().HGet(ctx, room, "admitted").Int64()
		return n
	}
	var highest atomic.Int64
	reached := func(part float64) {
		t.Helper()
		require.Eventually(t, func() bool {
			n := admitted()
			if n > 0 {
				require.GreaterOrEqual(t, n, highest.Load(), "admitted fell")
				highest.Store(n)
			}
			return float64(n) >= part*float64(count)
		}, 10*time.Minute, 50*time.Millisecond)
	}
	seckills := r.Services()[0]
	reached(0.1)
	began, from := time.Now(), admitted()
	reached(0.2)
	perSecond := float64(admitted()-from) / time.Since(began).Seconds()
	for i, part := range []float64{0.3, 0.6} {
		redis.Bounce(t)
		reached(part)
		for _, p := range seckills {
			p.Kill(t)
			p.Start(t)
			p.WaitReady(t)
		}
		reached(part + 0.1)
		t.Logf("round %d of kills: %d admitted %s after the start", i+1, admitted(), time.Since(start).Round(time.Second))
	}
	reached(1)

	published, commitments := publishedDraw(ctx, t, r.Client.Origins().Seckill, id)
	places, err := draw.Verify(published, commitments)
	require.NoError(t, err)
	require.Len(t, places, early)
	require.Equal(t, lines(places), documentVerifier(ctx, t, published, commitments))
	altered := slices.Clone(commitments)
	altered[0][0] ^= 1
	_, err = draw.Verify(published, altered)
	require.ErrorContains(t, err, "root does not match")
	require.Empty(t, documentVerifier(ctx, t, published, altered))

	taken := make([]atomic.Int32, count+1)
	require.NoError(t, purchase.Each(ctx, 64, count, func(ctx context.Context, i int) error {
		state, err := buyers[i].RoomTicket(ctx, id, tickets[i])
		// A process that has just started reads the tickets of the draw first. Until then a ticket has no proof.
		isEarly := i < early
		for err == nil && isEarly && state.Proof == nil && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			state, err = buyers[i].RoomTicket(ctx, id, tickets[i])
		}
		switch {
		case err != nil:
			return err
		case state.State != "admitted" && state.State != "lapsed":
			return fmt.Errorf("ticket %s is %s", tickets[i], state.State)
		case state.Place < 1 || state.Place > int64(count):
			return fmt.Errorf("ticket %s has place %d", tickets[i], state.Place)
		case state.Proof != nil && places[state.Proof.Sequence-1] != state.Place:
			return fmt.Errorf("ticket %s has place %d, by the draw %d", tickets[i], state.Place, places[state.Proof.Sequence-1])
		case !isEarly && (state.Proof != nil || state.Place <= int64(early)):
			return fmt.Errorf("late ticket %s has place %d", tickets[i], state.Place)
		}
		if n := taken[state.Place].Add(1); n > 1 {
			return fmt.Errorf("place %d was given %d times", state.Place, n)
		}
		return nil
	}))
	t.Logf("%d tickets, %d early, admitted %.0f a second of %d before the kills; all %s after the start", count, early,
		perSecond, rate, time.Since(start).Round(time.Second))
}

// publishedDraw reads the draw and its tickets as any reader does.
func publishedDraw(ctx context.Context, t *testing.T, origin, id string) (draw.Published, []draw.Hash) {
	t.Helper()
	get := func(path string, parse func(io.Reader) error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, parse(resp.Body))
	}
	var p draw.Published
	get("/v1/activities/"+id+"/room/draw", func(r io.Reader) (err error) {
		p, err = draw.ParsePublished(r)
		return err
	})
	var tickets []draw.Hash
	get(p.TicketsURL, func(r io.Reader) (err error) {
		tickets, err = draw.ParseTickets(r)
		return err
	})
	return p, tickets
}

// documentVerifier runs the verifier of docs/draw.md. It returns what it prints, "" if it refuses the draw.
func documentVerifier(ctx context.Context, t *testing.T, p draw.Published, tickets []draw.Hash) string {
	t.Helper()
	document, err := os.ReadFile("../../../docs/draw.md")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(document), "```python\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var list strings.Builder
	require.NoError(t, draw.WriteTickets(&list, tickets))
	out, err := exec.CommandContext(ctx, "python3", file("verify.py", []byte(code)),
		file("draw.json", text), file("tickets.txt", []byte(list.String()))).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// lines returns places as the verifier of docs/draw.md prints them.
func lines(places []int64) string {
	var b strings.Builder
	for i, place := range places {
		fmt.Fprintf(&b, "%d %d\n", i+1, place)
	}
	return b.String()
}
