package contract_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

var update = flag.Bool("update", false, "rewrite the golden files; only after a field was added")

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var (
	at      = time.Date(2026, 11, 11, 0, 0, 0, 123_000_000, time.UTC)
	expires = at.Add(15 * time.Minute)
	lines   = []contract.Line{{SKUID: "7", Qty: 1}, {SKUID: "9007199254740993", Qty: 100}}
)

func reservation() contract.Reservation {
	return contract.Reservation{
		OrderSN: "246290604621824001", UserID: "u-42", ActivityID: "3", Lines: lines, ReservedAt: at, Traceparent: traceparent,
	}
}

func deduction() contract.Deduction {
	return contract.Deduction{
		OrderSN: "246290604621824001", UserID: "u-42", ActivityID: "3",
		Lines:    []contract.PricedLine{{SKUID: "7", Qty: 1, Price: 9900}, {SKUID: "9007199254740993", Qty: 100, Price: contract.MaxPrice}},
		Currency: "CNY", PayWithinS: 900, Traceparent: traceparent,
	}
}

func orderEvent() contract.OrderEvent {
	return contract.OrderEvent{
		OrderSN: "246290604621824001", UserID: "u-42", ActivityID: "3", Lines: lines, Type: contract.OrderCreated, At: at,
		ExpiresAt: &expires, Traceparent: traceparent,
	}
}

func closedEvent() contract.OrderEvent {
	return contract.OrderEvent{
		OrderSN: "246290604621824002", UserID: "u-43", ActivityID: "3", Lines: lines[:1], Type: contract.OrderClosed, At: at, Reason: "expired",
	}
}

func orderClose() contract.OrderClose {
	return contract.OrderClose{
		OrderSNs: []string{"246290604621824001", "246290604621824002"}, ActivityID: "3", DueAt: expires, Traceparent: traceparent,
	}
}

func deadLetter() contract.DeadLetter {
	return contract.DeadLetter{
		Where: contract.GroupOrderDeductions, Topic: contract.TopicDeductions, OrderSN: "246290604621824001", ActivityID: "3",
		Why: "conflicting lines", Item: []byte("{\"not\xff json"), At: at, Traceparent: traceparent,
	}
}

func TestGoldenMessages(t *testing.T) {
	golden(t, "reservation", []contract.Reservation{reservation()})
	golden(t, "deduction", []contract.Deduction{deduction()})
	golden(t, "order_event", []contract.OrderEvent{orderEvent(), closedEvent()})
	golden(t, "order_close", []contract.OrderClose{orderClose()})
	again := orderClose()
	again.Attempt = 3
	golden(t, "order_close_again", []contract.OrderClose{again})
	golden(t, "dead_letter", []contract.DeadLetter{deadLetter()})
}

// golden compares the wire format with the file and decodes the file, also with a field unknown to this version.
func golden[T contract.Item](t *testing.T, name string, items []T) {
	t.Run(name, func(t *testing.T) {
		bodies, err := contract.Encode(items)
		require.NoError(t, err)
		require.Len(t, bodies, 1)
		path := filepath.Join("testdata", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(path, append(bodies[0], '\n'), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(bodies[0])+"\n", "the wire format changed: consumers of the last release cannot read it")

		good, bad := contract.Decode[T](want)
		require.Empty(t, bad)
		require.Equal(t, items, good)

		var loose struct {
			V     int              `json:"v"`
			Items []map[string]any `json:"items"`
		}
		require.NoError(t, json.Unmarshal(want, &loose))
		for _, item := range loose.Items {
			item["of_a_later_version"] = map[string]any{"x": 1}
		}
		later, err := json.Marshal(loose)
		require.NoError(t, err)
		good, bad = contract.Decode[T](later)
		require.Empty(t, bad, "a consumer ignores unknown fields")
		require.Equal(t, items, good)
	})
}

func activityInfo() contract.ActivityInfo {
	return contract.ActivityInfo{
		ActivityID: "3", Title: "Kettle <night> 秒杀", EndsAt: expires, AsOf: at,
		SKUs: []contract.SKUName{{SKUID: "7", Name: "red"}, {SKUID: "9007199254740993", Name: "\"items\""}},
	}
}

// A message of deductions describes the activities of its items.
func TestGoldenDeductionsWithActivities(t *testing.T) {
	bodies, err := contract.EncodeDeductions([]contract.Deduction{deduction()}, []contract.ActivityInfo{activityInfo()})
	require.NoError(t, err)
	require.Len(t, bodies, 1)
	path := filepath.Join("testdata", "deduction_activities.json")
	if *update {
		require.NoError(t, os.WriteFile(path, append(bodies[0], '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(bodies[0])+"\n")

	good, bad, about := contract.DecodeDeductions(want)
	require.Empty(t, bad)
	require.Equal(t, []contract.Deduction{deduction()}, good)
	require.Equal(t, []contract.ActivityInfo{activityInfo()}, about)
	old, bad := contract.Decode[contract.Deduction](want)
	require.Empty(t, bad, "a consumer of the last release ignores the activities")
	require.Equal(t, good, old)

	without, err := os.ReadFile(filepath.Join("testdata", "deduction.json"))
	require.NoError(t, err)
	good, bad, about = contract.DecodeDeductions(without)
	require.Equal(t, []contract.Deduction{deduction()}, good)
	require.Empty(t, bad)
	require.Empty(t, about)
	bodies, err = contract.EncodeDeductions([]contract.Deduction{deduction()}, nil)
	require.NoError(t, err)
	require.Equal(t, string(without), string(bodies[0])+"\n")
}

func TestGoldenNames(t *testing.T) {
	require.Equal(t, []string{"seckill-reservations", "inventory-deductions", "order-events", "order-close", "dead-letters"},
		[]string{contract.TopicReservations, contract.TopicDeductions, contract.TopicOrderEvents, contract.TopicOrderClose, contract.TopicDeadLetters})
}
