package sqldb

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	mysqldriver "github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

const sqlitePrefix = "sqlite:"

// Options bound the pool and the calls of one database. The zero value suits a service.
type Options struct {
	Log             *slog.Logger  // slow statements (warn) and failed ones (debug), without their values; nil: none
	MaxOpen         int           // maximum number of connections; default 16
	MaxIdle         int           // maximum number of idle connections; default MaxOpen
	ConnMaxLifetime time.Duration // default 5 min, so that connections follow a moved or load-balanced server
	ConnMaxIdleTime time.Duration // default 2 min
	DialTimeout     time.Duration // default 3 s
	IOTimeout       time.Duration // one read or write on the wire; default 10 s; above LockWait
	LockWait        time.Duration // maximum wait for a row lock, or for SQLite's writer; default 5 s, whole seconds
	SlowAfter       time.Duration // default 500 ms

	// CurrentDSN is called before each connection to MySQL, which takes user and password from its DSN. So a replaced
	// password needs no new process. Its error is one of the connection. nil: those of the DSN at Open.
	CurrentDSN func() (string, error)

	// ClientCertificate returns the certificate for a connection with TLS, as tls.Config has it. nil: none is presented.
	ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxOpen, 16)
	setDefault(&o.MaxIdle, o.MaxOpen)
	setDefault(&o.ConnMaxLifetime, 5*time.Minute)
	setDefault(&o.ConnMaxIdleTime, 2*time.Minute)
	setDefault(&o.DialTimeout, 3*time.Second)
	setDefault(&o.IOTimeout, 10*time.Second)
	setDefault(&o.LockWait, 5*time.Second)
	setDefault(&o.SlowAfter, 500*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Open prepares a pool for dsn: "sqlite:/path/to/file.db", or a MySQL DSN such as "user:password@tcp(host:3306)/name".
// It never dials a server: a wrong DSN is an error here, an unreachable server is an error of each statement.
//
// Independent of the DSN, times are parsed and in UTC, values are interpolated (one round trip per statement;
// server-side statements would accumulate, one for each size of batch), RowsAffected counts changed rows, sessions
// are READ COMMITTED with strict SQL mode, and the wait for a row lock ends before the read time-out. Statements
// return the driver's errors; classify them with IsDuplicate and IsTransient.
func Open(dsn string, opts Options) (*gorm.DB, error) {
	if dsn == "" {
		return nil, errors.New("the database DSN is empty")
	}
	opts = opts.withDefaults()
	cfg := &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		NowFunc:                func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
		Logger:                 &statementLog{log: opts.Log, slow: opts.SlowAfter},
	}
	own := &extension{}
	var dialector gorm.Dialector
	var pool *sql.DB
	if path, ok := strings.CutPrefix(dsn, sqlitePrefix); ok {
		if path == "" {
			return nil, errors.New("the database DSN names no file after " + sqlitePrefix)
		}
		pool = sql.OpenDB(&sqliteConnector{dsn: sqliteDSN(path, opts.LockWait)})
		own.writer = make(chan struct{}, 1)
		dialector = &sqlite.Dialector{Conn: pool}
	} else {
		my, err := mysqlConfig(dsn, opts)
		if err != nil {
			return nil, err
		}
		own.mysql = my
		connector, err := connectorOf(my)
		if err != nil {
			return nil, err
		}
		own.guard = guard(connector)
		pool = sql.OpenDB(own.guard)
		dialector = gormmysql.New(gormmysql.Config{Conn: pool, DSNConfig: my, SkipInitializeWithVersion: true})
	}
	pool.SetMaxOpenConns(opts.MaxOpen)
	pool.SetMaxIdleConns(opts.MaxIdle)
	pool.SetConnMaxLifetime(opts.ConnMaxLifetime)
	pool.SetConnMaxIdleTime(opts.ConnMaxIdleTime)
	db, err := gorm.Open(dialector, cfg)
	if err == nil {
		err = db.Use(own)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), pool.Close())
	}
	return db, nil
}

// Close closes the pool. Call it in main and tests after the last use of db.
func Close(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// IsSQLite reports whether db is SQLite, for the few statements that differ.
func IsSQLite(db *gorm.DB) bool { return db.Name() == "sqlite" }

// CheckDSN reports a DSN that no service can use. The text continues a sentence that begins with the variable's name.
// Unlike Open it requires the name of a database; only tests connect to a server without one.
func CheckDSN(dsn string) error {
	if path, ok := strings.CutPrefix(dsn, sqlitePrefix); ok {
		if path == "" {
			return errors.New("names no file after " + sqlitePrefix)
		}
		return nil
	}
	cfg, err := mysqldriver.ParseDSN(dsn)
	switch {
	case err != nil: // the driver's text may quote the DSN, and with it the password
		return errors.New("is malformed: it must have the form user:password@tcp(host:3306)/database")
	case cfg.DBName == "":
		return errors.New("names no database after the /")
	}
	return nil
}

// errMalformed replaces errors of the driver, whose text may quote the DSN, and with it the password.
var errMalformed = errors.New("the MySQL DSN is malformed: it must have the form user:password@tcp(host:3306)/database")

// VerifiesServer reports whether a well-formed DSN connects with TLS and verifies the server, or without a network.
func VerifiesServer(dsn string) bool {
	if strings.HasPrefix(dsn, sqlitePrefix) {
		return true
	}
	cfg, err := mysqldriver.ParseDSN(dsn)
	return err == nil && (cfg.Net == "unix" || cfg.TLS != nil && !cfg.TLS.InsecureSkipVerify && !cfg.AllowFallbackToPlaintext)
}

func mysqlConfig(dsn string, opts Options) (*mysqldriver.Config, error) {
	cfg, err := mysqldriver.ParseDSN(dsn)
	if err != nil {
		return nil, errMalformed
	}
	if cfg.TLS != nil {
		cfg.TLS.GetClientCertificate = opts.ClientCertificate
	}
	cfg.ParseTime, cfg.Loc = true, time.UTC
	cfg.InterpolateParams = true
	cfg.ClientFoundRows = false
	cfg.MultiStatements = false
	// A server that became a replica refuses writes: its connections are closed, and the next ones find the new primary.
	cfg.RejectReadOnly = true
	setDefault(&cfg.Timeout, opts.DialTimeout)
	setDefault(&cfg.ReadTimeout, opts.IOTimeout)
	setDefault(&cfg.WriteTimeout, opts.IOTimeout)
	cfg.Logger = driverLog{opts.Log}
	// DATETIME(3) rounds, while the gate and the messages truncate. Truncate everywhere.
	if err := cfg.Apply(mysqldriver.TimeTruncate(time.Millisecond)); err != nil {
		return nil, err
	}
	if opts.CurrentDSN != nil {
		if err := cfg.Apply(mysqldriver.BeforeConnect(currentUser(opts.CurrentDSN))); err != nil {
			return nil, err
		}
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	for name, value := range map[string]string{
		"sql_mode":                 "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"time_zone":                "'+00:00'",
		"innodb_lock_wait_timeout": fmt.Sprint(max(1, int64(opts.LockWait/time.Second))),
	} {
		if _, set := cfg.Params[name]; !set {
			cfg.Params[name] = value
		}
	}
	return cfg, nil
}

// currentUser returns a function that sets the user and the password of a connection.
func currentUser(currentDSN func() (string, error)) func(context.Context, *mysqldriver.Config) error {
	return func(_ context.Context, cfg *mysqldriver.Config) error {
		dsn, err := currentDSN()
		if err != nil {
			return err
		}
		now, err := mysqldriver.ParseDSN(dsn)
		if err != nil {
			return errMalformed
		}
		cfg.User, cfg.Passwd = now.User, now.Passwd
		return nil
	}
}

// openMySQL opens a pool for a migration, without the breaker.
func openMySQL(cfg *mysqldriver.Config) (*sql.DB, error) {
	c, err := connectorOf(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

func connectorOf(cfg *mysqldriver.Config) (driver.Connector, error) {
	c, err := mysqldriver.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the MySQL DSN cannot be used: " + err.Error())
	}
	return &mysqlConnector{c}, nil
}

// mysqlConnector sets the isolation level of each new session. It uses a statement instead of a DSN parameter because
// the name of the variable differs between MySQL and MariaDB 10.11.
type mysqlConnector struct{ driver.Connector }

func (c *mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if ex, ok := conn.(driver.ExecerContext); ok {
		if _, err = ex.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// extension holds the data about the database that InTx and Migrate need and gorm does not expose.
type extension struct {
	mysql  *mysqldriver.Config // nil on SQLite
	guard  *guarded            // nil on SQLite
	writer chan struct{}       // SQLite: held by the one open transaction of this process

	repeats budget
}

const extensionName = "flashsale:sqldb"

func (*extension) Name() string              { return extensionName }
func (*extension) Initialize(*gorm.DB) error { return nil }
func extensionOf(db *gorm.DB) *extension {
	if e, ok := db.Config.Plugins[extensionName].(*extension); ok {
		return e
	}
	return &extension{}
}
