package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/draw"
)

// publish returns a complete draw of ten tickets, of which the last one was lost, and the text of its tickets.
func publish(t *testing.T) (draw.Published, []byte) {
	t.Helper()
	var tickets []draw.Hash
	for i := range byte(10) {
		tickets = append(tickets, draw.Commit("7", fmt.Sprintf("u%d", i), draw.Nonce{i}))
	}
	tickets[9] = draw.Lost
	tree, err := draw.NewTree(tickets)
	require.NoError(t, err)
	root, err := tree.Root()
	require.NoError(t, err)
	key, count, beacon := draw.Hash{1}, tree.Count(), draw.Beacon{0xbe}
	seed := draw.Seed(key, root, beacon)
	var text bytes.Buffer
	require.NoError(t, draw.WriteTickets(&text, tickets))
	return draw.Published{
		ActivityID: "7", KeySHA256: draw.KeyHash(key), Root: &root, EarlyTickets: &count, Beacon: beacon, Key: &key,
		Seed: &seed, TicketsURL: "/v1/activities/7/room/tickets",
	}, text.Bytes()
}

func TestRoomVerifyReadsURLs(t *testing.T) {
	published, tickets := publish(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/activities/7/room/draw", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(published)
	})
	mux.HandleFunc("GET /v1/activities/7/room/tickets", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(tickets)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)

	places := filepath.Join(t.TempDir(), "places.txt")
	status, out, errs := run(t, "room", "verify", srv.URL+"/v1/activities/7/room/draw", "--places", places)
	require.Zero(t, status, errs)
	require.Equal(t, "activity 7: key, root and seed match; 10 places, 1 of tickets that were lost before the draw; "+
		"beacon be, to be compared with its public source\n", out)
	text, err := os.ReadFile(places)
	require.NoError(t, err)
	require.Equal(t, 10, bytes.Count(text, []byte("\n")))
	require.Regexp(t, `^1 \d+\n2 \d+\n`, string(text))

	copy(tickets, "0000")
	status, _, errs = run(t, "room", "verify", srv.URL+"/v1/activities/7/room/draw")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "root does not match")

	status, _, errs = run(t, "room", "verify", srv.URL+"/v1/activities/8/room/draw")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "404")

	published.Key, published.Seed = nil, nil
	status, _, errs = run(t, "room", "verify", srv.URL+"/v1/activities/7/room/draw")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "key and seed are not published yet")
	published.TicketsURL = ""
	_, _, errs = run(t, "room", "verify", srv.URL+"/v1/activities/7/room/draw")
	require.Contains(t, errs, "no tickets_url")
}

func TestRoomVerifyReadsFiles(t *testing.T) {
	published, tickets := publish(t)
	dir := t.TempDir()
	drawFile, ticketsFile := filepath.Join(dir, "draw.json"), filepath.Join(dir, "tickets.txt")
	write := func(p draw.Published) {
		text, err := json.Marshal(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(drawFile, text, 0o600))
	}
	write(published)
	require.NoError(t, os.WriteFile(ticketsFile, tickets, 0o600))

	status, out, errs := run(t, "room", "verify", drawFile, ticketsFile)
	require.Zero(t, status, errs)
	require.Contains(t, out, "10 places")

	status, _, errs = run(t, "room", "verify", drawFile)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "needs the file of its tickets")

	altered := published
	altered.Key = &draw.Hash{2}
	write(altered)
	_, _, errs = run(t, "room", "verify", drawFile, ticketsFile)
	require.Contains(t, errs, "key_sha256 does not match")
	altered = published
	altered.Beacon = nil
	write(altered)
	_, _, errs = run(t, "room", "verify", drawFile, ticketsFile)
	require.Contains(t, errs, "seed does not match")
}
