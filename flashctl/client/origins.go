package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Origins holds the base URLs of the services. They are equal if one origin serves all three (a reverse proxy, or
// allinone).
type Origins struct {
	Seckill, Order, Inventory string
}

// Single returns Origins with one base URL for all services.
func Single(url string) Origins { return Origins{Seckill: url, Order: url, Inventory: url} }

func (o Origins) String() string {
	if o.Seckill == o.Order && o.Order == o.Inventory {
		return o.Seckill
	}
	return strings.Join([]string{o.Seckill, o.Order, o.Inventory}, " ")
}

// Addresses of `make up`, with and without its edge, and of `make run`.
var (
	edge          = Single("http://127.0.0.1:8090")
	threeServices = Origins{
		Seckill:   "http://127.0.0.1:8081",
		Order:     "http://127.0.0.1:8082",
		Inventory: "http://127.0.0.1:8083",
	}
	allInOne = Single("http://127.0.0.1:8080")
)

// Discover returns BASE_URL, or SECKILL_URL, ORDER_URL and INVENTORY_URL, if they are set. Otherwise it returns the
// first that responds of the edge of `make up`, its three services, and the one process of `make run`.
func Discover(ctx context.Context) (Origins, error) {
	if base := os.Getenv("BASE_URL"); base != "" {
		return checked(Single(strings.TrimRight(base, "/")))
	}
	o, set := threeServices, false
	for name, field := range map[string]*string{
		"SECKILL_URL": &o.Seckill, "ORDER_URL": &o.Order, "INVENTORY_URL": &o.Inventory,
	} {
		if v := os.Getenv(name); v != "" {
			*field, set = strings.TrimRight(v, "/"), true
		}
	}
	if set {
		return checked(o)
	}
	return running(ctx, edge, threeServices, allInOne)
}

// running returns the edge, or else the first of the others that responds. The edge responds 503 on its own while
// nothing runs behind it.
func running(ctx context.Context, edge Origins, others ...Origins) (Origins, error) {
	if status := statusOf(ctx, edge); status != 0 && status != http.StatusServiceUnavailable {
		return edge, nil
	}
	for _, o := range others {
		if statusOf(ctx, o) != 0 {
			return o, nil
		}
	}
	return Origins{}, errors.New("no service responds on port 8080, 8081 or 8090: " +
		"start the system with `make run` or `make up`, or set BASE_URL")
}

func checked(o Origins) (Origins, error) {
	for _, s := range []string{o.Seckill, o.Order, o.Inventory} {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return Origins{}, fmt.Errorf("%q is not an address such as http://127.0.0.1:8080", s)
		}
	}
	return o, nil
}

// statusOf returns the status of the list of activities, or 0 without a response.
func statusOf(ctx context.Context, o Origins) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Seckill+"/v1/activities", nil)
	if err != nil {
		return 0
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
