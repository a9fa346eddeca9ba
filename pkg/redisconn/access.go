package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
)

// Denied reports whether Redis, or each Sentinel, refused the user, the password or a right of the user: the replies
// NOAUTH, WRONGPASS and NOPERM, and those of a script whose user lacks a right for one of its commands. An operator has
// to correct that; no retry does.
func Denied(err error) bool {
	if wrongKind(err) {
		return true
	}
	if redis.IsAuthError(err) || redis.IsPermissionError(err) {
		return true
	}
	var reply redis.Error
	return errors.As(err, &reply) && deniedInScript(reply.Error())
}

// deniedInScript reports whether the text is that of a script whose user lacks a right for one of its commands.
func deniedInScript(text string) bool {
	return strings.Contains(text, "The user executing the script ") || // 7.0
		strings.Contains(text, "ACL failure in script") // later versions
}

// wrongKind reports whether a server is none of the kind that the settings name: Sentinels have no scripts, and a single
// server has no cluster.
func wrongKind(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.ToLower(reply.Error())
	return strings.HasPrefix(text, "err unknown command") && strings.Contains(text, "eval") ||
		strings.HasPrefix(text, "err this instance has cluster support disabled")
}

// misconfigured reports whether an error stays until an operator corrects credentials, certificates or settings.
func misconfigured(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var setting *settings.Error
	var plain tls.RecordHeaderError
	return Denied(err) || errors.As(err, &untrusted) || errors.As(err, &plain) || errors.As(err, &setting) || errors.Is(err, errNoMaster) ||
		strings.Contains(err.Error(), "remote error: tls: ")
}

// Access observes whether a Redis lets this process in. It is safe for concurrent use.
type Access struct{ of *lifecycle.Access }

// Watch returns the Access of a client, which it observes from now on. name is that of the Redis in the log. While calls
// are refused, it logs an error and counts an incident once a minute.
func Watch(rdb redis.UniversalClient, name string, log *slog.Logger, incidents metric.Int64Counter) *Access {
	a := &Access{lifecycle.NewAccess("redis", name, log, incidents)}
	rdb.AddHook(a)
	return a
}

// Ready is that of lifecycle.Access.
func (a *Access) Ready() error { return a.of.Ready() }

// observe records the outcome of a call or a dial.
func (a *Access) observe(ctx context.Context, err error) {
	switch {
	case err == nil:
		a.of.Served()
	case misconfigured(err):
		a.of.Denied(ctx, err)
	}
}

// DialHook implements redis.Hook.
func (a *Access) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			a.observe(ctx, err)
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (a *Access) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.observe(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (a *Access) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil || misconfigured(err) {
			a.observe(ctx, err)
			return err
		}
		for _, cmd := range cmds { // err is that of the first one
			if e := cmd.Err(); e != nil {
				a.observe(ctx, e)
			}
		}
		return err
	}
}

// errNoMaster means that the Sentinels watch no master of the name.
var errNoMaster = errors.New("the Sentinels have no master of this name")

// sentinels is a hook of a client behind Sentinels. Their replies are not replies of Redis: without such a master
// the client reports redis.Nil, which means an absent key otherwise.
type sentinels struct{ master string }

// DialHook implements redis.Hook.
func (s sentinels) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if errors.Is(err, redis.Nil) {
			err = fmt.Errorf("%w: %s", errNoMaster, s.master)
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (sentinels) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (sentinels) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
