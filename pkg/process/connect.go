package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

const (
	connectTimeout = 4 * time.Second // of the check of one back end
	dialTimeout    = 2 * time.Second // within it
)

// BackEnd is one that a process uses, and how check-config --connect checks it.
type BackEnd struct {
	name, at  string // for the output; at may be empty
	kind      kind
	variables map[string]string // replaces what the table of causes names
	check     func(ctx context.Context) error
}

// Connect checks all back ends at the same time, each for at most 4 s, and writes one line of each: ok, or what is
// wrong with its variables and likely causes. It fails if one is not ok.
func Connect(ctx context.Context, out io.Writer, all ...BackEnd) error {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	lines, failed := make([]string, len(all)), make([]bool, len(all))
	var checks sync.WaitGroup
	for i, b := range all {
		checks.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			began := time.Now()
			if err := b.check(ctx); err != nil {
				lines[i], failed[i] = "FAILED "+b.sentence(err), true
				return
			}
			lines[i] = fmt.Sprintf("ok     %s, %d ms", b.at, time.Since(began).Milliseconds())
		})
	}
	checks.Wait()
	bad := 0
	for i, b := range all {
		if failed[i] {
			bad++
		}
		if _, err := fmt.Fprintf(out, "%-24s %s\n", b.name, lines[i]); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d back ends cannot be used", bad, len(all))
	}
	return nil
}

// GateBackEnd is the Redis of the gate.
func (s *Settings) GateBackEnd() BackEnd {
	return redisBackEnd("redis of the gate", s.Redis, redisconn.GateRights(), nil)
}

// LimitsBackEnd is the Redis of the limits. Settings that it shares with the gate keep their names.
func (s *Settings) LimitsBackEnd() BackEnd {
	var own []string
	if len(s.RedisAddrs) > 0 {
		own = []string{"REDIS_ADDRS", "REDIS_MODE", "REDIS_DB", "REDIS_SENTINEL_MASTER"}
	}
	if len(s.RedisAddrs) > 0 || s.RedisPassword.IsSet() {
		own = append(own, "REDIS_USERNAME", "REDIS_PASSWORD")
	}
	return redisBackEnd("redis of the limits", s.Settings.Redis(s.Redis), redisconn.LimitRights(), own)
}

func redisBackEnd(name string, s settings.Redis, rights redisconn.Rights, own []string) BackEnd {
	variables := map[string]string{"$ADDRESS": "REDIS_ADDRS", "$TLS": "REDIS_TLS", "$NAME": "REDIS_TLS_SERVER_NAME"}
	for _, v := range own {
		variables[v] = "LIMIT_" + v
	}
	if to := variables["REDIS_ADDRS"]; to != "" {
		variables["$ADDRESS"] = to
	}
	return BackEnd{name, strings.Join(s.Addrs, ","), kindRedis, variables, func(ctx context.Context) error {
		rdb := redisconn.New(redis.UniversalOptions{
			DialTimeout: dialTimeout, ReadTimeout: dialTimeout, WriteTimeout: dialTimeout, MaxRetries: -1,
		}, redisconn.To(s))
		defer func() { _ = rdb.Close() }()
		return redisconn.CheckRights(ctx, rdb, rights)
	}}
}

// BrokerBackEnd is RocketMQ, as a service uses it.
func (s *Settings) BrokerBackEnd(service string) BackEnd {
	variables := map[string]string{"$ADDRESS": "ROCKETMQ_NAMESRV"}
	at := strings.Join(s.NameServers, ",")
	return BackEnd{"rocketmq", at, kindRocketMQ, variables, func(ctx context.Context) error {
		return rocketmq.Check(ctx, rocketmq.Config{
			NameServers: s.NameServers, Prefix: s.Prefix, AccessKey: s.AccessKey, SecretKey: s.SecretKey.AtStart(),
			Publishes: contract.PublishedBy(service),
		}, contract.ConsumedBy(service))
	}}
}

// DatabaseBackEnd is the database of a service with these migrations.
func (s *Settings) DatabaseBackEnd(service string, m settings.MySQL, migrations fs.FS) BackEnd {
	variables := map[string]string{
		"$ADDRESS": "MYSQL_DSN", "$TLS": "MYSQL_DSN (tls=true)", "$NAME": "MYSQL_DSN", "<service>": service,
	}
	db, err := command.OpenDatabase(m, s.ClientCertificate, nil)
	if err != nil {
		return BackEnd{"mysql", "", kindMySQL, variables, func(context.Context) error { return err }}
	}
	return BackEnd{"mysql", sqldb.Server(db), kindMySQL, variables, func(ctx context.Context) error {
		defer func() { _ = sqldb.Close(db) }()
		return sqldb.Check(ctx, db, migrations)
	}}
}

// ServiceBackEnd is the internal listener of another service at the URL of a variable. path is a route that GET reads.
func ServiceBackEnd(service, variable, url, path string, secrets []string) BackEnd {
	client := http.Client{Timeout: connectTimeout}
	return HTTPBackEnd(service, variable, url, func(ctx context.Context) error {
		status := 0
		err := auth.TrySecrets(secrets, func(secret string) (int, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+path, nil)
			if err != nil {
				return 0, err
			}
			auth.SignInternal(req, secret)
			resp, err := client.Do(req)
			if err != nil {
				return 0, err
			}
			status = resp.StatusCode
			return status, resp.Body.Close()
		})
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s responds %d", url, status)
		}
		return err
	})
}

// KeysBackEnd is the URL of the published keys that verify tokens; none without one.
func KeysBackEnd(a settings.Auth) []BackEnd {
	if a.JWKSURL == "" {
		return nil
	}
	return []BackEnd{HTTPBackEnd("published keys", "AUTH_JWKS_URL", a.JWKSURL, func(ctx context.Context) error {
		return auth.CheckKeys(ctx, a.JWKSURL)
	})}
}

// HTTPBackEnd is a server at the URL of a variable.
func HTTPBackEnd(name, variable, url string, check func(ctx context.Context) error) BackEnd {
	variables := map[string]string{"$ADDRESS": variable, "$TLS": variable, "$NAME": variable}
	return BackEnd{name, url, kindHTTP, variables, check}
}

// sentence returns the variables that an error is about, the error, and its likely causes.
func (b BackEnd) sentence(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if wrong := (*settings.Error)(nil); errors.As(err, &wrong) {
		return text // names its variable
	}
	c := causeOf(b.kind, text)
	pairs := make([]string, 0, 2*len(b.variables))
	for from, to := range b.variables {
		pairs = append(pairs, from, to)
	}
	rename := strings.NewReplacer(pairs...)
	return rename.Replace(c.variables) + ": " + text + ": " + rename.Replace(c.says)
}
