package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"flashsale.internal/flashctl/internal/latency"
)

// rawDatabase is the database for raw inserts, on the server of the order service's database.
const rawDatabase = "flashsale_bench_inserts"

// raw measures raw inserts for one slice.
func (b *bench) raw(ctx context.Context) error {
	done, err := b.insertRaw(ctx, b.cfg.Slice)
	if err != nil {
		return err
	}
	b.logf("%-28s %8.0f rows/s, a transaction %s", "raw inserts", done.PerSec, done.Transactions)
	b.report.Raw = append(b.report.Raw, done)
	return nil
}

// insertRaw makes the order service's own store insert orders for that time, 64 in a transaction, into rawDatabase.
func (b *bench) insertRaw(ctx context.Context, within time.Duration) (done Inserts, err error) {
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + rawDatabase, "CREATE DATABASE " + rawDatabase} {
		if _, err := b.orderDB.ExecContext(ctx, statement); err != nil {
			return done, err
		}
	}
	defer func() {
		_, _ = b.orderDB.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+rawDatabase)
	}()

	//nolint:gosec // a program of this project
	cmd := exec.CommandContext(ctx, b.cfg.OrderInserts, "-for", within.String())
	cmd.Env = append(os.Environ(), "MYSQL_DSN="+inDatabase(b.cfg.OrderDSN, rawDatabase))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return done, err
	}
	if err := cmd.Start(); err != nil {
		return done, err
	}
	out := bufio.NewReader(stdout)
	_, err = out.ReadString('\n') // a line follows once the tables exist
	m := b.procs.meter()
	var r struct {
		Orders int64         `json:"orders"`
		Took   time.Duration `json:"took_ns"`
		CPU    time.Duration `json:"cpu_ns"`

		Transactions []time.Duration `json:"transactions_ns"`
	}
	if err == nil {
		err = json.NewDecoder(out).Decode(&r)
	}
	done.Use = m.used()
	if e := cmd.Wait(); e != nil {
		err = e
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", b.cfg.OrderInserts, err)
	}
	done.Use.CPU[generator] += r.CPU
	done.Use.Others = max(0, done.Use.Others-r.CPU)
	done.PerSec, done.Transactions = float64(r.Orders)/r.Took.Seconds(), latency.Of(r.Transactions)
	return done, nil
}

// inDatabase returns the DSN with another database.
func inDatabase(dsn, database string) string {
	slash := strings.LastIndexByte(dsn, '/')
	_, parameters, ok := strings.Cut(dsn[slash+1:], "?")
	if ok {
		parameters = "?" + parameters
	}
	return dsn[:slash+1] + database + parameters
}
