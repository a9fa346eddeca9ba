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

// resolver returns the name servers in the form that the client expects: host names need a scheme, which it strips.
func resolver(addrs []string) primitive.NsResolver {
	urls := make([]string, len(addrs))
	for i, a := range addrs {
		urls[i] = "http://" + a
	}
	return primitive.NewPassthroughResolver(urls)
}

var instances atomic.Int64

// instanceName returns a unique name for a client object. Two objects of one name would share a connection, and the
// broker would treat them as one consumer.
func instanceName() string {
	host, _ := os.Hostname() // without it, process id and start time still distinguish processes
	return fmt.Sprintf("%s-%d-%x-%d", host, os.Getpid(), started.UnixNano(), instances.Add(1))
}

var started = time.Now()

var bridgeOnce sync.Once

// bridgeClientLog sets the logger of the client library. The library has one logger in a process, so only the first
// call has an effect.
func bridgeClientLog(log *slog.Logger) {
	bridgeOnce.Do(func() {
		b := &clientLog{log: log.With("component", "rocketmq-client"), last: make(map[string]time.Time)}
		rlog.SetLogger(b)
		primitive.DefaultPanicHandler = func(p any) { b.log.Error("client goroutine panicked", "panic", p) }
	})
}

// clientLog logs warnings and errors of the client library as warnings, because this package logs their consequences.
// The client repeats messages while a broker is down, so each text is logged at most once in repeatEvery.
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
		if k == rlog.LogKeyMessages || k == "message" { // whole messages: data of buyers must not be logged
			continue
		}
		args = append(args, k, fmt.Sprint(v))
	}
	c.log.WarnContext(context.Background(), "rocketmq client warning", args...)
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

// Fatal logs a warning. The client's own logger would end the process.
func (c *clientLog) Fatal(text string, fields map[string]any) { c.warn(text, fields) }

func (c *clientLog) Level(string)            {}
func (c *clientLog) OutputPath(string) error { return nil }
