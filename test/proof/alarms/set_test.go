package alarms

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig"
)

// portOffset is that of the set; other sets that run at the same time have others.
const portOffset = 7500

// set is the services of this machine with their dependencies, Prometheus and Alertmanager.
type set struct {
	root, dir string
	env       []string
	path      string // PATH of commands

	edge, prometheus string
	received         *notifications
}

// start starts everything, as `make up MONITORING=1` does. It ends with the test.
func start(t *testing.T) *set {
	t.Helper()
	s := &set{root: rig.Root(t), dir: t.TempDir(), path: os.Getenv("PATH"), received: receive(t)}
	at := func(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port+portOffset) }
	s.edge, s.prometheus = at(8090), at(9090)
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "MYSQL_DSN", "REDIS_ADDRS", "ROCKETMQ_NAMESRV", "RUN_DIR", "PORT_OFFSET", "PATH", "MAKEFLAGS", "MAKELEVEL":
		default:
			s.env = append(s.env, kv)
		}
	}
	// Buyers do not overload the set, so what lands purchases needs no lower weight, and other work on the machine does
	// not delay it.
	s.env = append(s.env, "LANDING_NICE=0", "RUN_DIR="+s.dir, "PORT_OFFSET="+strconv.Itoa(portOffset), "ALERTS_TO="+s.received.url,
		"WEBHOOK_NETWORKS=127.0.0.0/8", "WEBHOOK_KEYS="+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	t.Cleanup(func() { s.make(t, "down") })
	s.make(t, "up", "MONITORING=1")
	return s
}

func (s *set) make(t *testing.T, args ...string) {
	s.run(t, append([]string{"make", "-C", s.root}, args...)...)
}

// dependencies and services run the scripts: "kill" or "up", and names.
func (s *set) dependencies(t *testing.T, args ...string) {
	s.run(t, append([]string{filepath.Join(s.root, "scripts/dev/dependencies")}, args...)...)
}

func (s *set) services(t *testing.T, args ...string) {
	s.run(t, append([]string{filepath.Join(s.root, "scripts/dev/services")}, args...)...)
}

func (s *set) run(t *testing.T, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(s.env, "PATH="+s.path)
	// A file, not a pipe: the processes that a script starts keep it open, and Run would wait for them.
	log, err := os.CreateTemp(s.dir, "command")
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		output, _ := os.ReadFile(log.Name())
		require.NoError(t, err, "%v:\n%s", command, output)
	}
}

// pid returns that of a service.
func (s *set) pid(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name+".pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

// lateClock has Redis start with a clock that is a second late, until right is called.
func (s *set) lateClock(t *testing.T) (right func()) {
	t.Helper()
	redis, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	dir, before := t.TempDir(), s.path
	s.run(t, "gcc", "-shared", "-fPIC", "-o", filepath.Join(dir, "late.so"), filepath.Join(s.root, "test/proof/alarms/testdata/late.c"))
	wrapper := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%s/late.so exec %s \"$@\"\n", dir, redis)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte(wrapper), 0o700))
	s.path = dir + ":" + s.path
	return func() { s.path = before }
}

// An alert is one that Prometheus has.
type alert struct {
	Labels   map[string]string
	State    string // pending or firing
	ActiveAt time.Time
}

func (a alert) String() string { return fmt.Sprint(a.Labels) }

// firing returns the alerts that fire.
func (s *set) firing(ctx context.Context) (firing []alert, err error) {
	var body struct{ Data struct{ Alerts []alert } }
	if err := getJSON(ctx, s.prometheus+"/api/v1/alerts", &body); err != nil {
		return nil, err
	}
	for _, a := range body.Data.Alerts {
		if a.State == "firing" {
			firing = append(firing, a)
		}
	}
	return firing, nil
}

// series returns how many series a query has.
func (s *set) series(ctx context.Context, query string) (int, error) {
	var body struct {
		Data struct{ Result []json.RawMessage }
	}
	err := getJSON(ctx, s.prometheus+"/api/v1/query?query="+url.QueryEscape(query), &body)
	return len(body.Data.Result), err
}

func getJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// notifications is what Alertmanager has sent.
type notifications struct {
	url string

	mu   sync.Mutex
	sent map[string]int // by alert name and status
}

func receive(t *testing.T) *notifications {
	t.Helper()
	n := &notifications{sent: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, a := range body.Alerts {
			n.sent[a.Labels["alertname"]+" "+a.Status]++
		}
	}))
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *notifications) count(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[what]
}
