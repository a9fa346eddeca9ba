package draw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// complete returns a complete draw of these tickets.
func complete(t require.TestingT, key Hash, beacon Beacon, tickets []Hash) Published {
	tree, err := NewTree(tickets)
	require.NoError(t, err)
	root, err := tree.Root()
	require.NoError(t, err)
	count, seed := tree.Count(), Seed(key, root, beacon)
	return Published{
		ActivityID: "7", KeySHA256: KeyHash(key), Root: &root, EarlyTickets: &count, Beacon: beacon, Key: &key, Seed: &seed,
	}
}

func TestVerifyDetectsEveryAlteration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tickets := commitments(rapid.IntRange(1, 200).Draw(t, "tickets"))
		p := complete(t, testHash(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "beacon"), tickets)
		places, err := Verify(p, tickets)
		require.NoError(t, err)
		require.Len(t, places, len(tickets))

		mismatch := func(what string, p Published, tickets []Hash) {
			_, err := Verify(p, tickets)
			var m *Mismatch
			require.ErrorAs(t, err, &m)
			require.Equal(t, what, m.What)
		}
		i := rapid.IntRange(0, len(tickets)-1).Draw(t, "altered")
		tickets[i][5]++
		mismatch("root", p, tickets)
		tickets[i][5]--
		mismatch("early_tickets", p, tickets[:len(tickets)-1])

		altered := p
		altered.Key = &Hash{9}
		mismatch("key_sha256", altered, tickets)
		altered = p
		altered.Beacon = append(bytes.Clone(p.Beacon), 1)
		mismatch("seed", altered, tickets)
		altered = p
		altered.Seed = &Hash{9}
		mismatch("seed", altered, tickets)
	})
}

func TestVerifyNeedsAllOfADraw(t *testing.T) {
	tickets := commitments(3)
	p := complete(t, Hash{1}, nil, tickets)
	early := p
	early.Key = nil
	_, err := Verify(early, tickets)
	require.ErrorContains(t, err, "key and seed are not published yet")
	early.Root = nil
	_, err = Verify(early, tickets)
	require.ErrorContains(t, err, "root and early_tickets are not published yet")

	none := complete(t, Hash{1}, nil, nil)
	places, err := Verify(none, nil)
	require.NoError(t, err)
	require.Empty(t, places)
}

func TestPublishedSurvivesItsText(t *testing.T) {
	p := complete(t, Hash{1}, Beacon{0xbe, 0xac}, commitments(3))
	text, err := json.Marshal(p)
	require.NoError(t, err)
	parsed, err := ParsePublished(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, p, parsed)

	for name, text := range map[string]string{
		"no JSON":      `x`,
		"short key":    `{"key":"ab"}`,
		"beacon":       `{"beacon":"xy"}`,
		"long beacon":  `{"beacon":"` + strings.Repeat("ab", MaxBeaconBytes+1) + `"}`,
		"large count":  fmt.Sprintf(`{"early_tickets":%d}`, MaxTickets+1),
		"below 0":      `{"early_tickets":-1}`,
		"large object": strings.Repeat(" ", MaxPublishedBytes) + `{}`,
	} {
		_, err := ParsePublished(strings.NewReader(text))
		require.Error(t, err, name)
	}
}

func TestTicketsSurviveTheirText(t *testing.T) {
	tickets := commitments(5)
	var text bytes.Buffer
	require.NoError(t, WriteTickets(&text, tickets))
	parsed, err := ParseTickets(bytes.NewReader(text.Bytes()))
	require.NoError(t, err)
	require.Equal(t, tickets, parsed)

	for name, altered := range map[string]string{
		"cut":       text.String()[:text.Len()-1],
		"empty":     "\n" + text.String(),
		"long line": strings.Repeat("0", 1<<17) + "\n",
		"returns":   strings.ReplaceAll(text.String(), "\n", "\r\n"),
	} {
		_, err := ParseTickets(strings.NewReader(altered))
		require.Error(t, err, name)
	}
}

// FuzzParsePublished parses any text: it is refused, or a draw that survives its own text.
func FuzzParsePublished(f *testing.F) {
	text, err := json.Marshal(complete(f, Hash{1}, Beacon{0xbe}, commitments(3)))
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"key_sha256":null,"early_tickets":0}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePublished(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		require.NoError(t, err)
		q, err := ParsePublished(bytes.NewReader(again))
		require.NoError(t, err)
		twice, err := json.Marshal(q)
		require.NoError(t, err)
		require.Equal(t, again, twice)
	})
}

// FuzzParseTickets parses any text: it is refused, or WriteTickets returns the same text.
func FuzzParseTickets(f *testing.F) {
	var text bytes.Buffer
	require.NoError(f, WriteTickets(&text, commitments(3)))
	f.Add(text.Bytes())
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tickets, err := ParseTickets(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		require.NoError(t, WriteTickets(&again, tickets))
		require.Equal(t, string(text), again.String())
	})
}
