package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/pkg/auth"
)

// buyer is one distinct user with what a purchase of theirs needs.
type buyer struct {
	token   string
	path    string
	orderSN string
}

// sale is one sale of the run, and what was accepted in it.
type sale struct {
	id, sku  string
	stock    int64
	body     string // of a purchase of one piece
	mu       sync.Mutex
	accepted []string // order_sns
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

// gather makes n users with signed tokens.
func (b *bench) gather(n int) ([]buyer, error) {
	b.crowds++
	prefix := "b" + strconv.FormatInt(b.began.UnixMilli(), 36) + "-" + strconv.Itoa(b.crowds) + "-"
	buyers := make([]buyer, n)
	for i := range buyers {
		var err error
		if buyers[i].token, err = auth.Mint(b.cfg.Secret, auth.Identity{UserID: prefix + strconv.Itoa(i)}, 12*time.Hour); err != nil {
			return nil, err
		}
	}
	return buyers, nil
}

// request appends a request as the wire takes it.
func request(buf []byte, method, target, host, token, body string) []byte {
	buf = append(buf, method...)
	buf = append(buf, ' ')
	buf = append(buf, target...)
	buf = append(buf, " HTTP/1.1\r\nHost: "...)
	buf = append(buf, host...)
	buf = append(buf, "\r\nAuthorization: Bearer "...)
	buf = append(buf, token...)
	if body != "" {
		buf = append(buf, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		buf = strconv.AppendInt(buf, int64(len(body)), 10)
	}
	buf = append(buf, "\r\n\r\n"...)
	return append(buf, body...)
}

func (s *sale) purchase(buf []byte, host string, who *buyer) []byte {
	return request(buf, "POST", "/v1/activities/"+s.id+"/paths/"+who.path+"/reservations", host, who.token, s.body)
}

// fetchPaths gives each buyer a path, before any clock starts.
func (b *bench) fetchPaths(ctx context.Context, s *sale, buyers []buyer) (load.Volleyed, error) {
	target := "/v1/activities/" + s.id + "/paths"
	var wrong atomic.Value
	v, err := load.Volley{
		Addr: b.cfg.Seckill, Conns: b.cfg.Connections, N: len(buyers),
		Request: func(i int, buf []byte) []byte {
			return request(buf, "POST", target, b.cfg.Seckill, buyers[i].token, "{}")
		},
		Answer: func(i, status int, body []byte) bool {
			if status == 503 || status == 429 {
				return true
			}
			buyers[i].path, buyers[i].orderSN = member(body, "path"), member(body, "order_sn")
			if status != 201 || buyers[i].path == "" || buyers[i].orderSN == "" {
				wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
			}
			return false
		},
	}.Fire(ctx)
	if err == nil && wrong.Load() != nil {
		err = fmt.Errorf("no path: %s", wrong.Load())
	}
	if err == nil && v.GivenUp > 0 {
		err = fmt.Errorf("%d paths were not given: %s", v.GivenUp, v.Example)
	}
	return v, err
}

// member reads a string member of a flat JSON object that our own services wrote: no spaces, no escapes.
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

// buy lets each buyer use their path once. Each answer 202 is entered in the sale's book; anything but 202 and a refusal
// for lack of stock is an error of the run.
func (b *bench) buy(ctx context.Context, s *sale, buyers []buyer, rate float64, within time.Duration) (load.Volleyed, error) {
	var wrong atomic.Value
	v, err := load.Volley{
		Addr: b.cfg.Seckill, Conns: b.cfg.Connections, N: len(buyers), Rate: rate, For: within,
		Request: func(i int, buf []byte) []byte { return s.purchase(buf, b.cfg.Seckill, &buyers[i]) },
		Answer: func(i, status int, body []byte) bool {
			switch {
			case status == 202:
				s.accept(buyers[i].orderSN)
			case status == 503:
				return true // the outcome is unknown: the same path again
			case status == 409 && member(body, "code") == "sold_out":
			default:
				wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
			}
			return false
		},
	}.Fire(ctx)
	if err == nil && wrong.Load() != nil {
		err = fmt.Errorf("a purchase was answered otherwise: %s", wrong.Load())
	}
	if err == nil && v.GivenUp > 0 {
		err = fmt.Errorf("%d purchases got no answer: %s", v.GivenUp, v.Example)
	}
	return v, err
}
