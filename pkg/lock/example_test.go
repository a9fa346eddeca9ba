package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/lock"
)

// connect stands for a connection to the Redis of the installation.
func connect() (rdb *redis.Client, closeAll func()) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{
		Addr:                     m.Addr(),
		ContextTimeoutEnabled:    true, // so that the time-outs of the locks hold
		DisableIdentity:          true,
		MaintNotificationsConfig: noNotifications,
	})
	return rdb, func() { _ = rdb.Close(); m.Close() }
}

// A sweep that every instance starts each minute, and that only one of them is to run.
func ExampleLocker_Do() {
	rdb, closeAll := connect()
	defer closeAll()
	locks := lock.New(rdb, slog.New(slog.DiscardHandler))

	sweep := func(ctx context.Context, _ int64) error {
		for batch := range 3 {
			if err := ctx.Err(); err != nil {
				return err // stopped, or the lock was lost: see context.Cause(ctx)
			}
			fmt.Println("batch", batch)
		}
		return nil
	}
	switch err := locks.Do(context.Background(), "order sweep", sweep); {
	case errors.Is(err, lock.ErrNotObtained):
		fmt.Println("another instance runs it")
	case err != nil:
		fmt.Println(err)
	}
	// Output:
	// batch 0
	// batch 1
	// batch 2
}

// The fencing number guards a write: the row keeps the number of its last writer.
func ExampleLocker_DoWithin() {
	rdb, closeAll := connect()
	defer closeAll()
	locks := lock.New(rdb, slog.New(slog.DiscardHandler), lock.TTL(5*time.Second))

	row := struct {
		price int
		fence int64
	}{price: 100}
	// UPDATE prices SET price = ?, fence = ? WHERE sku = ? AND fence < ?
	update := func(price int, fence int64) (rows int) {
		if row.fence >= fence {
			return 0
		}
		row.price, row.fence = price, fence
		return 1
	}
	var slow int64
	_ = locks.DoWithin(context.Background(), 2*time.Second, "price of 42", func(_ context.Context, fence int64) error {
		slow = fence // here the process is paused, the lock expires,
		return nil
	})
	_ = locks.DoWithin(context.Background(), 2*time.Second, "price of 42", func(_ context.Context, fence int64) error {
		fmt.Println("rows:", update(90, fence)) // another process obtains it and writes,
		return nil
	})
	fmt.Println("rows:", update(110, slow)) // and the first process continues
	fmt.Println("price:", row.price)
	// Output:
	// rows: 1
	// rows: 0
	// price: 90
}

// Two locks at once, in any order: stock moves between two activities, while another move goes the other way.
func ExampleLocker_DoAll() {
	rdb, closeAll := connect()
	defer closeAll()
	locks := lock.New(rdb, slog.New(slog.DiscardHandler))

	err := locks.DoAll(context.Background(), time.Second, []string{"activity 7", "activity 3"},
		func(_ context.Context, fences map[string]int64) error {
			fmt.Println(len(fences), fences["activity 7"] > fences["activity 3"])
			return nil
		})
	fmt.Println(err)
	// Output:
	// 2 true
	// <nil>
}
