package stockgate

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkReserve compares groups of one purchase with full groups. ns/op is per purchase.
func BenchmarkReserve(b *testing.B) {
	for _, kind := range []string{"accepted", "sold_out"} {
		for _, group := range []int{1, MaxGroup} {
			b.Run(fmt.Sprintf("%s/group=%d", kind, group), func(b *testing.B) {
				e := newEnv(b, realRedis(b), Options{JournalMax: 1 << 40})
				defer e.wipe()
				stock := int64(1 << 40)
				if kind == "sold_out" {
					stock = 0
				}
				e.open(openConfig(), stock)
				want := Accepted
				if stock == 0 {
					want = SoldOut
				}
				requests := make([]Request, 0, group)
				for i := 0; b.Loop(); i++ {
					sn := strconv.Itoa(i + 1)
					requests = append(requests, Request{OrderSN: sn, UserID: "u" + sn, Lines: lines(1)})
					if len(requests) < group {
						continue
					}
					verdicts, err := e.Reserve(b.Context(), e.ref, requests)
					if err != nil || verdicts[len(verdicts)-1].Outcome != want {
						require.NoError(b, err)
						b.Fatal(verdicts[len(verdicts)-1].Outcome)
					}
					requests = requests[:0]
				}
			})
		}
	}
}

// BenchmarkPreload builds a gate from a snapshot. ns/op is per entry.
func BenchmarkPreload(b *testing.B) {
	const n = 50_000
	s := soldSale(n)
	rdb := realRedis(b)
	for i := 0; b.Loop(); i++ {
		if i%n != 0 {
			continue
		}
		e := newEnv(b, rdb, Options{})
		require.NoError(b, e.Preload(b.Context(), e.ref, s))
		e.wipe()
	}
}
