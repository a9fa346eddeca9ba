package bench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
)

// Paths is one measurement of path requests, each of another buyer.
type Paths struct {
	Name   string  `json:"name"`
	Sample Sample  `json:"sample"`
	Redis  float64 `json:"redis_scripts"` // scripts that Redis ran, for each request
}

// The sales of the section guarded. Its buyers have all they need before the window begins: the window is shorter than
// the time for which a place in the room and a pass are valid.
const (
	guardedBuyers     = 8_000
	guardedTurns      = 3
	guardedAdmission  = 10_000 // places a second
	guardedDifficulty = 1      // of the proof of work, which is solved before the window
	guardedCallers    = 256
)

// guarded measures path requests of sales without and with waiting room and challenge, in turns.
func (b *bench) guarded(ctx context.Context) error {
	for range guardedTurns {
		for _, guard := range []bool{false, true} {
			if err := b.measurePaths(ctx, guard); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) measurePaths(ctx context.Context, guard bool) error {
	n := b.scaledCount(guardedBuyers, 200)
	p, draft := Paths{Name: "path"}, client.Draft{}
	if guard {
		p.Name = "path, with waiting room and challenge"
		draft.WaitingRoom = &client.WaitingRoom{AdmitPerSecond: guardedAdmission}
		draft.Captcha, draft.CaptchaDifficulty = contract.CaptchaPow, guardedDifficulty
	}
	s, err := b.newSaleOf(ctx, draft, int64(n), 24*time.Hour)
	if err != nil {
		return err
	}
	buyers, err := b.newBuyers(n)
	if err != nil {
		return err
	}
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = "{}"
	}
	if guard {
		if bodies, err = b.admitted(ctx, s, buyers); err != nil {
			return err
		}
	}
	var wrong atomic.Value
	batch := b.batch(traffic{}, n)
	target := "/v1/activities/" + s.id + "/paths"
	batch.Request = func(i int, buf []byte) []byte {
		return request(buf, "POST", target, b.cfg.seckill(), buyers[i].token, bodies[i])
	}
	batch.Response = pathResponse(s, buyers, &wrong)
	before, err := redisScripts(ctx, b.cfg.Redis)
	if err != nil {
		return err
	}
	p.Sample, err = b.measure(ctx, p.Name, batch)
	if err := checked("path", p.Sample.BatchResult, &wrong, err); err != nil {
		return err
	}
	after, err := redisScripts(ctx, b.cfg.Redis)
	p.Redis = ratio(float64(after-before), float64(n))
	b.report.Paths = append(b.report.Paths, p)
	return err
}

// admitted takes the buyers through the waiting room and the challenge, and returns the bodies of their path requests.
func (b *bench) admitted(ctx context.Context, s *sale, buyers []buyer) ([]string, error) {
	bodies := make([]string, len(buyers))
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(guardedCallers)
	for i := range buyers {
		calls.Go(func() error {
			caller := b.client.As(buyers[i].token)
			ticket, err := caller.JoinRoom(ctx, s.id)
			if err != nil {
				return fmt.Errorf("join the waiting room: %w", err)
			}
			pass, err := passOf(ctx, caller, s.id, ticket)
			bodies[i] = `{"room_ticket":"` + ticket + `","captcha_pass":"` + pass + `"}`
			return err
		})
	}
	return bodies, calls.Wait()
}

// passOf waits for a buyer's admission and returns the pass for the solved challenge.
func passOf(ctx context.Context, caller *client.Caller, activityID, ticket string) (string, error) {
	for began := time.Now(); ; {
		state, err := caller.RoomTicket(ctx, activityID, ticket)
		switch {
		case err != nil:
			return "", fmt.Errorf("read the ticket: %w", err)
		case state.State == "admitted":
			return caller.PassByWork(ctx, activityID, ticket)
		case time.Since(began) > stallTimeout:
			return "", fmt.Errorf("a buyer was not admitted within %s: %s", stallTimeout, state.State)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// redisScripts returns how many scripts Redis has run: on the path route, every call to Redis is a script.
func redisScripts(ctx context.Context, redis string) (n int64, err error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", redis)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	// The PING's reply ends the text.
	if _, err := fmt.Fprint(conn, "INFO commandstats\r\nPING\r\n"); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "+PONG" {
			return n, nil
		}
		name, figures, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_eval" && name != "cmdstat_evalsha" && name != "cmdstat_evalsha_ro" {
			continue
		}
		calls, _, _ := strings.Cut(figures, ",")
		of, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO commandstats of %s: %q", redis, line)
		}
		n += of
	}
	return 0, fmt.Errorf("INFO commandstats of %s: %w", redis, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
}

// paths prints the path requests: the median run of each name.
func (r *Report) paths(p printer) {
	if len(r.Paths) == 0 {
		return
	}
	p("| Path requests | runs | per second | p50 | p99 | seckill, µs | redis, µs | Redis scripts |")
	p("|---|---:|---:|---:|---:|---:|---:|---:|")
	var names []string
	runs, calls := map[string]Series{}, map[string][]float64{}
	for _, of := range r.Paths {
		if runs[of.Name] == nil {
			names = append(names, of.Name)
		}
		runs[of.Name] = append(runs[of.Name], of.Sample)
		calls[of.Name] = append(calls[of.Name], of.Redis)
	}
	for _, name := range names {
		m := runs[name].median()
		p("| %s | %d | %s | %s | %s | %.1f | %.1f | %.3f |", name, len(runs[name]), rate(m.PerSec), ms(m.Latency.P50),
			ms(m.Latency.P99), m.Use.per("seckill", m.Count), m.Use.per("redis", m.Count), middle(calls[name]))
	}
	p("")
}
