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

// Check returns an error for the first wrong setting, including those of the services inside.
func Check(cfg Config, environ map[string]string) error {
	_, err := loadServices(cfg, environ, "http://127.0.0.1:1") // the port is chosen at the start
	return err
}

// Run serves until ctx is done. It writes the greeting to out and log lines to logs.
func Run(ctx context.Context, cfg Config, environ map[string]string, out, logs io.Writer) (err error) {
	// inventory calls order over an internal listener, as it does between machines.
	internal, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("internal listener: %w", err)
	}
	defer func() { _ = internal.Close() }() // an error if it was served, and is closed already
	set, err := loadServices(cfg, environ, "http://"+internal.Addr().String())
	if err != nil {
		return err
	}
	dir, removeDir, err := cfg.dataDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeDir()) }()
	// The lease locks the folder, so it comes before any file in it is opened.
	lease, err := ordersn.OpenFileLease(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Close()) }()

	tels := map[string]*telemetry.Telemetry{}
	for _, name := range []string{"seckill", "order", "inventory"} {
		tel, err := telemetry.Setup(ctx, name, command.Version(),
			telemetry.Options{LogLevel: cfg.LogLevel, LogWriter: logs})
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
	sales, err := seckill.New(set.seckill.Config,
		seckill.Deps{
			Redis: rdb, Bus: buses["seckill"], Telemetry: tels["seckill"], Limits: limits, Lease: lease, Now: lease.Now,
		})
	if err != nil {
		return err
	}
	orders, err := order.New(set.order,
		order.Deps{DB: orderDB, Bus: buses["order"], Telemetry: tels["order"], Limits: limits})
	if err != nil {
		return err
	}
	stock, err := inventory.New(set.inventory, inventory.Deps{
		DB: inventoryDB, Redis: rdb, Bus: buses["inventory"], Telemetry: tels["inventory"], Limits: limits,
	})
	if err != nil {
		return err
	}

	// Components stop in the reverse order: listeners first, then the services, then their dependencies.
	components := append([]lifecycle.Component{redisComponent(redis)}, limits.Components()...)
	// Before the buses: while they drain, their handlers still call order.
	components = append(components, lifecycle.Component{Name: "internal listener", Run: func(ctx context.Context) error {
		return httpserver.Serve(ctx, "internal", internal, internalRoutes(orders.InternalHandler(), stock.InternalHandler()),
			tels["order"].Log)
	}})
	for _, name := range []string{"seckill", "order", "inventory"} {
		components = append(components, tels[name].Component(),
			lifecycle.AtEnd(name+" message bus", buses[name].Close))
	}
	components = append(components, orders.Components()...)
	components = append(components, stock.Components()...)
	components = append(components, sales.Components()...)
	ready := func() error { return errors.Join(sales.Ready(), orders.Ready(), stock.Ready()) }
	metrics := telemetry.MergeMetrics(tels["seckill"], tels["order"], tels["inventory"])
	url := baseURL(cfg.HTTPAddr)
	components = append(components,
		httpserver.Admin("ADMIN_ADDR", cfg.AdminAddr, ready, metrics, false, log),
		httpserver.Listen("HTTP_ADDR", cfg.HTTPAddr,
			routes(sales.Handler(), orders.Handler(), stock.Handler()), log),
		greeting(cfg, url, set.seckill.Auth, stockgate.New(rdb, stockgate.Options{}), out))
	return lifecycle.Run(ctx, log, cfg.DrainTimeout, components...)
}

// services holds the settings of the three services.
type services struct {
	seckill   purchases
	order     order.Config
	inventory inventory.Config
}

// purchases holds the settings of seckill and of the rate limits, which all three services share.
type purchases struct {
	admission.Settings
	seckill.Config
}

// loadServices reads the services' settings from the environment. In one process some are fixed: the addresses of the
// dependencies, BROKERLESS_AFTER and PAYMENT_PROVIDERS. Developers' tokens are on unless AUTH_DEV_TOKENS=false.
func loadServices(cfg Config, environ map[string]string, internalURL string) (services, error) {
	given := map[string]string{
		// Messages and timers of closings live in memory. After a kill only the sweepers find what is due, so they run
		// often.
		"TEST_TIMERS": "order.sweep_after=1s,order.sweep_every=1s," +
			"inventory.republish_after=3s,inventory.ask_after=3s,inventory.sweep_every=1s",
	}
	often := given["TEST_TIMERS"]
	maps.Copy(given, environ)
	if own := environ["TEST_TIMERS"]; own != "" {
		often += "," + own // of two values of a name the later counts
	}
	given["TEST_TIMERS"] = often
	if given["AUTH_DEV_TOKENS"] == "" {
		given["AUTH_DEV_TOKENS"] = "true"
	}
	given["PAYMENT_PROVIDERS"] = settings.Sandbox
	given["ORDER_INTERNAL_URL"], given["INVENTORY_INTERNAL_URL"] = internalURL, internalURL
	given["BROKERLESS_AFTER"] = "0" // the bus is part of the process
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
			return s, err // one at a time: the services share most settings, and each error would appear three times
		}
	}
	return s, nil
}

func openDatabase(ctx context.Context, dir, name string, tel *telemetry.Telemetry) (*gorm.DB, error) {
	db, err := sqldb.Open("sqlite:"+filepath.Join(dir, name+".db"), sqldb.Options{Log: tel.Log})
	if err != nil {
		return nil, err
	}
	if name == "inventory" {
		err = inventory.Migrate(ctx, db, tel.Log)
	} else {
		err = order.Migrate(ctx, db, tel.Log)
	}
	if err != nil {
		return nil, errors.Join(err, sqldb.Close(db))
	}
	return db, nil
}

// greeting opens the demo sales, if cfg.Demo is set, and prints the address of the pages and how to use the process.
func greeting(cfg Config, url string, tokens settings.Auth, gate *stockgate.Gate, out io.Writer) lifecycle.Component {
	return lifecycle.Component{Name: "greeting", Run: func(ctx context.Context) error {
		if err := errors.Join(awaitGate(ctx, gate), awaitResponse(ctx, url)); err != nil {
			return nil //nolint:nilerr // ctx ended before the process was ready
		}
		var sales []openSale
		if cfg.Demo && len(tokens.HS256Secrets) > 0 { // else only the identity provider can sign a merchant's token
			merchant, err := newDemoMerchant(url, tokens)
			if err != nil {
				return err
			}
			if sales, err = merchant.open(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("demo sales: %w", err)
			}
		}
		greet(out, url, cfg.AdminAddr, sales)
		<-ctx.Done()
		return nil
	}}
}

// awaitGate waits until inventory has filled the gate. Before that seckill responds 503 and logs it.
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

// awaitResponse waits until seckill responds. It requests no list of sales: seckill would keep an empty one for a second,
// and show it to the first visitor.
func awaitResponse(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/activities/0", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusNotFound { // there is no sale 0
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

// greet prints the address first: most visitors read no further.
func greet(out io.Writer, url, adminAddr string, sales []openSale) {
	fmt.Fprintf(out, "\n  Open %s\n\n", url)
	for _, s := range sales {
		when := "is open"
		if in := time.Until(s.opens).Round(time.Second); in > 0 {
			when = fmt.Sprintf("opens in %s", in)
		}
		fmt.Fprintf(out, "  %q, %d units, %s: %s/sales/%s\n", s.title, s.units, when, url, s.id)
	}
	if len(sales) > 0 {
		fmt.Fprintf(out, `
Sign in there as any user, and buy. Merchants sign in with the role merchant: %[1]s/console

Or buy by curl, once the first sale is open:

  U=%[1]s; A=%[2]s; J='Content-Type: application/json'
  T=$(curl -s $U/v1/dev/tokens -H "$J" -d '{"user_id":"42"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
  K=$(curl -s $U/v1/activities/$A | sed 's/.*"sku_id":"\([0-9]*\)".*/\1/')
  P=$(curl -s -X POST $U/v1/activities/$A/paths -H "Authorization: Bearer $T" -H "$J" -d '{}' | sed 's/.*"path":"\([^"]*\)".*/\1/')
  curl -s $U/v1/activities/$A/paths/$P/reservations -H "Authorization: Bearer $T" -H "$J" -d '{"lines":[{"sku_id":"'$K'","qty":1}]}'
  curl -s $U/v1/orders -H "Authorization: Bearer $T"

`, url, sales[0].id)
	}
	fmt.Fprintf(out, "A whole sale with 2,000 buyers: make demo (in a second terminal). "+
		"Metrics: http://%s/metrics. Ctrl-C stops.\n"+
		"Everything runs in this process, for a first try: it is neither durable nor fast.\n\n", adminAddr)
}

// baseURL returns the URL of the listener for a browser on this machine.
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
