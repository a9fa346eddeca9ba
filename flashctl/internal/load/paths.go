package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/internal/latency"
	"flashsale.internal/pkg/contract"
)

// Paths calls the path route at a fixed rate, whatever the responses. It measures the limits of that route.
type Paths struct {
	Addr       string // host:port of seckill
	ActivityID string
	Tokens     []string // of distinct users, used in turn
	Rate       float64  // calls a second
	For        time.Duration
	Conns      int // bound of the calls in flight, including those that wait for their turn
	// Body is the body of a purchase that is made at once with each issued path; "" means no purchase.
	Body string
}

// PathsResult is the result of Paths.
type PathsResult struct {
	Calls    int            `json:"calls"`
	Took     time.Duration  `json:"took_ns"`
	Outcomes map[string]int `json:"outcomes"`   // of the path calls: 201, or status and code
	PerSec   []int          `json:"per_second"` // paths issued in each second since the start
	// Late is the delay of calls after they were due, which this machine causes.
	Late latency.Summary `json:"late"`
	// Given is the time from the call to the path, including the wait; Refused from the call to the 429.
	Given     latency.Summary `json:"given"`
	Refused   latency.Summary `json:"refused"`
	Purchases map[string]int  `json:"purchases,omitempty"`
	Purchase  latency.Summary `json:"purchase"`
	// RetryAfter counts the 429 responses by their Retry-After in seconds.
	RetryAfter map[int]int `json:"retry_after_s"`
	// BadFields describes the first 429 with wrong fields; BadCount is their number.
	BadFields string `json:"bad_fields,omitempty"`
	BadCount  int    `json:"bad_count"`
	Failed    int    `json:"failed"` // calls without a response
	Example   string `json:"example,omitempty"`
}

// pathCaller makes calls over one connection and records the responses.
type pathCaller struct {
	*wire
	p        *Paths
	began    time.Time
	buf      []byte
	out      PathsResult
	late     []time.Duration
	given    []time.Duration
	refused  []time.Duration
	buys     []time.Duration
	issuedAt []time.Duration // since the start, of each path
}

// Run opens the connections, makes each call when it is due and waits for the responses.
func (p *Paths) Run(ctx context.Context) (PathsResult, error) {
	if p.Rate <= 0 || p.For <= 0 || p.Conns < 1 || len(p.Tokens) == 0 {
		return PathsResult{}, fmt.Errorf("%g calls a second for %s over %d connections by %d users",
			p.Rate, p.For, p.Conns, len(p.Tokens))
	}
	callers := make([]*pathCaller, p.Conns)
	for i := range callers {
		callers[i] = &pathCaller{
			wire: newWire(p.Addr, exchangeTimeout), p: p,
			out: PathsResult{Outcomes: map[string]int{}, Purchases: map[string]int{}, RetryAfter: map[int]int{}},
		}
		defer callers[i].close()
		if err := callers[i].dial(ctx); err != nil {
			return PathsResult{}, fmt.Errorf("connection %d of %d: %w", i+1, p.Conns, err)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range callers {
		c.began = began
		wg.Go(func() { c.work(ctx, &next) })
	}
	wg.Wait()
	return sum(callers, time.Since(began)), ctx.Err()
}

func sum(callers []*pathCaller, took time.Duration) PathsResult {
	out := PathsResult{Took: took, Outcomes: map[string]int{}, Purchases: map[string]int{}, RetryAfter: map[int]int{}}
	var late, given, refused, buys []time.Duration
	for _, c := range callers {
		for k, n := range c.out.Outcomes {
			out.Outcomes[k] += n
		}
		for k, n := range c.out.Purchases {
			out.Purchases[k] += n
		}
		for k, n := range c.out.RetryAfter {
			out.RetryAfter[k] += n
		}
		out.Calls += c.out.Calls
		out.Failed += c.out.Failed
		out.BadCount += c.out.BadCount
		if out.BadFields == "" {
			out.BadFields = c.out.BadFields
		}
		if out.Example == "" {
			out.Example = c.out.Example
		}
		late, given = append(late, c.late...), append(given, c.given...)
		refused, buys = append(refused, c.refused...), append(buys, c.buys...)
		for _, at := range c.issuedAt {
			second := int(at / time.Second)
			for len(out.PerSec) <= second {
				out.PerSec = append(out.PerSec, 0)
			}
			out.PerSec[second]++
		}
	}
	out.Late, out.Given = latency.Of(late), latency.Of(given)
	out.Refused, out.Purchase = latency.Of(refused), latency.Of(buys)
	return out
}

func (c *pathCaller) work(ctx context.Context, next *atomic.Int64) {
	for ctx.Err() == nil {
		i := next.Add(1) - 1
		due := time.Duration(float64(i) / c.p.Rate * float64(time.Second))
		if due >= c.p.For {
			return
		}
		until(ctx, c.began.Add(due))
		if ctx.Err() != nil {
			return
		}
		c.late = append(c.late, max(0, time.Since(c.began)-due))
		c.call(ctx, c.p.Tokens[int(i)%len(c.p.Tokens)])
	}
}

func (c *pathCaller) call(ctx context.Context, token string) {
	c.out.Calls++
	began := time.Now()
	status, body, err := c.post(ctx, "/v1/activities/"+c.p.ActivityID+"/paths", token, "{}", began)
	if err != nil {
		c.fail(err)
		return
	}
	took := time.Since(began)
	c.out.Outcomes[outcome(status, body)]++
	switch status {
	case 201:
		c.given = append(c.given, took)
		c.issuedAt = append(c.issuedAt, time.Since(c.began))
		var path struct{ Path string }
		if err := json.Unmarshal(body, &path); err != nil {
			c.fail(err)
		} else if c.p.Body != "" {
			c.buy(ctx, token, path.Path)
		}
	case 429:
		c.refused = append(c.refused, took)
		retry, err := refusalFields(c.head, body)
		if err != nil {
			c.out.BadCount++
			c.out.BadFields = err.Error()
		}
		c.out.RetryAfter[retry]++
	}
}

func (c *pathCaller) buy(ctx context.Context, token, path string) {
	began := time.Now()
	target := "/v1/activities/" + c.p.ActivityID + "/paths/" + path + "/reservations"
	status, body, err := c.post(ctx, target, token, c.p.Body, began)
	if err != nil {
		c.fail(err)
		return
	}
	c.buys = append(c.buys, time.Since(began))
	c.out.Purchases[outcome(status, body)]++
}

func (c *pathCaller) fail(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.out.Failed++
	if c.out.Example == "" {
		c.out.Example = err.Error()
	}
}

func (c *pathCaller) post(ctx context.Context, target, token, body string, now time.Time) (int, []byte, error) {
	c.buf = append(c.buf[:0], "POST "+target+" HTTP/1.1\r\nHost: "+c.p.Addr+"\r\nAuthorization: Bearer "+token+
		"\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body...)
	return c.exchange(ctx, c.buf, now)
}

// outcome returns the status, with the code of a refusal.
func outcome(status int, body []byte) string {
	if status < 300 {
		return strconv.Itoa(status)
	}
	var p struct{ Code string }
	_ = json.Unmarshal(body, &p) // the response of a proxy has no code
	return strings.TrimSpace(strconv.Itoa(status) + " " + p.Code)
}

// refusalFields checks the fields of a 429 and returns its Retry-After. RateLimit and RateLimit-Policy must list the
// limits that the body names, with nothing remaining, and Retry-After must not be below their t.
func refusalFields(head, body []byte) (retry int, err error) {
	fields := map[string]string{}
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if name, value, ok := strings.Cut(string(line), ":"); ok {
			name = strings.ToLower(name)
			fields[name] = strings.TrimPrefix(fields[name]+", "+strings.TrimSpace(value), ", ")
		}
	}
	if retry, err = strconv.Atoi(fields["retry-after"]); err != nil || retry < 1 {
		return 0, fmt.Errorf("Retry-After %q", fields["retry-after"])
	}
	var p struct {
		Code     contract.Code
		Violated []string `json:"violated_policies"`
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code != contract.CodeRateLimited || len(p.Violated) == 0 {
		return retry, fmt.Errorf("document %.200s", body)
	}
	limits, policies := strings.Split(fields["ratelimit"], ", "), strings.Split(fields["ratelimit-policy"], ", ")
	for _, name := range p.Violated {
		k := slices.IndexFunc(limits, func(l string) bool { return strings.HasPrefix(l, `"`+name+`";r=0;t=`) })
		if k < 0 {
			return retry, fmt.Errorf("RateLimit %q of a refusal by %s", fields["ratelimit"], name)
		}
		t, err := strconv.Atoi(limits[k][len(`"`+name+`";r=0;t=`):])
		if err != nil || t > retry {
			return retry, fmt.Errorf("RateLimit %q with Retry-After %d", fields["ratelimit"], retry)
		}
		if !slices.ContainsFunc(policies, func(l string) bool { return strings.HasPrefix(l, `"`+name+`";q=`) }) {
			return retry, fmt.Errorf("RateLimit-Policy %q of a refusal by %s", fields["ratelimit-policy"], name)
		}
	}
	return retry, nil
}
