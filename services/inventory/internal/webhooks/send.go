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
	sendsAtOnce  = 8  // to an endpoint
	lanesAtOnce  = 32 // endpoints to which a process sends at the same time
	failingLanes = 16 // of these, those whose endpoint fails
	batch        = 64 // deliveries that a lane reads and ends at a time
	// A lane begins no attempt later than laneFor after it requested its lease, so its last one ends before that does.
	laneFor = 5 * time.Second
	lease   = laneFor + sendTimeout + 5*time.Second
	// LongestLease is more than a lease or a pause lasts.
	LongestLease = 2 * lease

	longestPause  = 30 * time.Second // of a failing endpoint
	longestAfter  = time.Hour        // for which Retry-After is honoured
	mostBodyBytes = 4 << 10          // read of a response, and dropped
)

const (
	failuresLogged = 10               // endpoints, once a minute
	scanBehind     = 10 * time.Minute // by which ScannedTo may be late before the scan counts as stalled; bursts take some
)

// waitsAtMost is how long a delivery waits: what queues behind others to an endpoint that fails uses up no attempt. Ten
// attempts take less.
const waitsAtMost = 84 * time.Hour

// pauses are those after each failed attempt. Ten attempts take 75 h.
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// failing reports whether as many attempts in a row have failed as are made at once. Then an endpoint gets one at a
// time, after a pause, until one succeeds: those that wait use up no attempt.
func failing(failures int) bool { return failures >= sendsAtOnce }

// leased reports whether a process may be sending to the endpoint, or it pauses. A later time was written while the
// clock of the database was wrong.
func (e Endpoint) leased(now time.Time) bool {
	return e.LeasedTo.After(now) && e.LeasedTo.Before(now.Add(LongestLease))
}

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
	list, err := s.due(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if s.begin(e) {
			s.sending.Go(func() {
				more, err := s.send(begin, drain, e)
				s.end(e.ID, more, err)
			})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err, s.failed = s.failed, nil
	return err
}

// due returns the active endpoints that have due deliveries and are not leased, those that wait longest first. It records
// how long deliveries wait.
func (s *Service) due(ctx context.Context) (list []Endpoint, err error) {
	var waiting, failing time.Duration
	defer func() { s.Recorder.OldestDelivery(waiting, failing, err) }()
	if list, err = s.Endpoints.ActiveWebhooks(ctx); err != nil {
		return nil, err
	}
	now, err := s.Queue.Now(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = e.ID
	}
	oldest, err := s.Queue.OldestWaiting(ctx, ids)
	if err != nil {
		return nil, err
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
	since, err := s.Queue.OldestDue(ctx, ids, now)
	list = slices.DeleteFunc(list, func(e Endpoint) bool { return since[e.ID].IsZero() || e.leased(now) })
	slices.SortFunc(list, func(a, b Endpoint) int { return since[a.ID].Compare(since[b.ID]) })
	return list, err
}

// begin reports whether a lane of an endpoint may start.
func (s *Service) begin(e Endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := 0
	for _, fails := range s.lanes {
		if fails {
			fail++
		}
	}
	_, runs := s.lanes[e.ID]
	if runs || len(s.lanes) >= lanesAtOnce || failing(e.Failures) && fail >= failingLanes {
		return false
	}
	s.lanes[e.ID] = failing(e.Failures)
	return true
}

// end ends a lane.
func (s *Service) end(id string, more bool, err error) {
	s.mu.Lock()
	if err != nil {
		s.failed = err
	}
	delete(s.lanes, id)
	s.mu.Unlock()
	if more {
		s.wakeUp()
	}
}

// lane sends to one endpoint while no other process does.
type lane struct {
	*Service
	e    Endpoint
	keys [][]byte  // that sign
	end  time.Time // no attempt begins later

	mu       sync.Mutex
	failures int           // in a row
	pause    time.Duration // of the endpoint, after the lane
}

// send sends due deliveries to one endpoint, until no more are due or it fails. more reports that its time has ended
// before.
func (s *Service) send(ctx, drain context.Context, e Endpoint) (more bool, err error) {
	l := &lane{Service: s, e: e, keys: s.keys(e, s.Now()), end: time.Now().Add(laneFor), failures: e.Failures}
	until, ok, err := s.Endpoints.LeaseEndpoint(drain, e.ID, lease)
	if err != nil || !ok {
		return false, err
	}
	for more = true; more && ctx.Err() == nil && time.Now().Before(l.end); {
		if more, err = l.sendBatch(ctx, drain); err != nil {
			return false, err // what was sent may not be written, and is sent again when the lease has ended
		}
	}
	return more, s.Endpoints.ReturnEndpoint(drain, e.ID, until, l.failures, l.pause)
}

// sendBatch sends a batch of due deliveries, and reports whether the lane goes on. Those that it does not attempt stay
// due.
func (l *lane) sendBatch(ctx, drain context.Context) (more bool, err error) {
	sends, reads := sendsAtOnce, batch
	if failing(l.failures) {
		sends, reads = 1, 1
	}
	list, err := l.Queue.DueDeliveries(ctx, l.e.ID, reads)
	if err != nil || len(list) == 0 {
		return false, err
	}
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range min(sends, len(list)) {
		wg.Go(func() {
			for !stop.Load() && ctx.Err() == nil && time.Now().Before(l.end) {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					return
				}
				if !l.attempt(drain, &list[i]) {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	list = list[:min(int(next.Load()), len(list))]
	for _, d := range list {
		if d.Status == http.StatusGone {
			err = errors.Join(err, l.update(drain, l.e, func(of *Endpoint) {
				if of.URL == l.e.URL && of.State == Active { // it may have another address by now
					of.State, of.Replay = Gone, ""
				}
			}))
		}
	}
	return !stop.Load(), errors.Join(err, l.Queue.EndAttempts(drain, list))
}

// attempt sends a delivery once, counts the attempt and sets the state. It reports whether the lane goes on.
func (l *lane) attempt(ctx context.Context, d *Delivery) (more bool) {
	status, after, err := l.post(ctx, l.e, l.keys, *d, d.Body)
	d.Attempts++
	d.Status, d.Error = status, describe(status, err)
	switch {
	case d.Error == "":
		d.State = Delivered
	case status == http.StatusGone || d.Attempts > len(pauses):
		d.State = Failed
	default:
		d.Pause = max(jitter(pauses[d.Attempts-1]), after)
	}
	return l.outcome(d.State != Delivered, after) && status != http.StatusGone
}

// outcome counts an attempt, and reports whether the lane goes on.
func (l *lane) outcome(failed bool, after time.Duration) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !failed {
		l.failures = 0
		return true
	}
	l.failures++
	if failing(l.failures) {
		after = max(after, time.Second<<min(l.failures-sendsAtOnce, 5))
	}
	if after > 0 {
		l.pause = max(l.pause, jitter(min(after, longestPause)))
	}
	return after == 0
}

// post sends a body, signed by the keys, and drops that of the response. after is its Retry-After.
func (s *Service) post(
	ctx context.Context, e Endpoint, keys [][]byte, d Delivery, text []byte,
) (status int, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(text))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	r.Header.Set("User-Agent", "flashsale-webhooks/1")
	if err := sign(r, keys, d.EventID(), text, s.Now()); err != nil {
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
	status, _, err := s.post(ctx, *e, s.keys(*e, s.Now()), d, text)
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
