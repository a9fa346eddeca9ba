package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func numbered(n int) []contract.Reservation {
	items := make([]contract.Reservation, n)
	for i := range items {
		items[i] = reservation()
		items[i].OrderSN = fmt.Sprint(1000 + i)
	}
	return items
}

func TestEncodeBoundsItems(t *testing.T) {
	for n, want := range map[int][]int{0: nil, 1: {1}, 256: {256}, 257: {256, 1}, 600: {256, 256, 88}} {
		items := numbered(n)
		bodies, err := contract.Encode(items)
		require.NoError(t, err)
		var sizes []int
		var back []contract.Reservation
		for _, body := range bodies {
			require.LessOrEqual(t, len(body), contract.MaxBytes)
			good, bad := contract.Decode[contract.Reservation](body)
			require.Empty(t, bad)
			sizes, back = append(sizes, len(good)), append(back, good...)
		}
		require.Equal(t, want, sizes)
		if n > 0 {
			require.Equal(t, items, back, "in order")
		}
	}
}

func TestEncodeBoundsBytes(t *testing.T) {
	// Sizes around the bound: never above it, and no more messages than needed.
	large := deadLetter()
	large.Item = nil
	empty, err := json.Marshal(large)
	require.NoError(t, err)
	room := contract.MaxBytes - len(`{"v":1,"items":[]}`) - len(empty) + len("null") - len(`""`)
	for _, c := range []struct{ item, messages int }{
		{room / 4 * 3, 1}, {(room/4)*3 - 3, 1},
	} {
		large.Item = bytes.Repeat([]byte{0}, c.item)
		bodies, err := contract.Encode([]contract.DeadLetter{large})
		require.NoError(t, err)
		require.Len(t, bodies, c.messages)
		require.LessOrEqual(t, len(bodies[0]), contract.MaxBytes)
		bodies, err = contract.Encode([]contract.DeadLetter{large, deadLetter(), deadLetter(), large})
		require.NoError(t, err)
		for _, b := range bodies {
			require.LessOrEqual(t, len(b), contract.MaxBytes)
		}
	}
	large.Item = bytes.Repeat([]byte{0}, room/4*3+6)
	_, err = contract.Encode([]contract.DeadLetter{deadLetter(), large})
	require.ErrorIs(t, err, contract.ErrTooLarge)
}

func TestLargestItemsFit(t *testing.T) {
	r := reservation()
	r.UserID = strings.Repeat("u", contract.MaxUserIDLen)
	r.Lines = nil
	for i := range contract.MaxLines {
		r.Lines = append(r.Lines, contract.Line{SKUID: fmt.Sprint(int64(9e18) + int64(i)), Qty: contract.MaxQty})
	}
	require.NoError(t, r.Validate())
	all := make([]contract.Reservation, contract.MaxItems)
	for i := range all {
		all[i] = r
	}
	bodies, err := contract.Encode(all)
	require.NoError(t, err)
	for _, b := range bodies {
		require.LessOrEqual(t, len(b), contract.MaxBytes)
	}
	c := orderClose()
	c.OrderSNs = nil
	for i := range contract.MaxItems {
		c.OrderSNs = append(c.OrderSNs, fmt.Sprint(int64(9e18)+int64(i)))
	}
	require.NoError(t, c.Validate())
	bodiesClose, err := contract.Encode([]contract.OrderClose{c})
	require.NoError(t, err)
	require.Len(t, bodiesClose, 1)
}

func TestDecodeOneBadAmong255Good(t *testing.T) {
	for name, poison := range map[string]string{
		"wrong type":     `{"order_sn":5}`,
		"invalid":        `{"order_sn":"0","user_id":"u","activity_id":"1","lines":[{"sku_id":"1","qty":1}]}`,
		"fractional qty": `{"order_sn":"1","user_id":"u","activity_id":"1","lines":[{"sku_id":"1","qty":1.5}]}`,
		"null":           `null`,
		"array":          `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			items := numbered(256)
			bodies, err := contract.Encode(items)
			require.NoError(t, err)
			var e struct {
				V     int               `json:"v"`
				Items []json.RawMessage `json:"items"`
			}
			require.NoError(t, json.Unmarshal(bodies[0], &e))
			e.Items[100] = json.RawMessage(poison)
			body, err := json.Marshal(e)
			require.NoError(t, err)
			good, bad := contract.Decode[contract.Reservation](body)
			require.Len(t, bad, 1)
			require.Error(t, bad[0].Err)
			require.JSONEq(t, poison, string(bad[0].Raw))
			require.Equal(t, append(items[:100:100], items[101:]...), good)
		})
	}
}

func TestDecodeReturnsAMalformedMessageAsOneBadItem(t *testing.T) {
	for _, body := range []string{"", "null", "{", "[]", "{}", `{"v":2,"items":[]}`, `{"v":1}`, `{"v":1,"items":[]}`, `{"v":1,"items":{}}`, `{"v":1,"items":null}`, `{"v":1,"items":[]} {}`} {
		good, bad := contract.Decode[contract.Reservation]([]byte(body))
		require.Empty(t, good, body)
		require.Len(t, bad, 1, "an empty message is not acknowledged: %s", body)
		require.Equal(t, body, string(bad[0].Raw))
	}
}

// A message with two lists of items is refused as a whole and becomes one dead letter.
func TestDecodeRefusesTwoListsOfItems(t *testing.T) {
	bodies, err := contract.Encode(numbered(2))
	require.NoError(t, err)
	list := strings.TrimSuffix(strings.TrimPrefix(string(bodies[0]), `{"v":1,"items":`), "}")
	for _, second := range []string{"items", "Items", "ITEMS"} {
		for _, body := range []string{
			`{"v":1,"items":` + list + `,"` + second + `":` + list + `}`,
			`{"items":[],"v":1,"` + second + `":` + list + `}`,
		} {
			good, bad := contract.Decode[contract.Reservation]([]byte(body))
			require.Empty(t, good, second)
			require.Len(t, bad, 1)
			require.Equal(t, body, string(bad[0].Raw))
		}
	}
	item := numbered(1)
	item[0].UserID = "items"
	bodies, err = contract.Encode(item)
	require.NoError(t, err)
	good, bad := contract.Decode[contract.Reservation](bodies[0])
	require.Equal(t, item, good, "a user id may be that word")
	require.Empty(t, bad)
}

// The raw bytes of a bad item must not change when the consumer reuses the memory of the body.
func TestBadItemsOwnTheirBytes(t *testing.T) {
	body := []byte(`{"v":1,"items":[{"order_sn":"x"}]}`)
	_, bad := contract.Decode[contract.Reservation](body)
	clear(body)
	require.Equal(t, `{"order_sn":"x"}`, string(bad[0].Raw))
}

func FuzzDecode(f *testing.F) {
	for _, n := range []int{1, 3} {
		bodies, _ := contract.Encode(numbered(n))
		f.Add(bodies[0])
	}
	f.Add([]byte(`{"v":1,"items":[null,{"order_sn":"1"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		good, bad := contract.Decode[contract.Reservation](body)
		if len(good)+len(bad) == 0 {
			t.Fatal("neither good nor bad items")
		}
		for _, item := range good {
			if err := item.Validate(); err != nil {
				t.Fatalf("good, but %v", err)
			}
		}
		for _, b := range bad {
			if b.Err == nil {
				t.Fatal("bad without a reason")
			}
		}
		if len(good) == 0 {
			return
		}
		bodies, err := contract.Encode(good)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, b := range bodies {
			if len(b) > contract.MaxBytes {
				t.Fatalf("%d bytes", len(b))
			}
			again, rest := contract.Decode[contract.Reservation](b)
			if len(rest) > 0 {
				t.Fatalf("a good item is bad after encoding: %v", rest[0].Err)
			}
			for i := range again {
				if again[i].OrderSN != good[n+i].OrderSN || !contract.SameLines(again[i].Lines, good[n+i].Lines) {
					t.Fatal("encoding changed an item")
				}
			}
			n += len(again)
		}
		if n != len(good) {
			t.Fatalf("%d of %d items decoded", n, len(good))
		}
	})
}
