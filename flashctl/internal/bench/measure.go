package bench

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/flashctl/internal/load"
)

// sampleTime is the duration of one sample of the bare handler, and of a route that is measured in alternation with
// it.
const sampleTime = time.Second

// measure sends one batch and records its result and the processor time that it used.
func (b *bench) measure(ctx context.Context, what string, batch load.Batch) (Sample, error) {
	m := b.procs.meter()
	result, err := batch.Send(ctx)
	sample := Sample{BatchResult: result, Use: m.used()}
	if err == nil && (result.GivenUp > 0 || result.Count == 0) {
		err = fmt.Errorf("%d of %d requests got no response: %s",
			result.GivenUp, result.GivenUp+result.Count, result.Example)
	}
	if err == nil {
		b.logf("%-28s %8.0f/s  %s", what, result.PerSec, result.Latency)
	}
	return sample, err
}

// sampleBare measures the bare handler with the requests of a purchase, over that many connections, for sampleTime.
func (b *bench) sampleBare(ctx context.Context, conns int) (Sample, error) {
	target := &sale{id: "1", body: `{"lines":[{"sku_id":"1","qty":1}]}`}
	return b.measure(ctx, "bare handler", load.Batch{
		Addr: b.bareAddr, Conns: conns, For: sampleTime,
		Request: func(i int, buf []byte) []byte {
			return target.purchase(buf, b.cfg.seckill(), &b.bareBuyers[i%len(b.bareBuyers)])
		},
	})
}

// bareRate takes n samples of the bare handler and returns their mean rate. The report keeps those with the run's
// number of connections.
func (b *bench) bareRate(ctx context.Context, conns, n int) (float64, error) {
	sum := 0.0
	for range n {
		sample, err := b.sampleBare(ctx, conns)
		if err != nil {
			return 0, err
		}
		if conns == b.cfg.Connections {
			b.report.Bare.add(sample)
		}
		sum += sample.PerSec
	}
	return sum / float64(n), nil
}

// compare takes a measurement between n samples of the bare handler and n more. The speed of a shared host changes
// within a run, so rates that are measured a minute apart cannot be compared.
func (b *bench) compare(ctx context.Context, n int, to *Series, measure func() (Sample, error)) error {
	before, err := b.bareRate(ctx, b.cfg.Connections, n)
	if err != nil {
		return err
	}
	sample, err := measure()
	if err != nil {
		return err
	}
	after, err := b.bareRate(ctx, b.cfg.Connections, n)
	if err != nil {
		return err
	}
	sample.Bare = (before + after) / 2
	to.add(sample)
	return nil
}

// alternate samples the bare handler and the seckill service in turn, until seckill was measured for Rounds*Slice in
// all. It fails unless every response has this status.
func (b *bench) alternate(
	ctx context.Context, what string, to *Series, status int, request func(i int, buf []byte) []byte,
) error {
	before, err := b.bareRate(ctx, b.cfg.Connections, 1)
	if err != nil {
		return err
	}
	for range max(1, int(time.Duration(b.cfg.Rounds)*b.cfg.Slice/sampleTime)) {
		sample, err := b.measure(ctx, what, load.Batch{
			Addr: b.cfg.seckill(), Conns: b.cfg.Connections, For: sampleTime, Request: request,
		})
		if err == nil {
			err = sample.only(status)
		}
		if err != nil {
			return err
		}
		after, err := b.bareRate(ctx, b.cfg.Connections, 1)
		if err != nil {
			return err
		}
		sample.Bare = (before + after) / 2
		to.add(sample)
		before = after
	}
	return nil
}
