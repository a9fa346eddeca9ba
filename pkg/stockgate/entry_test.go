package stockgate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func anyEntry(t *rapid.T) Entry {
	e := Entry{
		OrderSN: "7",
		UserID:  rapid.StringMatching(`[A-Za-z0-9_.-]{1,64}`).Draw(t, "user"),
		Status: rapid.SampledFrom([]Status{
			StatusQueued, StatusCreated, StatusPaid, StatusClosed, StatusFailed,
		}).Draw(t, "status"),
		Reason: rapid.SampledFrom([]string{"", "expired", "sold_out"}).Draw(t, "reason"),
	}
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.UnixMilli(rapid.Int64Range(1, 1<<45).Draw(t, "ms")).UTC()
	})
	e.ExpiresAt, e.EndedAt, e.ReservedAt = moment.Draw(t, "expires"), moment.Draw(t, "ended"), moment.Draw(t, "reserved")
	e.Landed = e.Status == StatusCreated || e.Status == StatusPaid || e.Status == StatusQueued && rapid.Bool().Draw(t, "landed")
	for _, sku := range rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<62), 1, 16, rapid.ID).Draw(t, "skus") {
		e.Lines = append(e.Lines, Line{SKUID: encodeTime(time.UnixMilli(sku)), Qty: rapid.Int64Range(1, 100).Draw(t, "qty")})
	}
	e.Lines = sortLines(e.Lines)
	if rapid.Bool().Draw(t, "sampled") {
		e.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	}
	return e
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEntry(t)
		stored, err := e.encode()
		require.NoError(t, err)
		back, err := decodeEntry("7", stored)
		require.NoError(t, err)
		require.Equal(t, e, back)
	})
}

func TestEncodeRejectsUnknownStatus(t *testing.T) {
	_, err := Entry{Status: "refunded"}.encode()
	require.ErrorIs(t, err, errEntry)
}

func TestEncodedLinesIgnoreOrder(t *testing.T) {
	a := []Line{{SKUID: "10", Qty: 1}, {SKUID: "9", Qty: 2}}
	require.Equal(t, "9:2,10:1", encodeLines(a))
	require.Equal(t, encodeLines(a), encodeLines([]Line{{SKUID: "9", Qty: 2}, {SKUID: "10", Qty: 1}}))
	require.Equal(t, []Line{{SKUID: "10", Qty: 1}, {SKUID: "9", Qty: 2}}, a, "the caller's lines stay as they are")
}

// FuzzDecodeEntry checks that decodeEntry rejects a text or returns an entry that survives encoding and decoding.
func FuzzDecodeEntry(f *testing.F) {
	f.Add("q|u|1:1||||1700000000000|1-0|00-ab-cd-01")
	f.Add("l|u|1:1,2:3||||||")
	f.Add("c|u|1:1||1700000000000||||")
	f.Add("x|u|1:1|expired||1700000000000|||")
	f.Add("f||||||||")
	f.Add("p|u|1:+1||||||")
	f.Add("||||||||")
	f.Fuzz(func(t *testing.T, stored string) {
		e, err := decodeEntry("7", stored)
		if err != nil {
			require.ErrorIs(t, err, errEntry)
			return
		}
		again, err := e.encode()
		require.NoError(t, err)
		require.Equal(t, entryFields-1, strings.Count(again, "|"))
		back, err := decodeEntry("7", again)
		require.NoError(t, err)
		e.Lines = sortLines(e.Lines)
		back.Lines = sortLines(back.Lines)
		require.Equal(t, e, back)
	})
}
