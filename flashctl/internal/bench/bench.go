// Package bench measures what the whole system does on one machine, in one run and with one generator, and checks at the
// end that nothing was lost. Every rate stands beside one that is taken in the same minutes on the same machine: a bare
// HTTP handler, or bare inserts.
package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/sqldb"
)

// Config says where the system is and how much to measure.
type Config struct {
	Origins      client.Origins
	Seckill      string // host:port
	OrderAdmin   string // http://host:port
	OrderDSN     string
	InventoryDB  string // DSN
	OrderInserts string // program that inserts orders by the order service's store, and nothing else
	RunDir       string // has the pid files of parts and services
	Secret       string // signs buyers' tokens

	Connections int           // of the generator
	Burst       int           // purchases of one burst
	Steady      time.Duration // of the steady sale
	Slice       time.Duration // of each other measurement
	Rounds      int           // how often each of them is taken; what is taken in turns with the bare handler: as long in all
	Closing     int           // orders due at once
	Only        string        // one part only, for profiling: accepted, steady, refused, landed, closing, polled
	Log         io.Writer     // tells what is going on
}

type bench struct {
	cfg         Config
	began       time.Time
	http        *http.Client
	client      *client.Client
	merchant    *client.Caller
	orderDB     *sql.DB
	inventoryDB *sql.DB
	procs       processes
	bareAddr    string
	bareShots   []buyer

	crowds        int
	sales         []*sale
	createdBefore int
	report        Report
}

// ErrWrong says that the books do not balance.
var ErrWrong = errors.New("something was lost or sold twice")

// Run measures everything and returns the report, also when the books do not balance.
func Run(ctx context.Context, cfg Config) (Report, error) {
	b := &bench{cfg: cfg, began: time.Now(), http: &http.Client{Timeout: 10 * time.Second}}
	stop, err := b.start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer stop()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"", b.warmUp}, {"accepted", b.accepted}, {"refused", b.refused}, {"polled", b.polled}, {"landed", b.landing}, {"steady", b.steady}, {"closing", b.closing},
	} {
		if cfg.Only != "" && part.name != "" && cfg.Only != part.name {
			continue
		}
		if err := part.run(ctx); err != nil {
			return b.report, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	b.say("checking the books")
	if b.report.Books, err = b.balance(ctx); err != nil {
		return b.report, err
	}
	b.report.Memory = b.procs.memory()
	b.report.Took = time.Since(b.began)
	if len(b.report.Books.Wrong) > 0 {
		return b.report, ErrWrong
	}
	return b.report, nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.cfg.Log, "%6.1f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) start(ctx context.Context) (stop func(), err error) {
	var ends []func()
	stop = func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if b.procs, err = findProcesses(b.cfg.RunDir); err != nil {
		return nil, err
	}
	for dsn, pool := range map[string]**sql.DB{b.cfg.OrderDSN: &b.orderDB, b.cfg.InventoryDB: &b.inventoryDB} {
		db, err := sqldb.Open(dsn, sqldb.Options{IOTimeout: time.Minute})
		if err != nil {
			return nil, err
		}
		ends = append(ends, func() { _ = sqldb.Close(db) })
		if *pool, err = db.DB(); err != nil {
			return nil, err
		}
	}
	b.client = client.New(b.cfg.Origins, client.Options{Secret: b.cfg.Secret})
	ends = append(ends, b.client.Close, b.http.CloseIdleConnections)
	token, err := b.client.Token(ctx, "bench-merchant", auth.Operator)
	if err != nil {
		return nil, err
	}
	b.merchant = b.client.As(token)
	if b.createdBefore, err = b.created(ctx); err != nil {
		return nil, err
	}
	addr, pid, end, err := startBare(ctx)
	if err != nil {
		return nil, err
	}
	ends = append(ends, end)
	b.bareAddr, b.procs[bareName] = addr, pid
	if b.bareShots, err = b.gather(1024); err != nil {
		return nil, err
	}
	for i := range b.bareShots { // as long as a real one
		b.bareShots[i].path = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	}
	b.report.fill(b.cfg)
	return stop, nil
}

// newSale puts pieces on sale, one to a buyer.
func (b *bench) newSale(ctx context.Context, stock int64, payWithin time.Duration) (*sale, error) {
	sku, err := b.merchant.NewProduct(ctx, client.Product{Name: "Bench phone", ListPrice: 49900, Currency: "EUR"})
	if err != nil {
		return nil, err
	}
	id, err := b.merchant.NewActivity(ctx, client.Draft{
		Title: "Bench", StartsAt: b.began.Add(-time.Hour), EndsAt: b.began.Add(24 * time.Hour), PerUserLimit: 1,
		PayWithinS: int64(payWithin / time.Second), Items: []client.Item{{SKUID: sku, Price: 49900, Stock: stock}},
	})
	if err != nil {
		return nil, err
	}
	if err := b.merchant.Change(ctx, id, "publish"); err != nil {
		return nil, err
	}
	s := &sale{id: id, sku: sku, stock: stock, body: `{"lines":[{"sku_id":"` + sku + `","qty":1}]}`}
	b.sales = append(b.sales, s)
	return s, nil
}

// prepare makes a sale and buyers with a path each.
func (b *bench) prepare(ctx context.Context, stock int64, n int) (*sale, []buyer, error) {
	s, err := b.newSale(ctx, stock, 24*time.Hour)
	if err != nil {
		return nil, nil, err
	}
	buyers, err := b.gather(n)
	if err != nil {
		return nil, nil, err
	}
	v, err := b.fetchPaths(ctx, s, buyers)
	if err == nil {
		b.say("%d paths fetched, %.0f/s", n, v.PerSec)
	}
	return s, buyers, err
}

// fire takes one measurement.
func (b *bench) fire(ctx context.Context, what string, v load.Volley) (Shot, error) {
	m := b.procs.meter()
	out, err := v.Fire(ctx)
	shot := Shot{Volleyed: out, Use: m.used()}
	if err == nil && (out.GivenUp > 0 || out.Count == 0) {
		err = fmt.Errorf("%d of %d requests got no answer: %s", out.GivenUp, out.GivenUp+out.Count, out.Example)
	}
	if err == nil {
		b.say("%-28s %8.0f/s  %s", what, out.PerSec, out.Latency)
	}
	return shot, err
}

// glance is how long the bare handler, and what stands beside it, are looked at before it is the other's turn.
const glance = time.Second

// bare measures the bare handler with the requests of a purchase.
func (b *bench) bare(ctx context.Context) error {
	target := &sale{id: "1", body: `{"lines":[{"sku_id":"1","qty":1}]}`}
	shot, err := b.fire(ctx, "bare handler", load.Volley{
		Addr: b.bareAddr, Conns: b.cfg.Connections, For: glance,
		Request: func(i int, buf []byte) []byte {
			return target.purchase(buf, b.cfg.Seckill, &b.bareShots[i%len(b.bareShots)])
		},
	})
	b.report.Bare.add(shot)
	return err
}

// bares is the mean rate of the bare handler in n glances.
func (b *bench) bares(ctx context.Context, n int) (float64, error) {
	for range n {
		if err := b.bare(ctx); err != nil {
			return 0, err
		}
	}
	sum := 0.0
	for _, shot := range b.report.Bare[len(b.report.Bare)-n:] {
		sum += shot.PerSec
	}
	return sum / float64(n), nil
}

// beside takes a measurement between n glances at the bare handler and n more: a host that others share gets slower and
// faster within a run, so that what was measured a minute apart says little together.
func (b *bench) beside(ctx context.Context, n int, to *Series, measure func() (Shot, error)) error {
	before, err := b.bares(ctx, n)
	if err != nil {
		return err
	}
	shot, err := measure()
	if err != nil {
		return err
	}
	after, err := b.bares(ctx, n)
	if err != nil {
		return err
	}
	shot.Bare = (before + after) / 2
	to.add(shot)
	return nil
}

// inTurns glances at the bare handler and at the seckill service until it has seen as much of it as of anything else. All
// answers have to have this status.
func (b *bench) inTurns(ctx context.Context, what string, to *Series, status int, request func(i int, buf []byte) []byte) error {
	before, err := b.bares(ctx, 1)
	if err != nil {
		return err
	}
	for range max(1, int(time.Duration(b.cfg.Rounds)*b.cfg.Slice/glance)) {
		shot, err := b.fire(ctx, what, load.Volley{Addr: b.cfg.Seckill, Conns: b.cfg.Connections, For: glance, Request: request})
		if err == nil {
			err = shot.only(status)
		}
		if err != nil {
			return err
		}
		after, err := b.bares(ctx, 1)
		if err != nil {
			return err
		}
		shot.Bare = (before + after) / 2
		to.add(shot)
		before = after
	}
	return nil
}

// warmUp sells a few pieces and lands them, which nobody measures: the broker's Java compiles itself, pools are filled.
func (b *bench) warmUp(ctx context.Context) error {
	s, buyers, err := b.prepare(ctx, warmUps, warmUps)
	if err != nil {
		return err
	}
	if _, err := b.buy(ctx, s, buyers, 0, 0); err != nil {
		return err
	}
	_, err = b.landed(ctx)
	return err
}

const warmUps = 5000

// accepted: bursts, each beside the bare handler, each landed before the next.
func (b *bench) accepted(ctx context.Context) error {
	for range b.cfg.Rounds {
		s, buyers, err := b.prepare(ctx, int64(b.cfg.Burst), b.cfg.Burst)
		if err != nil {
			return err
		}
		if err := b.beside(ctx, 2, &b.report.Burst, func() (Shot, error) {
			return b.sell(ctx, "accepted, burst", s, buyers, 0)
		}); err != nil {
			return err
		}
	}
	return nil
}

// sell has buyers buy, measures that, waits until all of it has landed, and measures that.
func (b *bench) sell(ctx context.Context, what string, s *sale, buyers []buyer, within time.Duration) (Shot, error) {
	m := b.procs.meter()
	v, err := b.buy(ctx, s, buyers, 0, within)
	if err != nil {
		return Shot{}, err
	}
	shot := Shot{Volleyed: v, Use: m.used()}
	n, err := b.created(ctx)
	if err != nil {
		return shot, err
	}
	left := -(n - b.createdBefore)
	for _, s := range b.sales {
		left += s.count()
	}
	b.say("%-28s %8.0f/s  %s, %d landed meanwhile", what, v.PerSec, v.Latency, s.count()-left)
	took, err := b.landed(ctx)
	if err != nil {
		return shot, err
	}
	d := Landed{Orders: s.count(), Meanwhile: s.count() - left, Drained: left, DrainTook: took, Whole: m.used()}
	if took > 0 {
		d.DrainPerSec = float64(left) / took.Seconds()
	}
	b.say("%d more landed in %s, %.0f/s", left, took.Round(time.Millisecond), d.DrainPerSec)
	b.report.Drained = append(b.report.Drained, d)
	return shot, nil
}

// steady: one long sale.
func (b *bench) steady(ctx context.Context) error {
	rate := b.report.Burst.median().PerSec
	if rate == 0 {
		rate = 10_000
	}
	// More buyers than can be served.
	n := int(rate * 1.4 * b.cfg.Steady.Seconds())
	s, buyers, err := b.prepare(ctx, int64(n), n)
	if err != nil {
		return err
	}
	return b.beside(ctx, 5, &b.report.Steady, func() (Shot, error) {
		shot, err := b.sell(ctx, "accepted, steady", s, buyers, b.cfg.Steady)
		if err == nil && shot.Took < b.cfg.Steady {
			b.say("all %d pieces were sold after %s already", s.count(), shot.Took)
		}
		return shot, err
	})
}

// refused: purchases at a sold-out sale, by paths from before it was.
func (b *bench) refused(ctx context.Context) error {
	const stock, paths = 64, 4096
	s, buyers, err := b.prepare(ctx, stock, stock+paths)
	if err != nil {
		return err
	}
	losers := buyers[stock:]
	if _, err := b.buy(ctx, s, buyers[:stock], 0, 0); err != nil {
		return err
	}
	if _, err := b.landed(ctx); err != nil {
		return err
	}
	return b.inTurns(ctx, "refused as sold out", &b.report.Refused, http.StatusConflict, func(i int, buf []byte) []byte {
		return s.purchase(buf, b.cfg.Seckill, &losers[i%len(losers)])
	})
}

// polled: buyers ask how their purchases stand.
func (b *bench) polled(ctx context.Context) error {
	s, buyers, err := b.prepare(ctx, 4096, 4096)
	if err != nil {
		return err
	}
	if _, err := b.buy(ctx, s, buyers, 0, 0); err != nil {
		return err
	}
	if _, err := b.landed(ctx); err != nil {
		return err
	}
	return b.inTurns(ctx, "result polled", &b.report.Polled, http.StatusOK, func(i int, buf []byte) []byte {
		who := &buyers[i%len(buyers)]
		return request(buf, http.MethodGet, "/v1/activities/"+s.id+"/reservations/"+who.orderSN, b.cfg.Seckill, who.token, "")
	})
}

func (b *bench) raw(ctx context.Context) error {
	done, err := b.insertRaw(ctx, b.cfg.Slice)
	if err != nil {
		return err
	}
	b.say("%-28s %8.0f rows/s, a transaction %s", "raw inserts", done.PerSec, done.Transactions)
	b.report.Raw = append(b.report.Raw, done)
	return nil
}

// keptUp is how long after the last purchase the last order may land for a rate to count as sustained: a purchase that is
// sold at leisure takes some tenths of a second from the button to its order.
const keptUp = 500 * time.Millisecond

// landing: orders per second while selling, raw inserts before, between and after. The rate at which orders land beside
// selling is looked for first, by halving: purchases that are offered faster only take processors from those that land.
func (b *bench) landing(ctx context.Context) error {
	rate := b.report.drainRate() * 0.6
	if rate == 0 {
		rate = 3000
	}
	if err := b.raw(ctx); err != nil {
		return err
	}
	sustained, beyond := 0.0, 0.0
	for range 4 {
		l, err := b.offerFor(ctx, rate, b.cfg.Slice)
		if err != nil {
			return err
		}
		if l.Behind <= keptUp {
			sustained = rate
		} else {
			beyond = rate
		}
		switch {
		case beyond == 0:
			rate *= 1.3
		case sustained == 0:
			rate *= 0.75
		default:
			rate = (sustained + beyond) / 2
		}
	}
	if sustained == 0 {
		sustained = rate
	}
	if err := b.raw(ctx); err != nil {
		return err
	}
	l, err := b.offerFor(ctx, sustained, 4*b.cfg.Slice)
	if err != nil {
		return err
	}
	b.report.Offered = append(b.report.Offered, l)
	return b.raw(ctx)
}

func (b *bench) offerFor(ctx context.Context, rate float64, within time.Duration) (Offered, error) {
	n := int(rate*within.Seconds()) + 1
	s, buyers, err := b.prepare(ctx, int64(n), n)
	if err != nil {
		return Offered{}, err
	}
	return b.offer(ctx, s, buyers, rate, within)
}

// offer sells at a rate and measures how many orders are made in a second meanwhile.
func (b *bench) offer(ctx context.Context, s *sale, buyers []buyer, rate float64, within time.Duration) (Offered, error) {
	o := Offered{Offered: rate}
	// What is under way at the beginning takes a moment to arrive at the other end.
	const warm = 500 * time.Millisecond
	type sample struct {
		n   int
		at  time.Time
		err error
	}
	from := make(chan sample, 1)
	began := time.Now()
	go func() {
		err := pause(ctx, warm)
		n, e := b.created(ctx)
		from <- sample{n, time.Now(), errors.Join(err, e)}
	}()
	m := b.procs.meter()
	v, err := b.buy(ctx, s, buyers, rate, within)
	first := <-from
	if err != nil {
		return o, err
	}
	last, err := b.created(ctx)
	if err = errors.Join(err, first.err); err != nil {
		return o, err
	}
	at := time.Now()
	o.Accepted = Shot{Volleyed: v, Use: m.used()}
	o.PerSec = float64(last-first.n) / at.Sub(first.at).Seconds()
	took, err := b.landed(ctx)
	if err != nil {
		return o, err
	}
	o.Behind = took
	o.Whole = m.used()
	b.say("%-28s %8.0f/s of %.0f/s offered for %s; the last landed %s after the end", "landed while selling", o.PerSec, rate,
		at.Sub(began).Round(100*time.Millisecond), took.Round(time.Millisecond))
	return o, nil
}

func (b *bench) closing(ctx context.Context) error {
	c, err := b.closeAll(ctx, b.cfg.Closing)
	if err != nil {
		return err
	}
	b.report.Closing = c
	b.say("%d orders of %d activities due within %s: all pieces back %s after the last deadline; late by %s", c.Orders, c.Activities,
		c.Spread.Round(time.Millisecond), c.Restored.Round(time.Millisecond), c.Lateness)
	if c.Early > 0 {
		return fmt.Errorf("%d orders were closed before their deadline", c.Early)
	}
	return nil
}
