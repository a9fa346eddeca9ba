package contract_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestNewDeadLetterReadsValidFields(t *testing.T) {
	for item, want := range map[string]contract.DeadLetter{
		`{"order_sn":"5","activity_id":"6","traceparent":"` + traceparent + `"}`: {OrderSN: "5", ActivityID: "6", Traceparent: traceparent},
		`{"order_sn":5,"activity_id":"6"}`:                                       {ActivityID: "6"},
		`{"order_sn":"5","activity_id":"x","traceparent":7}`:                     {OrderSN: "5"},
		`{"traceparent":"` + traceparent + traceparent + `"}`:                    {},
		`{"order_sn":"5"`: {},
		`null`:            {},
		``:                {},
	} {
		want.Where, want.Topic, want.Why, want.Item, want.At = "group", "topic", "why", []byte(item), at
		got := contract.NewDeadLetter("group", "topic", []byte(item), "why", at.In(time.FixedZone("", 3600)))
		require.Equal(t, want, got, item)
		require.NoError(t, got.Validate())
	}
}

func TestACutDeadLetterFitsIntoAMessage(t *testing.T) {
	item := bytes.Repeat([]byte{0}, 128<<10)
	whole := contract.NewDeadLetter("group", "topic", item, "why", at).Cut()
	require.Equal(t, item, whole.Item)
	require.Equal(t, "why", whole.Why)
	cut := contract.NewDeadLetter("group", "topic", append(item, 1), "why", at).Cut()
	require.Equal(t, item, cut.Item)
	require.Equal(t, "why (cut from 131073 bytes)", cut.Why)
	require.True(t, contract.IsCut(cut.Item))
	require.False(t, contract.IsCut(cut.Item[1:]))
	require.False(t, contract.IsCut([]byte(`"`+strings.Repeat("x", 128<<10-2)+`"`)), "a whole item of that length")
	_, err := contract.Encode([]contract.DeadLetter{cut})
	require.NoError(t, err)
}
