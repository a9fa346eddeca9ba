package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

const (
	sendTimeout  = 15 * time.Second
	sendsAtOnce  = 8  // to one endpoint from one process
	lanesAtOnce  = 32 // endpoints to which a process sends at the same time
	failingLanes = 16 // of these, those whose endpoint fails
	claimLimit   = 64 // deliveries that a lane claims at a time
	// A lane begins no attempt later than laneFor after its claim, so its last one ends before the lease does.
	laneFor = 30 * time.Second
	lease   = time.Minute

	longestPause  = 30 * time.Second // of a failing endpoint
	longestAfter  = time.Hour        // for which Retry-After is honoured
	mostBodyBytes = 4 << 10          // read of a response, and dropped
)

const (
	failuresLogged = 10              // endpoints, once a minute
	scanBehind     = 2 * time.Minute // by which ScannedTo may be late before the scan counts as stalled
)

// waitsAtMost is how long a delivery waits: what queues behind others to an endpoint that fails uses up no attempt. Ten
// attempts take less.
const waitsAtMost = 84 * time.Hour

// pauses are those after each failed attempt. Ten attempts take 75 h.
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// lane is the state of an endpoint in this process. An endpoint fails after as many failed attempts in a row as are made
// at once. Then it gets one at a time, after a pause, until one succeeds: those that wait use up no attempt.
type lane struct {
	running  bool
	failures int       // in a row
	paused   time.Time // until then
}

func (l *lane) failing() bool { return l.failures >= sendsAtOnce }

// Woken returns the channel that has a value when deliveries may have become due.
func (s *Service) Woken() <-chan struct{} { return s.wake }

// Wait waits for the attempts that have begun.
func (s *Service) Wait() { s.sending.Wait() }

func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Dispatch starts sending to each endpoint with due deliveries, those that wait longest first. It begins attempts until
// begin ends; those that have begun last until drain ends. It returns its own errors, and those of the tables since the
// last call. Its caller calls Wait at the end.
func (s *Service) Dispatch(ctx, begin, drain context.Context) error {
	if !s.Enabled() {
		return nil
	}
	if err := s.CheckClocks(ctx); err != nil {
		s.Recorder.OldestDelivery(0, 0, err)
		return nil // the check logs the incident
	}
	list, due, err := s.due(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b Endpoint) int { return due[a.ID].Compare(due[b.ID]) })
	for _, e := range list {
		if _, waits := due[e.ID]; waits && s.begin(e.ID) {
			s.sending.Go(func() { s.end(e.ID, s.send(begin, drain, e)) })
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err, s.failed = s.failed, nil
	return err
}

// due returns the active endpoints, and since when each has due deliveries. It records how long deliveries wait.
func (s *Service) due(ctx context.Context) (list []Endpoint, due map[string]time.Time, err error) {
	var waiting, failing time.Duration
	defer func() { s.Recorder.OldestDelivery(waiting, failing, err) }()
	if list, err = s.Endpoints.ActiveWebhooks(ctx); err != nil {
		return nil, nil, err
	}
	now, err := s.Queue.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.ID
	}
	oldest, err := s.Queue.OldestWaiting(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	lines := 0
	if s.Now().Sub(s.logged) >= time.Minute {
		lines, s.logged = failuresLogged, s.Now()
	}
	for _, e := range list {
		waiting = max(waiting, now.Sub(e.ScannedTo)-scanBehind)
		d, waits := oldest[e.ID]
		switch age := now.Sub(d.CreatedAt); {
		case !waits:
		case d.Error == "":
			waiting = max(waiting, age)
		default:
			failing = max(failing, age)
			if lines--; lines >= 0 {
				s.Log.WarnContext(ctx, "the endpoint of a webhook fails", "webhook_id", e.ID, "merchant_id", e.MerchantID,
					"order_sn", d.OrderSN, "attempts", d.Attempts, "next_at", d.NextAt, "error", d.Error)
			}
		}
	}
	due, err = s.Queue.DueDeliveries(ctx, ids, now)
	return list, due, err
}

// begin reports whether a lane of an endpoint may start.
func (s *Service) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	running, failing := 0, 0
	for _, l := range s.lanes {
		if l.running {
			running++
			if l.failing() {
				failing++
			}
		}
	}
	l := s.lanes[id]
	if l == nil {
		l = &lane{}
	}
	if l.running || running >= lanesAtOnce || s.Now().Before(l.paused) || l.failing() && failing >= failingLanes {
		return false
	}
	l.running = true
	s.lanes[id] = l
	return true
}

// end ends a lane. More may be due.
func (s *Service) end(id string, err error) {
	s.mu.Lock()
	if err != nil {
		s.failed = err
	}
	l := s.lanes[id]
	l.running = false
	if l.failures == 0 {
		delete(s.lanes, id)
	}
	s.mu.Unlock()
	if err == nil {
		s.wakeUp()
	}
}

// outcome counts an attempt, and reports whether the lane goes on.
func (s *Service) outcome(id string, failed bool, after time.Duration) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[id]
	if !failed {
		l.failures = 0
		return true
	}
	l.failures++
	pause := after
	if l.failing() {
		pause = max(pause, time.Second<<min(l.failures-sendsAtOnce, 5))
	}
	if pause > 0 {
		l.paused = s.Now().Add(jitter(min(pause, longestPause)))
	}
	return pause == 0
}

// atOnce returns how many attempts a lane makes at a time, and how many deliveries it claims.
func (s *Service) atOnce(id string) (sends, claims int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lanes[id].failing() {
		return 1, 1
	}
	return sendsAtOnce, claimLimit
}

// send sends due deliveries to one endpoint, until no more are due or it fails.
func (s *Service) send(ctx, drain context.Context, e Endpoint) error {
	sends, claims := s.atOnce(e.ID)
	list, err := s.Queue.ClaimDeliveries(ctx, e.ID, lease, claims)
	if err != nil || len(list) == 0 {
		return err
	}
	until := time.Now().Add(laneFor)
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	tried, pause := make([]bool, len(list)), make([]time.Duration, len(list))
	for range min(sends, len(list)) {
		wg.Go(func() {
			for !stop.Load() && ctx.Err() == nil && time.Now().Before(until) {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				tried[i] = true
				wait, more := s.attempt(drain, e, &list[i])
				if pause[i] = wait; !more {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	var delivered []Delivery
	for i, d := range list {
		if tried[i] && d.Status == http.StatusGone {
			err = errors.Join(err, s.update(drain, e, func(of *Endpoint) {
				if of.URL == e.URL && of.State == Active { // it may have another address by now
					of.State, of.Replay = Gone, ""
				}
			}))
		}
		switch {
		case !tried[i]: // still due, and this was no attempt
			d.Attempts--
			err = errors.Join(err, s.Queue.ReturnDelivery(drain, d, d.Attempts+1, 0))
		case d.State == Delivered:
			delivered = append(delivered, d)
		default:
			err = errors.Join(err, s.Queue.ReturnDelivery(drain, d, d.Attempts, pause[i]))
		}
	}
	return errors.Join(err, s.Queue.FinishDeliveries(drain, delivered))
}

// attempt sends a delivery once and sets its state. It returns the pause before the next attempt, and whether the lane
// goes on.
func (s *Service) attempt(ctx context.Context, e Endpoint, d *Delivery) (pause time.Duration, more bool) {
	status, after, err := s.post(ctx, e, *d, d.Body)
	d.Status, d.Error = status, describe(status, err)
	switch {
	case d.Error == "":
		d.State = Delivered
	case status == http.StatusGone || d.Attempts > len(pauses):
		d.State = Failed
	default:
		pause = max(jitter(pauses[d.Attempts-1]), after)
	}
	return pause, s.outcome(e.ID, d.State != Delivered, after) && status != http.StatusGone
}

// post sends a body and drops that of the response. after is its Retry-After.
func (s *Service) post(
	ctx context.Context, e Endpoint, d Delivery, text []byte,
) (status int, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(text))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	r.Header.Set("User-Agent", "flashsale-webhooks/1")
	if err := s.sign(r, e, d.EventID(), text, s.Now()); err != nil {
		return 0, 0, err
	}
	response, err := s.Client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, mostBodyBytes) // so that the connection is used again
	return response.StatusCode, retryAfter(response, s.Now()), nil
}

// Outcome is what an endpoint responded to a test.
type Outcome struct {
	Status int    // 0 without a response
	Error  string // "" if the event was delivered
}

// Test sends an event of the type webhook.test, without data, once.
func (s *Service) Test(ctx context.Context, by core.Caller, id string) (Outcome, error) {
	e, err := s.Get(ctx, by.Scope(), id)
	if err != nil {
		return Outcome{}, err
	}
	d := Delivery{EndpointID: e.ID, Type: testType, ChangedAt: s.Now()}
	text, err := body(*e, d, struct{}{})
	if err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	status, _, err := s.post(ctx, *e, d, text)
	return Outcome{Status: status, Error: describe(status, err)}, nil
}

// testTimeout is below the time-out of a call of the API.
const testTimeout = 10 * time.Second

// describe returns what merchants read of a failed attempt, "" after a success. Errors name internal addresses, so they
// are not shown.
func describe(status int, err error) string {
	var untrusted *tls.CertificateVerificationError
	var name *net.DNSError
	var timeout net.Error
	switch {
	case err == nil && status >= 200 && status < 300:
		return ""
	case err == nil:
		return fmt.Sprintf("status %d", status)
	case errors.Is(err, errNoSecret):
		return errNoSecret.Error()
	case errors.Is(err, errNotAdmitted):
		return errNotAdmitted.Error()
	case errors.As(err, &untrusted):
		return "the certificate is not trusted"
	case errors.As(err, &name):
		return "the name of the host cannot be resolved"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no response in time"
	}
	return "no response"
}

// retryAfter returns the Retry-After of a response, 0 without one.
func retryAfter(r *http.Response, now time.Time) time.Duration {
	text := r.Header.Get("Retry-After")
	after := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		after = time.Duration(min(max(seconds, 0), int(longestAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		after = at.Sub(now)
	}
	return min(max(after, 0), longestAfter)
}

// jitter returns 0.9 to 1.1 times a pause.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // no secret depends on it
}
