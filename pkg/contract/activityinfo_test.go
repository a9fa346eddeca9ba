package contract_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
)

// Whatever the items and activities are, every message keeps the bounds, no item is lost or reordered, and each
// message describes each of its activities once, if the description fits beside an item.
func TestDeductionsWithActivitiesKeepTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var about []contract.ActivityInfo
		known := map[string]contract.ActivityInfo{}
		for i := range rapid.IntRange(0, 4).Draw(t, "activities") {
			a := activityInfo()
			a.ActivityID = strconv.Itoa(i + 1)
			a.Title = strings.Repeat("<", rapid.IntRange(1, 200).Draw(t, "title"))
			a.SKUs = nil
			for k := range rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "skus") {
				a.SKUs = append(a.SKUs, contract.SKUName{SKUID: strconv.Itoa(k + 1), Name: strings.Repeat("<", 200)})
			}
			about, known[a.ActivityID] = append(about, a), a
		}
		var list []contract.Deduction
		var sent []string
		lines := rapid.SampledFrom([]int{1, 16}).Draw(t, "lines")
		for i := range rapid.SampledFrom([]int{1, 2, 20, 257}).Draw(t, "items") {
			d := deduction()
			d.OrderSN, d.ActivityID = strconv.Itoa(i+1), strconv.Itoa(1+i*7%8)
			for k := 2; k < lines; k++ {
				d.Lines = append(d.Lines, contract.PricedLine{SKUID: strconv.Itoa(k + 100), Qty: 1, Price: contract.MaxPrice})
			}
			list, sent = append(list, d), append(sent, d.OrderSN)
		}
		bodies, err := contract.EncodeDeductions(list, about)
		require.NoError(t, err)
		var all []string
		for _, body := range bodies {
			require.LessOrEqual(t, len(body), contract.MaxBytes)
			good, bad, described := contract.DecodeDeductions(body)
			require.Empty(t, bad)
			require.LessOrEqual(t, len(good), contract.MaxItems)
			want, seen := 0, map[string]bool{}
			for _, d := range good {
				all = append(all, d.OrderSN)
				if _, ok := known[d.ActivityID]; ok && !seen[d.ActivityID] {
					seen[d.ActivityID] = true
					want++
				}
			}
			require.Len(t, described, want)
			for _, a := range described {
				require.Equal(t, known[a.ActivityID], a)
				require.True(t, seen[a.ActivityID])
			}
		}
		require.Equal(t, sent, all)
	})
}

func TestADescriptionThatFitsNoMessageIsLeftOut(t *testing.T) {
	huge := activityInfo()
	huge.Title = strings.Repeat("x", contract.MaxBytes-400)
	bodies, err := contract.EncodeDeductions([]contract.Deduction{deduction(), deduction()}, []contract.ActivityInfo{huge})
	require.NoError(t, err)
	require.Len(t, bodies, 1)
	good, bad, about := contract.DecodeDeductions(bodies[0])
	require.Len(t, good, 2)
	require.Empty(t, bad)
	require.Empty(t, about)

	tooLarge := deduction()
	tooLarge.UserID = strings.Repeat("u", contract.MaxBytes)
	_, err = contract.EncodeDeductions([]contract.Deduction{deduction(), tooLarge}, nil)
	require.ErrorIs(t, err, contract.ErrTooLarge)
}

// A description that is not usable does not keep its deductions from being processed.
func TestUnusableDescriptionsAreLeftOut(t *testing.T) {
	bodies, err := contract.Encode([]contract.Deduction{deduction()})
	require.NoError(t, err)
	item := strings.TrimSuffix(string(bodies[0]), "}")
	good := `{"activity_id":"3","title":"t","ends_at":"2026-11-11T00:15:00Z","as_of":"2026-11-11T00:00:00Z","skus":[{"sku_id":"7","name":"n"}]}`
	for _, broken := range []string{
		`null`, `7`, `"x"`, `{}`, `[7]`, `[null]`, `[{}]`,
		"[" + strings.Replace(good, `"3"`, `"x"`, 1) + "]",
		"[" + strings.Replace(good, `"t"`, `""`, 1) + "]",
		"[" + strings.Replace(good, `"t"`, `"`+strings.Repeat("t", 201)+`"`, 1) + "]",
		"[" + strings.Replace(good, `"2026-11-11T00:15:00Z"`, `"0001-01-01T00:00:00Z"`, 1) + "]",
		"[" + strings.Replace(good, `"2026-11-11T00:15:00Z"`, `"soon"`, 1) + "]",
		"[" + strings.Replace(good, `"as_of"`, `"as"`, 1) + "]",
		"[" + strings.Replace(good, `"7"`, `"-7"`, 1) + "]",
		"[" + strings.Replace(good, `{"sku_id":"7","name":"n"}`, strings.TrimSuffix(strings.Repeat(`{"sku_id":"7","name":"n"},`, 101), ","), 1) + "]",
	} {
		list, bad, about := contract.DecodeDeductions(fmt.Appendf(nil, `%s,"activities":%s}`, item, broken))
		require.Equal(t, []contract.Deduction{deduction()}, list, broken)
		require.Empty(t, bad, broken)
		require.Empty(t, about, broken)
	}
	_, _, about := contract.DecodeDeductions(fmt.Appendf(nil, `%s,"activities":[{},%s]}`, item, good))
	require.Len(t, about, 1)

	// Beside an item that is not valid, too.
	list, bad, about := contract.DecodeDeductions(fmt.Appendf(nil, `{"v":1,"items":[{}],"activities":[%s]}`, good))
	require.Empty(t, list)
	require.Len(t, bad, 1)
	require.Len(t, about, 1)
}
