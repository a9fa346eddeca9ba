// Package process opens what every service process needs and composes its components.
package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"
	"gorm.io/gorm"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
)

// Settings are those that every service process has.
type Settings struct {
	settings.App
	settings.HTTP
	settings.Redis // of the limits, and of the gate where the service has one
	settings.RocketMQ
	admission.Settings
}

// Process is a service process before it serves.
type Process struct {
	Telemetry *telemetry.Telemetry
	Bus       *rocketmq.Bus
	Limits    *admission.Limits

	s         Settings
	closers   []lifecycle.Component
	incidents metric.Int64Counter
	gate      *redisconn.Access // nil without GateRedis
}

// Validate reports settings that no Redis of the process uses, and in production credentials without TLS.
func (s *Settings) Validate(production bool) error {
	limits := s.Settings.Redis(s.Redis)
	if err := settings.CheckEncrypted("", s.Redis, production); err != nil {
		return err
	}
	prefix := "LIMIT_"
	if !s.RedisPassword.IsSet() {
		prefix = ""
	}
	if err := settings.CheckEncrypted(prefix, limits, production); err != nil {
		return err
	}
	return settings.CheckSentinels(s.Redis, limits)
}

// Service is the part of a service that all services have.
type Service interface {
	Handler() http.Handler
	Ready() error
	Components() []lifecycle.Component
}

// Open sets up telemetry, logs all settings of the process, and makes the message bus and the limits. It starts
// nothing, and no dependency has to be reachable.
func Open(ctx context.Context, service string, s Settings, all any) (*Process, error) {
	tel, err := telemetry.Setup(ctx, service, command.Version(),
		telemetry.Options{Production: s.Production(), LogLevel: s.LogLevel})
	if err != nil {
		return nil, err
	}
	settings.LogAtStart(ctx, tel.Log, all)
	redisconn.LogTo(tel.Log)
	incidents, err := tel.Incidents()
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	broker, err := rocketmq.New(rocketmq.Config{
		NameServers: s.NameServers, Prefix: s.Prefix, AccessKey: s.AccessKey, SecretKey: s.SecretKey.AtStart(),
		Publishes: contract.PublishedBy(service), Incidents: incidents,
	}, tel.Log)
	if err != nil {
		return nil, err
	}
	limits, err := admission.New(s.Settings, s.Redis, tel)
	if err != nil {
		return nil, err
	}
	return &Process{Telemetry: tel, Bus: broker, Limits: limits, s: s, incidents: incidents}, nil
}

// Database opens the service's database, which Run closes.
func (p *Process) Database(m settings.MySQL) (*gorm.DB, error) {
	db, err := command.OpenDatabase(m, p.s.ClientCertificate, p.Telemetry.Log)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, lifecycle.AtEnd("database", func(context.Context) error { return sqldb.Close(db) }))
	return db, nil
}

// GateRedis makes the client for the Redis of the gate, which Run closes.
func (p *Process) GateRedis() (redis.UniversalClient, error) {
	rdb := stockgate.Connect(p.s.Addrs, p.s.DB, redisconn.To(p.s.Redis))
	p.gate = redisconn.Watch(rdb, "gate", p.Telemetry.Log, p.incidents)
	p.closers = append(p.closers, lifecycle.AtEnd("redis", func(context.Context) error { return rdb.Close() }))
	return rdb, nil
}

// ready reports why the process cannot accept callers: for reasons of the service, or because RocketMQ or the Redis of
// the gate denies access. The limits act without theirs.
func (p *Process) ready(svc Service) error {
	errs := []error{svc.Ready(), p.Bus.Ready()}
	if p.gate != nil {
		errs = append(errs, p.gate.Ready())
	}
	return errors.Join(errs...)
}

// Run serves the API of svc, and further listeners, until ctx is done. Components end in the reverse order: listeners
// first, then background work, then the dependencies that both need.
func (p *Process) Run(ctx context.Context, svc Service, listeners ...lifecycle.Component) error {
	log := p.Telemetry.Log
	all := append([]lifecycle.Component{p.Telemetry.Component()}, p.closers...)
	all = append(all, lifecycle.AtEnd("message bus", p.Bus.Close))
	all = append(all, p.Limits.Components()...)
	all = append(all, svc.Components()...)
	ready := func() error { return p.ready(svc) }
	all = append(all, httpserver.Admin("ADMIN_ADDR", p.s.AdminAddr, ready, p.Telemetry.Metrics, p.s.PProf, log))
	all = append(all, listeners...)
	all = append(all, httpserver.Listen("HTTP_ADDR", p.s.HTTP.Addr, svc.Handler(), log))
	return lifecycle.Run(ctx, log, p.s.DrainTimeout, all...)
}
