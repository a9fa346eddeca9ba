package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/order"
	"flashsale.internal/services/seckill"
)

var (
	errFault    = errors.New("sim: fault")
	errVanished = errors.New("sim: vanished")
)

// process is one run of one instance of a service.
type process struct {
	w        *world
	service  string
	slot     int
	dead     atomic.Bool // calls of its goroutines have no effect any more
	frozen   atomic.Pointer[chan struct{}]
	done     chan struct{} // closed after its end
	public   http.Handler
	internal http.Handler
	cancel   context.CancelFunc
}

func (p *process) name() string { return fmt.Sprintf("%s/%d", p.service, p.slot) }

// settingsOf returns settings with short intervals, so that a sale ends within a minute.
func (w *world) settingsOf() map[string]string {
	first, limit := w.repeatAfter()
	env := map[string]string{
		"AUTH_DEV_TOKENS":    "true",
		"ORDER_INTERNAL_URL": "http://order", "INVENTORY_INTERNAL_URL": "http://inventory", "BROKERLESS_AFTER": w.brokerlessAfter(),
		"MYSQL_DSN": "sqlite:", "HTTP_ADDR": "127.0.0.1:1", "ADMIN_ADDR": "127.0.0.1:2",
		"WEBHOOK_KEYS": w.webhookKeys(), "ORDER_PAYMENT_GRACE": "6s", "JOURNAL_MAX": fmt.Sprint(w.sale.journalMax), "GATE_WAIT_REPLICAS": w.waitReplicas(),
		"TEST_TIMERS": "seckill.claim_after=2s,order.sweep_every=6s,order.sweep_after=3s,order.refund_every=2s," +
			"inventory.keep_every=3s,inventory.sweep_every=3s,inventory.resume_after=20s," +
			fmt.Sprintf("inventory.republish_after=%s,inventory.republish_cap=%s,", first, limit) +
			fmt.Sprintf("inventory.rejournal_after=%s,inventory.rejournal_cap=%s,", first, limit) +
			"inventory.reconcile_every=8s,inventory.reconcile_full_every=10s,inventory.reconcile_grace=6s," +
			"inventory.reconcile_pause=1s," +
			fmt.Sprintf("inventory.ask_after=%s,inventory.abandon_after=%s", w.checkAfter(), w.sale.abandonAfter) + w.compares(),
	}
	w.paymentSettings(env)
	return env
}

// compares returns the timers of comparisons with the provider: without them the first one is at the start of order.
func (w *world) compares() string {
	if w.sale.compares {
		return ",order.compare_every=10s,order.compare_after=3s"
	}
	return ""
}

func (w *world) brokerlessAfter() string {
	if w.sale.brokerless.happens() {
		return brokerlessAfter.String()
	}
	return "0"
}

func (w *world) waitReplicas() string {
	if w.sale.waits {
		return "1"
	}
	return "0"
}

// checkAfter returns the timer inventory.ask_after. It is long if no message of an order gets lost, since then no check is
// needed.
func (w *world) checkAfter() time.Duration {
	if w.sale.losesOrders {
		return 5 * time.Second
	}
	return 90 * time.Second
}

// randomOfID returns the random part of an id, so that a seed gives the same ids each time.
func (w *world) randomOfID(n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ids.Int64N(n)
}

// start starts a process of the instance.
func (w *world) start(service string, slot int) error {
	if service != "seckill" {
		w.starting <- struct{}{}
		defer func() { <-w.starting }()
	}
	p := &process{w: w, service: service, slot: slot, done: make(chan struct{})}
	tel := telemetry.Discard(nil)
	tel.Log = slog.New(&logs{h: w.history, who: p.name()})
	env := w.settingsOf()
	member := w.broker.Join()
	b := &busFaults{p: p, member: member}
	rdb := w.dialRedis()
	rdb.AddHook(redisFaults{p})
	var db *gorm.DB
	var comps []lifecycle.Component
	var err error
	if service != "seckill" {
		if db, err = sqldb.Open(w.dsn(service), sqldb.Options{}); err != nil {
			return err
		}
		if db, err = p.under(db); err != nil {
			return err
		}
	}
	transport := &wire{w: w, from: p, who: service}
	switch service {
	case "seckill":
		var cfg struct {
			settings.App
			admission.Settings
			seckill.Config
		}
		var limits *admission.Limits
		if err = settings.Load(&cfg, env); err == nil {
			limits, err = admission.Local(cfg.Settings, tel)
		}
		if err == nil {
			var s *seckill.Service
			if s, err = seckill.New(cfg.Config,
				seckill.Deps{Redis: rdb, Bus: b, Telemetry: tel, Limits: limits, Now: p.now, Transport: transport}); err == nil {
				p.public, comps = s.Handler(), s.Components()
			}
		}
	case "order":
		var cfg struct {
			settings.App
			order.Config
		}
		if err = settings.Load(&cfg, env); err == nil {
			var s *order.Service
			if s, err = order.New(cfg.Config,
				order.Deps{DB: db, Bus: b, Telemetry: tel, Transport: transport, Now: p.now, DatabaseNow: time.Now}); err == nil {
				p.public, p.internal, comps = s.Handler(), s.InternalHandler(), s.Components()
			}
		}
	case "inventory":
		var cfg struct {
			settings.App
			inventory.Config
		}
		if err = settings.Load(&cfg, env); err == nil {
			var s *inventory.Service
			if s, err = inventory.New(cfg.Config,
				inventory.Deps{
					DB: db, Redis: rdb, Bus: b, Telemetry: tel, Transport: transport, Now: p.now, DatabaseNow: time.Now,
					Random: w.randomOfID, Endpoints: &shopWire{w, p},
				}); err == nil {
				p.public, p.internal, comps = s.Handler(), s.InternalHandler(), s.Components()
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", service, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		cancel()
		return errors.Join(member.Close(context.Background()), rdb.Close(), closeDB(db))
	}
	w.lives[p.name()] = p
	if service != "seckill" {
		w.started = append(w.started, p)
	}
	w.mu.Unlock()
	w.history.note(p.name(), "! starts")
	w.running.Go(func() { p.run(ctx, member, rdb, db, comps) })
	return nil
}

func (p *process) run(ctx context.Context, member *inproc.Bus, rdb redis.UniversalClient, db *gorm.DB, comps []lifecycle.Component) {
	parts := append([]lifecycle.Component{lifecycle.AtEnd("bus", member.Close)}, comps...)
	if err := lifecycle.Run(ctx, slog.New(&logs{h: p.w.history, who: p.name()}), 10*time.Second,
		parts...); err != nil && !p.dead.Load() {
		p.w.fail("%s ended: %v", p.name(), err)
	}
	p.dead.Store(true)
	_ = rdb.Close()
	_ = closeDB(db)
	close(p.done)
}

func closeDB(db *gorm.DB) error {
	if db == nil {
		return nil
	}
	return sqldb.Close(db)
}

func (w *world) dsn(service string) string {
	return "sqlite:" + filepath.Join(w.dir, service+".db")
}

// die ends the process at once: calls of its goroutines have no effect from now on. A new process starts after a
// while.
func (p *process) die(why string) {
	if !p.dead.CompareAndSwap(false, true) {
		return
	}
	w := p.w
	w.history.note(p.name(), "! dies", why)
	w.mu.Lock()
	delete(w.lives, p.name())
	down := time.Duration(1+w.downs.IntN(40)) * 100 * time.Millisecond
	w.mu.Unlock()
	p.thaw()
	p.cancel()
	w.running.Go(func() {
		time.Sleep(down)
		if err := w.start(p.service, p.slot); err != nil {
			w.fail("restart: %v", err)
		}
	})
}

// restart ends a process; it starts again at once.
func (w *world) restart(service string, slot int, why string) {
	w.mu.Lock()
	p := w.lives[fmt.Sprintf("%s/%d", service, slot)]
	w.mu.Unlock()
	if p == nil || !p.dead.CompareAndSwap(false, true) {
		return
	}
	w.history.note(p.name(), "! is restarted", why)
	w.mu.Lock()
	delete(w.lives, p.name())
	w.mu.Unlock()
	p.thaw()
	p.cancel()
	time.Sleep(100 * time.Millisecond)
	if err := w.start(service, slot); err != nil {
		w.fail("restart: %v", err)
	}
}

// alive returns a running process of a service, or nil.
func (w *world) alive(service string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	for i := range w.sale.instances {
		if p := w.lives[fmt.Sprintf("%s/%d", service, (w.turn+i)%w.sale.instances)]; p != nil {
			return p
		}
	}
	return nil
}

func (p *process) at(ctx context.Context, dependency, name string, kinds []kind, payload []any, do func() error, repeat func()) error {
	return p.w.pass(ctx, p, p.service, dependency, name, kinds, payload, do, repeat)
}

// pass runs do at a fault point, with the fault that the plan draws. repeat, if not nil, does the same without a
// caller that waits.
func (w *world) pass(ctx context.Context, p *process, who, dependency, name string, kinds []kind, payload []any, do func() error, repeat func()) error {
	p.hold(ctx)
	lifeless := func() bool { return p != nil && p.dead.Load() }
	if lifeless() {
		return errFault
	}
	point := who + ": " + dependency + " " + name
	actor := who
	if p != nil {
		actor = p.name()
	}
	k := w.plan.draw(point, kinds)
	w.history.note(actor, dependency+" "+name, append([]any{k}, payload...)...)
	run := func() error {
		err := do()
		p.hold(ctx)
		if lifeless() {
			return errFault
		}
		if err != nil {
			w.history.note(actor, dependency+" "+name+" FAILED", append([]any{err}, payload...)...)
		}
		return err
	}
	switch k {
	case failBefore:
		return errFault
	case failAfter:
		if err := run(); err != nil {
			return err
		}
		return errFault
	case late:
		select {
		case <-time.After(w.plan.pause(point)):
			return run()
		case <-ctx.Done():
			if repeat != nil {
				w.running.Go(repeat)
			}
			return ctx.Err()
		}
	case twice:
		if repeat != nil {
			repeat()
			return run()
		}
		if err := run(); err != nil {
			return err
		}
		return run()
	case ghost:
		pause := w.plan.pause(point)
		w.running.Go(func() {
			time.Sleep(pause)
			w.history.note("late", dependency+" "+name, payload...)
			repeat()
		})
		return errFault
	case dieBefore:
		if p == nil {
			return errFault
		}
		p.die(point)
		return errFault
	case dieAfter:
		_ = do()
		if p != nil {
			p.die("after " + point)
		}
		return errFault
	case vanishes:
		return errVanished
	}
	return run()
}
