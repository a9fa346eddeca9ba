package rocketmq

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// resolver hands the name servers to the client, which takes host names only behind a scheme that it then strips.
func resolver(addrs []string) primitive.NsResolver {
	urls := make([]string, len(addrs))
	for i, a := range addrs {
		urls[i] = "http://" + a
	}
	return primitive.NewPassthroughResolver(urls)
}

var instances atomic.Int64

// instanceName is unique for each client object. Two objects of one name would share a connection, and the broker would
// take them for one consumer.
func instanceName() string {
	host, _ := os.Hostname() // without a name, process id and start time still tell processes apart
	return fmt.Sprintf("%s-%d-%x-%d", host, os.Getpid(), started.UnixNano(), instances.Add(1))
}

var started = time.Now()

var bridgeOnce sync.Once

// bridgeClientLog gives the client library, which has one logger for the whole process, the first logger it is called with.
func bridgeClientLog(log *slog.Logger) {
	bridgeOnce.Do(func() {
		b := &clientLog{log: log.With("component", "rocketmq-client"), last: make(map[string]time.Time)}
		rlog.SetLogger(b)
		primitive.DefaultPanicHandler = func(p any) { b.log.Error("client goroutine panicked", "panic", p) }
	})
}

// clientLog passes on the client's warnings and errors as warnings: what they lead to is logged by whom it concerns.
// The client repeats itself while a broker is away, so each text passes once in repeatEvery.
type clientLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	repeatEvery  = 10 * time.Second
	maxLastTexts = 1000
)

func (c *clientLog) warn(text string, fields map[string]any) {
	if text == "" || !c.due(text) {
		return
	}
	args := make([]any, 0, 2+2*len(fields))
	args = append(args, "text", strings.TrimSpace(text))
	for k, v := range fields {
		if k == rlog.LogKeyMessages || k == "message" { // whole messages: what buyers sent does not belong into logs
			continue
		}
		args = append(args, k, fmt.Sprint(v))
	}
	c.log.WarnContext(context.Background(), "the client library complains", args...)
}

func (c *clientLog) due(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last[text]) < repeatEvery {
		return false
	}
	if len(c.last) >= maxLastTexts {
		clear(c.last)
	}
	c.last[text] = time.Now()
	return true
}

func (c *clientLog) Debug(string, map[string]any) {}
func (c *clientLog) Info(string, map[string]any)  {}

func (c *clientLog) Warning(text string, fields map[string]any) { c.warn(text, fields) }
func (c *clientLog) Error(text string, fields map[string]any)   { c.warn(text, fields) }

// Fatal does not end the process, as the client's own logger would.
func (c *clientLog) Fatal(text string, fields map[string]any) { c.warn(text, fields) }

func (c *clientLog) Level(string)            {}
func (c *clientLog) OutputPath(string) error { return nil }
