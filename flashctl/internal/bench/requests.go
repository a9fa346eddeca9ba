package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/pkg/auth"
)

// buyer is one distinct user, with token and path for one purchase.
type buyer struct {
	token   string
	path    string
	orderSN string
}

// sale is one sale of the run, with its accepted purchases.
type sale struct {
	id, sku  string
	stock    int64
	body     string // of a purchase of one unit
	mu       sync.Mutex
	accepted []string // order_sns

	unavailable atomic.Int64 // responses with status 503, of paths and purchases
}

// traffic describes how the requests of a sale are sent. Zero fields have the value of the run.
type traffic struct {
	addr   string        // host:port; "" means seckill
	conns  int           // connections
	rate   float64       // requests a second; 0 means closed loop
	within time.Duration // duration; 0 means until every buyer was served
}

func (b *bench) batch(t traffic, n int) load.Batch {
	return load.Batch{
		Addr: cmp.Or(t.addr, b.cfg.seckill()), Conns: cmp.Or(t.conns, b.cfg.Connections), N: n, Rate: t.rate, For: t.within,
	}
}

func (s *sale) accept(orderSN string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, orderSN)
}

func (s *sale) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// newBuyers returns n new users with signed tokens.
func (b *bench) newBuyers(n int) ([]buyer, error) {
	b.buyerGroups++
	prefix := "b" + strconv.FormatInt(b.began.UnixMilli(), 36) + "-" + strconv.Itoa(b.buyerGroups) + "-"
	buyers := make([]buyer, n)
	for i := range buyers {
		var err error
		id := auth.Identity{UserID: prefix + strconv.Itoa(i)}
		if buyers[i].token, err = auth.Mint(b.cfg.Secret, id, 12*time.Hour); err != nil {
			return nil, err
		}
	}
	return buyers, nil
}

// request appends the bytes of an HTTP/1.1 request to buf. Each of headers is a line without its end.
func request(buf []byte, method, target, host, token, body string, headers ...string) []byte {
	buf = append(buf, method...)
	buf = append(buf, ' ')
	buf = append(buf, target...)
	buf = append(buf, " HTTP/1.1\r\nHost: "...)
	buf = append(buf, host...)
	buf = append(buf, "\r\nAuthorization: Bearer "...)
	buf = append(buf, token...)
	for _, header := range headers {
		buf = append(buf, "\r\n"...)
		buf = append(buf, header...)
	}
	if body != "" {
		buf = append(buf, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		buf = strconv.AppendInt(buf, int64(len(body)), 10)
	}
	buf = append(buf, "\r\n\r\n"...)
	return append(buf, body...)
}

// purchase appends the purchase request of a buyer to buf.
func (s *sale) purchase(buf []byte, host string, by *buyer) []byte {
	return request(buf, "POST", "/v1/activities/"+s.id+"/paths/"+by.path+"/reservations", host, by.token, s.body)
}

// fetchPaths fetches a path for each buyer. It fails unless every buyer gets one.
func (b *bench) fetchPaths(ctx context.Context, s *sale, buyers []buyer) (load.BatchResult, error) {
	var wrong atomic.Value
	batch := b.batch(traffic{}, len(buyers))
	batch.Request, batch.Response = b.pathRequest(s, buyers), pathResponse(s, buyers, &wrong)
	result, err := batch.Send(ctx)
	return result, checked("path", result, &wrong, err)
}

// pathRequest returns the function that appends the path request of a buyer.
func (b *bench) pathRequest(s *sale, buyers []buyer) func(i int, buf []byte) []byte {
	target := "/v1/activities/" + s.id + "/paths"
	return func(i int, buf []byte) []byte {
		return request(buf, "POST", target, b.cfg.seckill(), buyers[i].token, "{}")
	}
}

// pathResponse returns the function that keeps the path of a buyer. It stores an unexpected response in wrong.
func pathResponse(s *sale, buyers []buyer, wrong *atomic.Value) func(i, status int, body []byte) bool {
	return func(i, status int, body []byte) bool {
		if status == 503 {
			s.unavailable.Add(1)
		}
		if status == 503 || status == 429 {
			return true
		}
		buyers[i].path, buyers[i].orderSN = member(body, "path"), member(body, "order_sn")
		if status != 201 || buyers[i].path == "" || buyers[i].orderSN == "" {
			wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
		}
		return false
	}
}

// purchaseResponse returns the function that records an accepted purchase in the sale. It stores a final response other
// than 202 and sold_out in wrong.
func purchaseResponse(s *sale, buyers []buyer, wrong *atomic.Value) func(i, status int, body []byte) bool {
	return func(i, status int, body []byte) bool {
		switch {
		case status == 202:
			s.accept(buyers[i].orderSN)
		case status == 503:
			s.unavailable.Add(1)
			return true // the outcome is unknown, so repeat the request
		case status == 409 && member(body, "code") == "sold_out":
		default:
			wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
		}
		return false
	}
}

// checked adds an unexpected response, or a request without a response, to the error of a batch.
func checked(what string, result load.BatchResult, wrong *atomic.Value, err error) error {
	if err == nil && wrong.Load() != nil {
		err = fmt.Errorf("unexpected response to a %s: %s", what, wrong.Load())
	}
	if err == nil && result.GivenUp > 0 {
		err = fmt.Errorf("%d requests of a %s got no response: %s", result.GivenUp, what, result.Example)
	}
	return err
}

// member returns a string member of a flat JSON object. It supports the output of our services only: no spaces, no
// escapes.
func member(body []byte, name string) string {
	_, rest, found := bytes.Cut(body, []byte(`"`+name+`":"`))
	if !found {
		return ""
	}
	value, _, found := bytes.Cut(rest, []byte(`"`))
	if !found {
		return ""
	}
	return string(value)
}

// buy makes the purchase of each buyer, who has a path, and records the accepted ones in the sale. Every final response
// other than 202 and sold_out is an error of the run.
func (b *bench) buy(ctx context.Context, s *sale, buyers []buyer, t traffic) (load.BatchResult, error) {
	var wrong atomic.Value
	batch := b.batch(t, len(buyers))
	batch.Request = func(i int, buf []byte) []byte { return s.purchase(buf, b.cfg.seckill(), &buyers[i]) }
	batch.Response = purchaseResponse(s, buyers, &wrong)
	result, err := batch.Send(ctx)
	return result, checked("purchase", result, &wrong, err)
}

// buyInline makes the two requests of each buyer on the same connection: for a path, and the purchase with it.
func (b *bench) buyInline(ctx context.Context, s *sale, buyers []buyer, t traffic) (load.BatchResult, error) {
	var wrong atomic.Value
	batch := b.batch(t, len(buyers))
	batch.Request, batch.Response = b.pathRequest(s, buyers), pathResponse(s, buyers, &wrong)
	batch.Second = func(i int, buf []byte) []byte {
		if buyers[i].path == "" {
			return buf // wrong has the response
		}
		return s.purchase(buf, b.cfg.seckill(), &buyers[i])
	}
	batch.SecondResponse = purchaseResponse(s, buyers, &wrong)
	result, err := batch.Send(ctx)
	return result, checked("path and purchase", result, &wrong, err)
}
