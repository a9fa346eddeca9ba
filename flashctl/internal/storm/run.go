package storm

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"flashsale.internal/flashctl/client/load"
)

// maxBody bounds what is read of a response.
const maxBody = 1 << 20

// run is a part of a storm in progress.
type run struct {
	plan    Plan
	host    string // of the target, with its port
	config  *tls.Config
	session tls.ClientSessionCache // for returning connections

	mu     sync.Mutex
	report load.Report
	open   []net.Conn // kept until the last response
}

// prepare checks the plan and takes the TLS session of returning connections.
func prepare(ctx context.Context, plan Plan) (*run, error) {
	if err := plan.Check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(plan.Target)
	if err != nil {
		return nil, err
	}
	r := &run{plan: plan, host: u.Host}
	for _, name := range []string{Begun, Connected, Responses, Slow, HalfOpen} { // the order of the report
		r.report.Step(name)
	}
	if r.config, err = plan.tlsConfig(u); err != nil {
		return nil, err
	}
	if r.config != nil && plan.Returning > 0 {
		r.session = tls.NewLRUClientSessionCache(1)
		if err := r.takeSession(ctx); err != nil {
			return nil, fmt.Errorf("TLS session before the storm: %w", err)
		}
	}
	return r, nil
}

// takeSession makes one call, so that the session cache holds a session.
func (r *run) takeSession(ctx context.Context) error {
	conn, _, err := r.connect(ctx, 0, time.Now().Add(r.plan.Patience), true)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = exchange(conn, r.read())
	return err
}

// storm begins every connection at its time after start, and returns when all have ended.
func (r *run) storm(ctx context.Context, start time.Time) (load.Report, error) {
	defer func() {
		for _, c := range r.open {
			_ = c.Close()
		}
	}()
	var all sync.WaitGroup
	all.Go(func() {
		r.spread(ctx, start, len(r.plan.Tokens), func(i int) { r.request(ctx, i, start) })
	})
	all.Go(func() {
		r.spread(ctx, start, r.plan.Slow, func(i int) { r.hold(ctx, i, Slow, r.readSlowly) })
	})
	all.Go(func() {
		r.spread(ctx, start, r.plan.HalfOpen, func(i int) { r.hold(ctx, i, HalfOpen, r.sendHalf) })
	})
	all.Wait()
	r.report.Took = time.Since(start)
	return r.report, ctx.Err()
}

// spread calls do(0) to do(n-1) concurrently, at equal intervals within plan.Within after start, and waits for them.
func (r *run) spread(ctx context.Context, start time.Time, n int, do func(i int)) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range n {
		due := time.NewTimer(time.Until(start.Add(r.plan.Within * time.Duration(i) / time.Duration(n))))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case <-due.C:
			all.Go(func() { do(i) })
		}
	}
}

// request opens connection i, sends its path request and records the response.
func (r *run) request(ctx context.Context, i int, start time.Time) {
	began := time.Now()
	returning := r.session != nil && i%100 < r.plan.Returning
	conn, connected, err := r.connect(ctx, i, began.Add(r.plan.Patience), returning)
	var outcome string
	if err == nil {
		target := load.Target{Host: r.host, ActivityID: r.plan.ActivityID}
		outcome, err = exchange(conn, target.AppendPath(nil, r.plan.Tokens[i]))
	}
	took := time.Since(began)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Step(Begun).Time(began.Sub(start))
	if connected > 0 {
		r.report.Step(Connected).Time(connected)
	}
	if c, ok := conn.(*tls.Conn); ok {
		session := NewSession
		if c.ConnectionState().DidResume {
			session = Resumed
		}
		r.report.Step(Connected).Count(session, 1)
	}
	if response := r.report.Step(Responses); err != nil {
		response.Fail(kindOf(err), err)
	} else {
		response.Count(outcome, 1)
		response.Time(took)
	}
	switch {
	case conn == nil:
	case err == nil && r.plan.KeepOpen:
		r.open = append(r.open, conn)
	default:
		_ = conn.Close()
	}
}

// connect opens connection i, with TLS where the target has it. It returns the time until the connection was usable.
func (r *run) connect(ctx context.Context, i int, deadline time.Time, returning bool) (net.Conn, time.Duration, error) {
	began := time.Now()
	conn, err := r.dialer(i, deadline).DialContext(ctx, "tcp", r.host)
	if err != nil {
		return nil, 0, &stageError{"connect", err}
	}
	_ = conn.SetDeadline(deadline) // fails only on a closed connection, as the next call does
	if r.config == nil {
		return conn, time.Since(began), nil
	}
	secured, err := r.secure(ctx, conn, returning)
	if err != nil {
		_ = conn.Close()
		return nil, 0, err
	}
	return secured, time.Since(began), nil
}

func (r *run) secure(ctx context.Context, conn net.Conn, returning bool) (*tls.Conn, error) {
	config := r.config
	if returning {
		config = config.Clone()
		config.ClientSessionCache = r.session
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, &stageError{"tls", err}
	}
	return secured, nil
}

func (r *run) dialer(i int, deadline time.Time) *net.Dialer {
	d := &net.Dialer{Deadline: deadline}
	if r.plan.Sources > 0 {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%r.plan.Sources))}
	}
	return d
}

// exchange sends a request and returns its outcome.
func exchange(conn net.Conn, request []byte) (string, error) {
	if _, err := conn.Write(request); err != nil {
		return "", &stageError{"request", err}
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 2048), nil)
	if err != nil {
		return "", &stageError{"response", err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return "", &stageError{"response", err}
	}
	return load.Outcome(resp.StatusCode, body), nil
}

// read is a request for the activity, which needs no token.
func (r *run) read() []byte {
	return load.AppendRequest(nil, http.MethodGet, "/v1/activities/"+r.plan.ActivityID, r.host, "", "")
}
