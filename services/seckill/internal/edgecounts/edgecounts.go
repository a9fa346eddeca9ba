// Package edgecounts counts the responses of nginx, which reports each by a datagram of syslog: also those that no
// service has seen, since a limit refused them or no service responded.
package edgecounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/telemetry"
)

const (
	readBuffer = 4 << 20     // bytes that wait in the kernel, if net.core.rmem_max allows them
	longest    = 512         // bytes of a datagram
	stopCheck  = time.Second // longest wait for the end of ctx
	warnEvery  = time.Minute // for datagrams that cannot be read
	refused    = "REJECTED"  // of $limit_req_status and $limit_conn_status
	byStatus   = "http.response.status_code"
	byLimit    = "flashsale.limit" // none, rate or connections
)

// Counts are the counters.
type Counts struct {
	responses metric.Int64Counter
	series    map[response]metric.MeasurementOption
}

type response struct {
	status int
	limit  string
}

// New makes the counters. Those of the usual responses begin at 0.
func New(tel *telemetry.Telemetry) (*Counts, error) {
	c := &Counts{series: map[response]metric.MeasurementOption{}}
	var begun []metric.MeasurementOption
	for _, r := range []response{
		{200, "none"},
		{202, "none"},
		{409, "none"},
		{429, "none"},
		{429, "rate"},
		{429, "connections"},
		{500, "none"},
		{502, "none"},
		{503, "none"},
		{504, "none"},
	} {
		begun = append(begun, c.of(r))
	}
	var err error
	c.responses, err = telemetry.NewCounter(tel.Meter, "flashsale.edge.responses", "{response}",
		"Responses of the edge, by status and by the limit of the edge that refused the request.", begun...)
	return c, err
}

// of returns the series of a response. Only receive calls it after New.
func (c *Counts) of(r response) metric.MeasurementOption {
	s, ok := c.series[r]
	if !ok {
		s = metric.WithAttributeSet(attribute.NewSet(attribute.Int(byStatus, r.status), attribute.String(byLimit, r.limit)))
		c.series[r] = s
	}
	return s
}

// Listen receives datagrams at addr until ctx ends.
func (c *Counts) Listen(ctx context.Context, addr string, log *slog.Logger) error {
	l, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", addr)
	if err != nil {
		return fmt.Errorf("cannot receive datagrams at %s: %w", addr, err)
	}
	return c.receive(ctx, l, log)
}

// receive closes l at the end. The kernel drops datagrams that come faster than they are read.
func (c *Counts) receive(ctx context.Context, l net.PacketConn, log *slog.Logger) error {
	defer func() { _ = l.Close() }()
	if udp, ok := l.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(readBuffer) // as much as the kernel allows
	}
	var warned time.Time
	buf := make([]byte, longest)
	for ctx.Err() == nil {
		if err := l.SetReadDeadline(time.Now().Add(stopCheck)); err != nil {
			return err
		}
		n, _, err := l.ReadFrom(buf)
		if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			continue
		} else if err != nil {
			return err
		}
		r, err := parse(string(buf[:n]))
		if err != nil {
			if now := time.Now(); now.Sub(warned) >= warnEvery {
				warned = now
				log.WarnContext(ctx, "a report of nginx cannot be read", "error", err)
			}
			continue
		}
		c.responses.Add(ctx, 1, c.of(r))
	}
	return nil
}

// parse reads the last three words of a datagram: $status $limit_req_status $limit_conn_status.
func parse(datagram string) (response, error) {
	words := strings.Fields(datagram)
	if len(words) < 3 {
		return response{}, fmt.Errorf("%q has fewer than three words", datagram)
	}
	words = words[len(words)-3:]
	status, err := strconv.Atoi(words[0])
	if err != nil || status < 100 || status > 599 {
		return response{}, fmt.Errorf("%q has no status", datagram)
	}
	switch {
	case words[1] == refused:
		return response{status, "rate"}, nil
	case words[2] == refused:
		return response{status, "connections"}, nil
	}
	return response{status, "none"}, nil
}
