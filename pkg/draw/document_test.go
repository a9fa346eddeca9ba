package draw

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// document returns docs/draw.md.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/draw.md")
	require.NoError(t, err)
	return string(text)
}

// block returns the content of the only block of this language in docs/draw.md.
func block(t *testing.T, language string) string {
	t.Helper()
	parts := strings.Split(document(t), "```"+language+"\n")
	require.Len(t, parts, 2, "docs/draw.md has one block of %s", language)
	content, _, found := strings.Cut(parts[1], "```")
	require.True(t, found)
	return content
}

// python runs the verifier of docs/draw.md on a draw, and returns what it prints and whether it accepts the draw.
func python(t *testing.T, p Published, tickets []Hash) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	var lines bytes.Buffer
	require.NoError(t, WriteTickets(&lines, tickets))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", file("verify.py", []byte(block(t, "python"))),
		file("draw.json", text), file("tickets.txt", lines.Bytes()))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		require.Contains(t, errs.String(), "does not match", "python3: %s", err)
		return "", false
	}
	return out.String(), true
}

// lines returns places as the verifier prints them.
func lines(places []int64) string {
	var b strings.Builder
	for i, place := range places {
		fmt.Fprintf(&b, "%d %d\n", i+1, place)
	}
	return b.String()
}

func TestVerifierOfTheDocumentAgrees(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 255, 256, 257, 2000} {
		for _, beacon := range []Beacon{nil, {0xbe, 0xac, byte(n)}} {
			tickets := commitments(n)
			p := complete(t, Hash{1, byte(n)}, beacon, tickets)
			places, err := Verify(p, tickets)
			require.NoError(t, err)
			out, accepted := python(t, p, tickets)
			require.True(t, accepted, n)
			require.Equal(t, lines(places), out, n)
		}
	}
}

// Both verifiers refuse a draw of which one ticket, the key or the beacon is altered.
func TestVerifiersRefuseAlteredDraws(t *testing.T) {
	tickets := commitments(100)
	whole := complete(t, Hash{1}, Beacon{0xbe, 0xac}, tickets)
	for name, alter := range map[string]func(p *Published, tickets []Hash){
		"ticket":        func(_ *Published, tickets []Hash) { tickets[41][0] ^= 1 },
		"order":         func(_ *Published, tickets []Hash) { tickets[0], tickets[1] = tickets[1], tickets[0] },
		"key":           func(p *Published, _ []Hash) { p.Key = &Hash{2} },
		"beacon":        func(p *Published, _ []Hash) { p.Beacon = Beacon{0xbe, 0xad} },
		"no beacon":     func(p *Published, _ []Hash) { p.Beacon = nil },
		"early_tickets": func(p *Published, _ []Hash) { p.EarlyTickets = new(int64) },
	} {
		altered, published := append([]Hash(nil), tickets...), whole
		alter(&published, altered)
		_, err := Verify(published, altered)
		var m *Mismatch
		require.ErrorAs(t, err, &m, name)
		_, accepted := python(t, published, altered)
		require.False(t, accepted, name)
	}
}

// The test vector of the document is what the code computes.
func TestVectorOfTheDocument(t *testing.T) {
	var tickets []Hash
	for i := range byte(5) {
		tickets = append(tickets, Commit("7", fmt.Sprintf("u%d", i+1), Nonce(bytes.Repeat([]byte{i + 1}, NonceBytes))))
	}
	var key Hash
	for i := range key {
		key[i] = byte(i)
	}
	want := complete(t, key, Beacon{0xbe, 0xac, 0x01}, tickets)

	published, err := ParsePublished(strings.NewReader(block(t, "json")))
	require.NoError(t, err)
	text, err := json.MarshalIndent(want, "", "  ")
	require.NoError(t, err)
	require.Equal(t, want, published, "%s", text)
	places, err := Verify(published, tickets)
	require.NoError(t, err)
	for i, place := range places {
		row := fmt.Sprintf("| %d | `%s` | %d |\n", i+1, tickets[i], place)
		require.Contains(t, document(t), row)
	}
}
