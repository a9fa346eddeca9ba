package allinone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"gorm.io/gorm"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/order"
	"flashsale.internal/services/seckill"
)

// Check reports the first wrong setting, of the services inside too.
func Check(cfg Config, environ map[string]string) error {
	_, err := loadServices(cfg, environ, "http://127.0.0.1:1") // the port is chosen at the start
	return err
}

// Run serves until ctx is done. What people read at the start goes to out; the log goes to logs.
func Run(ctx context.Context, cfg Config, environ map[string]string, out, logs io.Writer) (err error) {
	// inventory asks order over a listener of its own, as it does between machines.
	internal, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("internal listener: %w", err)
	}
	defer func() { _ = internal.Close() }() // closed already when it was served
	set, err := loadServices(cfg, environ, "http://"+internal.Addr().String())
	if err != nil {
		return err
	}
	dir, removeDir, err := cfg.dataDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeDir()) }()
	// The lease locks the folder: before anything in it is touched.
	lease, err := ordersn.OpenFileLease(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Close()) }()

	tels := map[string]*telemetry.Telemetry{}
	for _, name := range []string{"seckill", "order", "inventory"} {
		tel, err := telemetry.Setup(ctx, name, command.Version(), telemetry.Options{LogLevel: cfg.LogLevel, LogWriter: logs})
		if err != nil {
			return err
		}
		tels[name] = tel
	}
	log := tels["seckill"].Log
	settings.LogAtStart(ctx, log, cfg)
	for name, of := range map[string]any{"seckill": set.seckill, "order": set.order, "inventory": set.inventory} {
		tels[name].Log.LogAttrs(ctx, slog.LevelInfo, "settings", settings.Describe(of)...)
	}

	redisconn.LogTo(log)
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		return fmt.Errorf("embedded Redis: %w", err)
	}
	defer redis.Close()
	rdb := stockgate.Connect([]string{redis.Addr()}, 0)
	defer func() { err = errors.Join(err, rdb.Close()) }()
	orderDB, err := openDatabase(ctx, dir, "order", tels["order"])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(orderDB)) }()
	inventoryDB, err := openDatabase(ctx, dir, "inventory", tels["inventory"])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(inventoryDB)) }()

	limits, err := admission.New(set.seckill.Settings, settings.Redis{Addrs: []string{redis.Addr()}}, tels["seckill"])
	if err != nil {
		return err
	}
	broker := inproc.New(inproc.Options{}, log)
	buses := map[string]*inproc.Bus{"seckill": broker, "order": broker.Join(), "inventory": broker.Join()}
	sales, err := seckill.New(set.seckill.Config, seckill.Deps{Redis: rdb, Bus: buses["seckill"], Telemetry: tels["seckill"], Limits: limits, Lease: lease, Now: lease.Now})
	if err != nil {
		return err
	}
	orders, err := order.New(set.order, order.Deps{DB: orderDB, Bus: buses["order"], Telemetry: tels["order"], Limits: limits})
	if err != nil {
		return err
	}
	stock, err := inventory.New(set.inventory, inventory.Deps{
		DB: inventoryDB, Redis: rdb, Bus: buses["inventory"], Telemetry: tels["inventory"], Limits: limits,
	})
	if err != nil {
		return err
	}

	// They end in the reverse order: callers first, then the services, then what all of them need.
	parts := append([]lifecycle.Component{redisComponent(redis)}, limits.Components()...)
	// Before the buses, whose last handlers still ask order.
	parts = append(parts, lifecycle.Component{Name: "internal listener", Run: func(ctx context.Context) error {
		return httpserver.Serve(ctx, "internal", internal, orders.InternalHandler(), tels["order"].Log)
	}})
	for _, name := range []string{"seckill", "order", "inventory"} {
		parts = append(parts, tels[name].Component(), lifecycle.AtEnd(name+" message bus", buses[name].Close))
	}
	parts = append(parts, orders.Components()...)
	parts = append(parts, stock.Components()...)
	parts = append(parts, sales.Components()...)
	ready := func() error { return errors.Join(sales.Ready(), orders.Ready(), stock.Ready()) }
	metrics := telemetry.MergeMetrics(tels["seckill"], tels["order"], tels["inventory"])
	url := baseURL(cfg.HTTPAddr)
	parts = append(parts,
		httpserver.Admin("ADMIN_ADDR", cfg.AdminAddr, ready, metrics, false, log),
		httpserver.Listen("HTTP_ADDR", cfg.HTTPAddr, routes(sales.Handler(), orders.Handler(), stock.Handler(), tels["seckill"]), log),
		greeting(cfg, url, set.seckill.Auth, stockgate.New(rdb, stockgate.Options{}), out))
	return lifecycle.Run(ctx, log, cfg.DrainTimeout, parts...)
}

// services are the settings of the three.
type services struct {
	seckill   purchases
	order     order.Config
	inventory inventory.Config
}

// purchases are the settings of seckill and of the limits, which count for all three.
type purchases struct {
	admission.Settings
	seckill.Config
}

// loadServices takes what the environment says, except for what is given in one process: where the parts are, and that
// tokens are for the asking and payments are play.
func loadServices(cfg Config, environ map[string]string, internalURL string) (services, error) {
	given := map[string]string{
		// The messages live in memory, timers of closings too: after a kill the sweepers are the only ones who know what
		// is due, and a first look should not last minutes.
		"ORDER_SWEEP_AFTER": "1s", "ORDER_SWEEP_EVERY": "1s",
		"INVENTORY_REPUBLISH_AFTER": "3s", "INVENTORY_SWEEP_EVERY": "1s",
	}
	maps.Copy(given, environ)
	given["AUTH_DEV_TOKENS"], given["PAYMENTS_SANDBOX"] = "true", "true"
	given["ORDER_INTERNAL_URL"] = internalURL
	for _, name := range []string{"LIMIT_REDIS_ADDRS", "LIMIT_REDIS_DB"} {
		delete(given, name)
	}
	var s services
	callback, err := order.CallbackURL(cfg.HTTPAddr)
	if err != nil {
		return s, settings.Wrong("HTTP_ADDR", "cannot be called back: %v", err)
	}
	given["PAYMENTS_SANDBOX_CALLBACK_URL"] = callback
	for _, err := range []error{
		settings.Load(&s.seckill, given), settings.Load(&s.order, given), settings.Load(&s.inventory, given),
		s.seckill.Check(), s.order.Check(), s.inventory.Check(),
	} {
		if err != nil {
			return s, err // one at a time: most are shared, and would be told three times
		}
	}
	return s, nil
}

func openDatabase(ctx context.Context, dir, name string, tel *telemetry.Telemetry) (*gorm.DB, error) {
	db, err := sqldb.Open("sqlite:"+filepath.Join(dir, name+".db"), sqldb.Options{Log: tel.Log})
	if err != nil {
		return nil, err
	}
	migrations := order.Migrations
	if name == "inventory" {
		migrations = inventory.Migrations
	}
	if err := sqldb.Migrate(ctx, db, migrations, tel.Log); err != nil {
		return nil, errors.Join(err, sqldb.Close(db))
	}
	return db, nil
}

// greeting opens the demo sale and says what to do next. Without a sale to show, the process serves all the same.
func greeting(cfg Config, url string, tokens settings.Auth, gate *stockgate.Gate, out io.Writer) lifecycle.Component {
	return lifecycle.Component{Name: "greeting", Run: func(ctx context.Context) error {
		if err := errors.Join(awaitGate(ctx, gate), awaitAnswer(ctx, url)); err != nil {
			return nil //nolint:nilerr // ended before it answered
		}
		fmt.Fprintf(out, "\nFlashsale answers on %s (embedded parts: to look at, neither durable nor fast).\n", url)
		if cfg.Demo {
			demo, err := newDemoSale(url, tokens)
			if err != nil {
				return err
			}
			id, opens, err := demo.open(ctx)
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("demo sale: %w", err)
			}
			printDemo(out, url, id, opens)
		}
		fmt.Fprintf(out, "\nA whole sale with 2,000 buyers: make demo (in a second terminal). Metrics: http://%s/metrics. Ctrl-C stops.\n\n", cfg.AdminAddr)
		<-ctx.Done()
		return nil
	}}
}

// awaitGate waits until inventory has filled the gate. To ask seckill before would be answered 503, and logged.
func awaitGate(ctx context.Context, gate *stockgate.Gate) error {
	for {
		if ready, err := gate.Ready(ctx); err == nil && ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func awaitAnswer(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/activities", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func printDemo(out io.Writer, url, activityID string, opens time.Time) {
	when := "is open"
	if in := time.Until(opens).Round(time.Second); in > 0 {
		when = fmt.Sprintf("opens in %s", in)
	}
	fmt.Fprintf(out, `
A demo sale of 100 pieces %[3]s: %[1]s/v1/activities/%[2]s
Buy one:

  U=%[1]s; A=%[2]s; J='Content-Type: application/json'
  T=$(curl -s $U/v1/dev/tokens -H "$J" -d '{"user_id":"42"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
  K=$(curl -s $U/v1/activities/$A | sed 's/.*"sku_id":"\([0-9]*\)".*/\1/')
  P=$(curl -s -X POST $U/v1/activities/$A/paths -H "Authorization: Bearer $T" -H "$J" -d '{}' | sed 's/.*"path":"\([^"]*\)".*/\1/')
  curl -s $U/v1/activities/$A/paths/$P/reservations -H "Authorization: Bearer $T" -H "$J" -d '{"lines":[{"sku_id":"'$K'","qty":1}]}'
  curl -s $U/v1/orders -H "Authorization: Bearer $T"
`, url, activityID, when)
}

// baseURL is where a browser on this machine finds the listener.
func baseURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
