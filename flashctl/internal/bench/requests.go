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

// request appends the bytes of an HTTP/1.1 request to buf.
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

// purchase appends the purchase request of a buyer to buf.
func (s *sale) purchase(buf []byte, host string, by *buyer) []byte {
	return request(buf, "POST", "/v1/activities/"+s.id+"/paths/"+by.path+"/reservations", host, by.token, s.body)
}

// fetchPaths fetches a path for each buyer. It fails unless every buyer gets one.
func (b *bench) fetchPaths(ctx context.Context, s *sale, buyers []buyer) (load.BatchResult, error) {
	target := "/v1/activities/" + s.id + "/paths"
	var wrong atomic.Value
	result, err := load.Batch{
		Addr: b.cfg.Seckill, Conns: b.cfg.Connections, N: len(buyers),
		Request: func(i int, buf []byte) []byte {
			return request(buf, "POST", target, b.cfg.Seckill, buyers[i].token, "{}")
		},
		Response: func(i, status int, body []byte) bool {
			if status == 503 || status == 429 {
				return true
			}
			buyers[i].path, buyers[i].orderSN = member(body, "path"), member(body, "order_sn")
			if status != 201 || buyers[i].path == "" || buyers[i].orderSN == "" {
				wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
			}
			return false
		},
	}.Send(ctx)
	if err == nil && wrong.Load() != nil {
		err = fmt.Errorf("path not issued: %s", wrong.Load())
	}
	if err == nil && result.GivenUp > 0 {
		err = fmt.Errorf("%d requests for a path got no response: %s", result.GivenUp, result.Example)
	}
	return result, err
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

// buy makes the purchase of each buyer and records the accepted ones in the sale. Every final response other than 202
// and sold_out is an error of the run.
func (b *bench) buy(
	ctx context.Context, s *sale, buyers []buyer, rate float64, within time.Duration,
) (load.BatchResult, error) {
	var wrong atomic.Value
	result, err := load.Batch{
		Addr: b.cfg.Seckill, Conns: b.cfg.Connections, N: len(buyers), Rate: rate, For: within,
		Request: func(i int, buf []byte) []byte { return s.purchase(buf, b.cfg.Seckill, &buyers[i]) },
		Response: func(i, status int, body []byte) bool {
			switch {
			case status == 202:
				s.accept(buyers[i].orderSN)
			case status == 503:
				return true // the outcome is unknown, so repeat the request
			case status == 409 && member(body, "code") == "sold_out":
			default:
				wrong.Store(fmt.Sprintf("status %d: %.200s", status, body))
			}
			return false
		},
	}.Send(ctx)
	if err == nil && wrong.Load() != nil {
		err = fmt.Errorf("unexpected response to a purchase: %s", wrong.Load())
	}
	if err == nil && result.GivenUp > 0 {
		err = fmt.Errorf("%d purchases got no response: %s", result.GivenUp, result.Example)
	}
	return result, err
}
