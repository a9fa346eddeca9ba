// Command bench-ratelimit compares pkg/ratelimit with other limiters and prints tables. It is not in pkg, so that
// users of pkg do not depend on the others. Run it by `make bench OF=ratelimit`, which starts a Redis.
//
// On a shared machine, times vary by more than the limiters differ. So all contenders take turns, in a random order
// for each round, and each is compared with the reference of the same round. The tables have the medians of the ratios
// of all rounds, with their quartiles.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	rounds := flag.Int("rounds", 60, "rounds of each comparison")
	addr := flag.String("redis", os.Getenv("REDIS_ADDRS"), "address of a Redis that may be filled")
	only := flag.String("only", "", "local, single or leased")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *addr == "" {
		*addr = "127.0.0.1:16379"
	}
	fmt.Printf("%s %s/%s, %d processors, medians of %d rounds (quartiles)\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), *rounds)
	if err := run(ctx, *only, *addr, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, only, addr string, rounds int) error {
	if only == "" || only == "local" {
		if err := local(ctx, rounds); err != nil {
			return err
		}
	}
	if only == "" || only == "single" {
		if err := single(ctx, addr, rounds); err != nil {
			return err
		}
	}
	if only == "" || only == "leased" {
		for _, times := range []float64{0.9, 1, 2, 10} {
			if err := leased(ctx, addr, times); err != nil {
				return err
			}
		}
	}
	return nil
}
