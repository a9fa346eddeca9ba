package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
)

type pathsCmd struct {
	loadFlags
	Rate  float64       `default:"5000" help:"Calls a second (open loop)."`
	For   time.Duration `default:"20s" help:"Duration."`
	Users int           `default:"5000" help:"Distinct users, used in turn."`
	Conns int           `default:"2500" help:"Bound of the calls in flight, those that wait included."`
	Stock int64         `default:"1000000" help:"Units of the new sale."`
	Buy   bool          `default:"true" negatable:"" help:"Make a purchase with each path at once."`
}

// Validate is called by kong.
func (c *pathsCmd) Validate() error {
	if c.Rate <= 0 || c.For <= 0 || c.Users < 1 || c.Conns < 1 {
		return fmt.Errorf("%g calls a second for %s by %d users over %d connections", c.Rate, c.For, c.Users, c.Conns)
	}
	return nil
}

// maxPerUser is the limit for each user of the new sale; each user buys many times.
const maxPerUser = 1600

func (c *pathsCmd) Run(e env) error {
	cl, err := e.connect(client.Options{})
	if err != nil {
		return err
	}
	defer cl.Close()
	origin, err := url.Parse(cl.Origins().Seckill)
	if err != nil {
		return err
	}
	report, err := c.test(e, cl, loadTest{
		stock: c.Stock, payWithin: 15 * time.Minute, perUser: maxPerUser, users: c.Users,
		run: func(activityID, sku string, buyers []purchase.Buyer) (load.Report, error) {
			r := &pathsRun{target: load.Target{Host: origin.Host, ActivityID: activityID, SKUID: sku}, buyers: buyers}
			batch := load.Batch{
				Addr: origin.Host, Conns: c.Conns, For: c.For, Rate: c.Rate, Attempts: 1,
				Request: func(i int, buf []byte) []byte { return r.target.AppendPath(buf, r.token(i)) }, Response: r.path,
			}
			if c.Buy && sku != "" {
				batch.Second, batch.SecondResponse = r.buy, r.bought
			}
			r.began = time.Now()
			result, err := batch.Send(e.ctx)
			return r.report(result), err
		},
	})
	if wrong := report.Step(refusedFields); err == nil && len(wrong.Outcomes) > 0 {
		return fmt.Errorf("refusals have wrong fields: %v", wrong.Examples)
	}
	return err
}

// pathsRun records the responses to path requests, and to the purchases that follow them.
type pathsRun struct {
	target load.Target
	buyers []purchase.Buyer
	began  time.Time

	mu       sync.Mutex
	given    map[int]string // paths that were issued and are not yet used, by call
	calls    load.Step      // times: from a call to its path, with the wait
	refusals load.Step      // times: from a call to its 429; outcomes: Retry-After
	wrong    load.Step      // responses 429 with wrong fields
	buys     load.Step
}

func (r *pathsRun) token(i int) string { return r.buyers[i%len(r.buyers)].Token() }

func (r *pathsRun) path(i int, got *load.Response) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.Count(load.Outcome(got.Status, got.Body), 1)
	switch got.Status {
	case 201:
		r.calls.Time(got.Took)
		r.calls.Succeed(time.Since(r.began))
		if r.given == nil {
			r.given = map[int]string{}
		}
		r.given[i] = got.Member("path")
	case 429:
		r.refusals.Time(got.Took)
		retry, err := refusalFields(got)
		if err != nil {
			r.wrong.Fail("wrong", err)
		}
		r.refusals.Count("Retry-After "+strconv.Itoa(retry), 1)
	}
	return false
}

// buy appends the purchase of the path that call i got, if it got one.
func (r *pathsRun) buy(i int, buf []byte) []byte {
	r.mu.Lock()
	path := r.given[i]
	delete(r.given, i)
	r.mu.Unlock()
	if path == "" {
		return buf
	}
	return r.target.AppendPurchase(buf, r.token(i), path)
}

func (r *pathsRun) bought(_ int, got *load.Response) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buys.Time(got.Took)
	r.buys.Count(load.Outcome(got.Status, got.Body), 1)
	return false
}

const (
	noResponse    = "no response"   // outcome of a call
	refusedFields = "fields of 429" // step of the report: the refusals with wrong fields
)

func (r *pathsRun) report(result load.BatchResult) load.Report {
	if result.GivenUp > 0 {
		r.calls.Fail(noResponse, errors.New(result.Example))
		r.calls.Outcomes[noResponse] = result.GivenUp
	}
	r.calls.Name, r.refusals.Name, r.wrong.Name, r.buys.Name = "path", "refusal", refusedFields, "purchase"
	result.Late.Name = "sent late"
	return load.Report{Took: result.Took, Steps: []load.Step{result.Late, r.calls, r.refusals, r.wrong, r.buys}}
}

// refusalFields checks the fields of a 429 and returns its Retry-After. RateLimit and RateLimit-Policy must list the
// limits that the body names, with nothing remaining, and Retry-After must not be below their t.
func refusalFields(r *load.Response) (retry int, err error) {
	if retry, err = strconv.Atoi(r.Field("Retry-After")); err != nil || retry < 1 {
		return 0, fmt.Errorf("Retry-After %q", r.Field("Retry-After"))
	}
	var p struct {
		Code     contract.Code
		Violated []string `json:"violated_policies"`
	}
	if err := json.Unmarshal(r.Body, &p); err != nil || p.Code != contract.CodeRateLimited || len(p.Violated) == 0 {
		return retry, fmt.Errorf("document %.200s", r.Body)
	}
	limits, policies := strings.Split(r.Field("RateLimit"), ", "), strings.Split(r.Field("RateLimit-Policy"), ", ")
	for _, name := range p.Violated {
		k := slices.IndexFunc(limits, func(l string) bool { return strings.HasPrefix(l, `"`+name+`";r=0;t=`) })
		if k < 0 {
			return retry, fmt.Errorf("RateLimit %q of a refusal by %s", limits, name)
		}
		t, err := strconv.Atoi(limits[k][len(`"`+name+`";r=0;t=`):])
		if err != nil || t > retry {
			return retry, fmt.Errorf("RateLimit %q with Retry-After %d", limits, retry)
		}
		if !slices.ContainsFunc(policies, func(l string) bool { return strings.HasPrefix(l, `"`+name+`";q=`) }) {
			return retry, fmt.Errorf("RateLimit-Policy %q of a refusal by %s", policies, name)
		}
	}
	return retry, nil
}
