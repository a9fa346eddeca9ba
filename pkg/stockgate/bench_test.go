package stockgate

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
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
					verdicts, err := e.Reserve(b.Context(), e.activityID, requests)
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
		require.NoError(b, e.Preload(b.Context(), e.activityID, s))
		e.wipe()
	}
}

// BenchmarkPurchase takes purchases through all scripts, with the batches of a busy sale: groups of 64, a relay that
// reads 256, settlements of 128. Each metric is processor time of Redis for one purchase, in microseconds, as INFO
// reports it for the main thread.
func BenchmarkPurchase(b *testing.B) {
	const n, group, batch = 6400, 64, 128
	rdb := realRedis(b)
	buyer := strings.Repeat("0123456789", 2) // as long as the ids of an identity provider
	requests := make([]Request, n)
	settlements, endings := make([]Settlement, n), make([]Ending, n)
	for i := range requests {
		sn, user := strconv.Itoa(1_000_000_000_000_000+i), buyer+strconv.Itoa(i)
		requests[i] = Request{OrderSN: sn, UserID: user, Lines: lines(1)}
		settlements[i] = Settlement{OrderSN: sn, UserID: user, Lines: lines(1)}
		endings[i] = Ending{OrderSN: sn, UserID: user, Lines: lines(1), Reason: "expired"}
	}
	spent := map[string]time.Duration{}
	purchases := 0
	for b.Loop() {
		e := newEnv(b, rdb, Options{JournalMax: 1 << 40})
		e.open(openConfig(), n)
		measure := func(step string, do func() error) {
			before := processorTime(b, rdb)
			require.NoError(b, do())
			spent[step] += processorTime(b, rdb) - before
		}
		settle := func(step Step, expires time.Time) func() error {
			return func() error {
				for chunk := range slices.Chunk(settlements, batch) {
					for i := range chunk {
						chunk[i].Step, chunk[i].ExpiresAt = step, expires
					}
					if err := e.Settle(b.Context(), e.activityID, chunk); err != nil {
						return err
					}
				}
				return nil
			}
		}
		measure("reserve", func() error {
			for chunk := range slices.Chunk(requests, group) {
				if _, err := e.Reserve(b.Context(), e.activityID, chunk); err != nil {
					return err
				}
			}
			return nil
		})
		for acked := 0; acked < n; {
			var ids []string
			measure("read", func() error {
				entries, _, err := e.ReadJournal(b.Context(), e.activityID, "relay", contract.MaxItems)
				for _, entry := range entries {
					ids = append(ids, entry.ID)
				}
				return err
			})
			measure("ack", func() error { return e.Ack(b.Context(), e.activityID, ids) })
			acked += len(ids)
		}
		measure("landed", settle(StepLanded, time.Time{}))
		measure("created", settle(StepCreated, deadline))
		measure("release", func() error {
			for chunk := range slices.Chunk(endings, batch) {
				if err := e.Release(b.Context(), e.activityID, chunk); err != nil {
					return err
				}
			}
			return nil
		})
		require.EqualValues(b, n, e.counts("1").Left)
		e.wipe()
		purchases += n
	}
	for step, d := range spent {
		b.ReportMetric(float64(d.Nanoseconds())/1000/float64(purchases), step+"-us")
	}
}

// processorTime is what the main thread of Redis has used so far.
func processorTime(b *testing.B, rdb redis.UniversalClient) time.Duration {
	info, err := rdb.Info(b.Context(), "cpu").Result()
	require.NoError(b, err)
	var sum time.Duration
	for s := bufio.NewScanner(strings.NewReader(info)); s.Scan(); {
		field, value, _ := strings.Cut(s.Text(), ":")
		if field == "used_cpu_sys_main_thread" || field == "used_cpu_user_main_thread" {
			seconds, err := strconv.ParseFloat(value, 64)
			require.NoError(b, err)
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	require.Positive(b, sum)
	return sum
}
