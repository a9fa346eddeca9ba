package settings

import (
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Values of APP_ENV.
const (
	Development = "development"
	Production  = "production"
)

// App holds the environment of the service. An empty Env has the defaults of Development and requires that every
// listener is on loopback.
type App struct {
	// `production` or `development`; without it the defaults of development apply, and loopback is required.
	Env string `env:"APP_ENV"`
	// `debug`, `info`, `warn` or `error`.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
}

// Production reports whether the strict rules apply.
func (a App) Production() bool { return a.Env == Production }

// Validate reports the first wrong setting.
func (a App) Validate(bool) error {
	if a.Env != "" && a.Env != Development && a.Env != Production {
		return Wrong("APP_ENV", "is %q, which is neither %s nor %s", a.Env, Development, Production)
	}
	return nil
}

// HTTP holds the addresses of the listeners and the time for a shutdown.
type HTTP struct {
	// Public listener; seckill's is on port 8081, order's on 8082, inventory's on 8083.
	Addr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080"`
	// Listener for `/livez`, `/readyz` and `/metrics`; ports 9081 to 9083.
	AdminAddr string `env:"ADMIN_ADDR" envDefault:"127.0.0.1:9080"`
	// Profiles on the admin listener.
	PProf bool `env:"PPROF"`
	// Time for a process to finish its work at the end.
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"20s"`
}

// Validate reports the first wrong setting.
func (h HTTP) Validate(production bool) error {
	if err := CheckListenAddr("HTTP_ADDR", h.Addr); err != nil {
		return err
	}
	if err := CheckListenAddr("ADMIN_ADDR", h.AdminAddr); err != nil {
		return err
	}
	if production && h.PProf && !loopback(h.AdminAddr) {
		return Wrong("PPROF",
			"must not be true with APP_ENV=production while ADMIN_ADDR is %q, which is not loopback: "+
				"profiles show memory", h.AdminAddr)
	}
	if h.DrainTimeout < time.Second || h.DrainTimeout > 10*time.Minute {
		return Wrong("DRAIN_TIMEOUT", "is %s and must be 1s to 10m", h.DrainTimeout)
	}
	return nil
}

// MySQL holds the address of the database.
type MySQL struct {
	// The service's own database: `user:password@tcp(host:3306)/database`, or in development `sqlite:/path/file.db`.
	DSN Credential `env:"MYSQL_DSN" secret:"true"`
	// `disabled` permits production a connection without TLS, as through a proxy in the pod; otherwise the DSN must have
	// `tls=true`.
	TLSMode string `env:"MYSQL_TLS"`
}

// Validate reports the first wrong setting.
func (m MySQL) Validate(bool) error {
	if !m.DSN.IsSet() {
		return Wrong("MYSQL_DSN", "is required and not set")
	}
	if m.TLSMode != "" && m.TLSMode != "disabled" {
		return Wrong("MYSQL_TLS", "is %q and must be disabled or not set: TLS is part of MYSQL_DSN", m.TLSMode)
	}
	return nil
}

// RocketMQ holds the addresses of the name servers, and how a client is let in by the brokers.
type RocketMQ struct {
	// Name servers.
	NameServers []string `env:"ROCKETMQ_NAMESRV" envDefault:"127.0.0.1:9876"`
	// Prefix of topics and groups; lets several installations share a broker.
	Prefix string `env:"ROCKETMQ_PREFIX"`
	// User of the [ACL](kubernetes.md#users-of-rocketmq); without it requests are not signed.
	AccessKey string `env:"ROCKETMQ_ACCESS_KEY" secret:"true"`
	// Its password. A change needs a restart.
	SecretKey Credential `env:"ROCKETMQ_SECRET_KEY" secret:"true"`
}

// Validate reports the first wrong setting.
func (r RocketMQ) Validate(bool) error {
	if err := checkDialAddrs("ROCKETMQ_NAMESRV", r.NameServers); err != nil {
		return err
	}
	for _, c := range r.Prefix {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
			return Wrong("ROCKETMQ_PREFIX", "may hold a-z, A-Z, 0-9, - and _ only")
		}
	}
	if len(r.Prefix) > 64 {
		return Wrong("ROCKETMQ_PREFIX", "is longer than 64 characters")
	}
	if r.SecretKey.IsSet() && r.AccessKey == "" {
		return Wrong("ROCKETMQ_SECRET_KEY", "needs ROCKETMQ_ACCESS_KEY")
	}
	return checkLogin("ROCKETMQ_ACCESS_KEY", r.AccessKey, "ROCKETMQ_SECRET_KEY", r.SecretKey)
}

// Brokerless configures the transport of messages while RocketMQ is unavailable.
type Brokerless struct {
	// Time without RocketMQ after which messages are calls between services; 0: never.
	After time.Duration `env:"BROKERLESS_AFTER" envDefault:"10s"`
}

// Validate reports the first wrong setting.
func (b Brokerless) Validate(bool) error {
	if b.After != 0 && (b.After < 100*time.Millisecond || b.After > time.Hour) {
		return Wrong("BROKERLESS_AFTER", "is %s and must be 0 (off) or 100ms to 1h", b.After)
	}
	return nil
}

// CheckURL reports a value that is not the URL of another service.
func CheckURL(variable, value string) error {
	if u, err := url.Parse(value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Wrong(variable, "is not an http or https URL")
	}
	return nil
}

// CheckPublicURL returns PUBLIC_URL as scheme and host. It reports one that is no address of a site.
func CheckPublicURL(value string, production bool) (string, error) {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || strings.ContainsAny(value, "?#"):
		return value, Wrong("PUBLIC_URL", "must be the address of the pages such as https://shop.example.com, "+
			"without path, query and user")
	case production && u.Scheme != "https":
		return value, Wrong("PUBLIC_URL", "must be an https URL with APP_ENV=production")
	}
	return u.Scheme + "://" + u.Host, nil
}

// CheckListenAddr reports an invalid address of a listener. A missing host means all interfaces.
func CheckListenAddr(variable, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || !validPort(port, 0) {
		return Wrong(variable, "is %q, which is not an address such as :8080 or 127.0.0.1:8080", addr)
	}
	return nil
}

// CheckDialAddr reports an invalid address of a server.
func CheckDialAddr(variable, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || !validPort(port, 1) {
		return Wrong(variable, "holds %q, which is not an address such as 127.0.0.1:6379", addr)
	}
	return nil
}

func checkDialAddrs(variable string, addrs []string) error {
	if len(addrs) == 0 {
		return Wrong(variable, "is required and not set")
	}
	for _, a := range addrs {
		if err := CheckDialAddr(variable, a); err != nil {
			return err
		}
	}
	return nil
}

func validPort(s string, lowest int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= lowest && n <= 65535
}
