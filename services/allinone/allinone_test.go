package allinone_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/allinone"
)

const patience = 2 * time.Minute

// TestPaidAndClosed runs the system in the test's process: one purchase is paid, another expires, and a clean stop
// leaves no goroutine.
func TestPaidAndClosed(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	environ := map[string]string{"HTTP_ADDR": porttest.Free(t), "ADMIN_ADDR": porttest.Free(t), "DATA_DIR": t.TempDir(), "DEMO": "true"}
	cfg := allinone.Config{App: settings.App{LogLevel: slog.LevelWarn}}
	require.NoError(t, settings.Load(&cfg, environ))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var printed, logged lines
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- allinone.Run(ctx, cfg, environ, &printed, &logged) }()
	url := "http://" + environ["HTTP_ADDR"]
	require.Eventually(t, func() bool { return strings.Contains(printed.String(), "Ctrl-C stops") }, patience,
		20*time.Millisecond)
	requireGreeting(t, url, printed.String(), time.Since(began))

	long := openShop(t, url, 1, 10*time.Minute)
	payer := long.token(t, "payer")
	paid := long.use(t, payer, long.path(t, payer))
	long.becomes(t, payer, paid.OrderSN, "created", patience)
	long.pay(t, payer, paid.OrderSN)
	long.becomes(t, payer, paid.OrderSN, "paid", patience)
	require.Equal(t, "paid", long.order(t, payer, paid.OrderSN).State)
	long.stockBecomes(t, 0, 0, 1, patience)

	short := openShop(t, url, 1, 4*time.Second)
	idler := short.token(t, "idler")
	idle := short.use(t, idler, short.path(t, idler))
	short.becomes(t, idler, idle.OrderSN, "closed", patience)
	closed := short.order(t, idler, idle.OrderSN)
	require.Equal(t, "expired", closed.CloseReason)
	short.stockBecomes(t, 1, 0, 0, patience)

	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("Run did not return")
	}
	requireOnTime(t, closed)
	for line := range strings.Lines(logged.String()) { // a machine may be slow
		require.Contains(t, line, `"msg":"slow statement"`, "no other warning at start or end")
	}
}

// requireGreeting requires that the address of the pages comes first, and that both demo sales are listed as the
// greeting states. took bounds the time from the start of the process to the greeting.
func requireGreeting(t *testing.T, url, printed string, took time.Duration) {
	t.Helper()
	require.True(t, strings.HasPrefix(printed, "\n  Open "+url+"\n"), printed)
	lines := regexp.MustCompile(`(?m)^  "(.+)", ([0-9]+) units, (?:is open|opens in (\S+)): \S+/sales/([0-9]+)$`).
		FindAllStringSubmatch(printed, -1)
	require.Len(t, lines, 2, printed)
	type sale struct {
		ActivityID  string    `json:"activity_id"`
		Title       string    `json:"title"`
		Description string    `json:"description"`
		StartsAt    time.Time `json:"starts_at"`
		EndsAt      time.Time `json:"ends_at"`
		ServerTime  time.Time `json:"server_time"`
		Items       []struct {
			Name  string `json:"name"`
			Total int64  `json:"total"`
		} `json:"items"`
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	list, err := client.Get(url + "/v1/activities")
	require.NoError(t, err)
	listed, err := io.ReadAll(list.Body)
	require.NoError(t, errors.Join(err, list.Body.Close()))
	for _, line := range lines {
		require.Contains(t, string(listed), line[1], "the first visitor sees the sales")
	}
	var shown []sale
	for _, line := range lines {
		resp, err := client.Get(url + "/v1/activities/" + line[4])
		require.NoError(t, err)
		var s sale
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&s))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, line[1], s.Title)
		require.NotEmpty(t, s.Description, s.Title)
		units := int64(0)
		for _, i := range s.Items {
			units += i.Total
		}
		require.Equal(t, line[2], strconv.FormatInt(units, 10))
		shown = append(shown, s)
	}
	opensIn, err := time.ParseDuration(lines[0][3])
	require.NoError(t, err, "the first sale shows a countdown")
	require.LessOrEqual(t, opensIn, 20*time.Second)
	// The start is cut to a second, the countdown is rounded to one.
	require.GreaterOrEqual(t, opensIn, 18*time.Second-took)
	require.Empty(t, lines[1][3], "the second sale is open")
	require.False(t, shown[1].StartsAt.After(shown[1].ServerTime))
	require.Greater(t, shown[1].EndsAt.Sub(shown[1].StartsAt), shown[0].EndsAt.Sub(shown[0].StartsAt), "and longer")
	require.NotEqual(t, shown[0].Items[0].Name, shown[1].Items[0].Name)
	require.Less(t, strings.Index(printed, "Open "), strings.Index(printed, "curl"))
}

// requireOnTime requires that the order was closed at its deadline or at most 3 s later.
func requireOnTime(t *testing.T, o order) {
	t.Helper()
	late := o.ClosedAt.Sub(o.ExpiresAt)
	require.GreaterOrEqual(t, late, time.Duration(0))
	require.LessOrEqual(t, late, 3*time.Second)
}

// TestRestartAfterKill kills the process and restarts it on the same folder: its tables hold the state.
func TestRestartAfterKill(t *testing.T) {
	t.Parallel()
	p := newProcess(t, t.TempDir())
	p.start(t)
	const units, payWithin = 6, 30 * time.Second // longer than a kill and a start
	s := openShop(t, p.url, units, payWithin)
	payer, idler := s.token(t, "payer"), s.token(t, "idler")
	paidPath, idlePath := s.path(t, payer), s.path(t, idler)
	paid := s.use(t, payer, paidPath)
	s.becomes(t, payer, paid.OrderSN, "created", patience)
	s.pay(t, payer, paid.OrderSN)
	s.becomes(t, payer, paid.OrderSN, "paid", patience)
	idle := s.becomes(t, idler, s.use(t, idler, idlePath).OrderSN, "created", patience)
	s.stockBecomes(t, units-2, 1, 1, patience)
	p.kill(t)
	p.start(t)

	// The state is there at once: the gate is filled before the first response.
	s.stockBecomes(t, units-2, 1, 1, 0)
	again := s.use(t, payer, paidPath)
	require.Equal(t, paid.OrderSN, again.OrderSN)
	require.Equal(t, "paid", again.Status)
	again = s.use(t, idler, idlePath)
	require.Equal(t, idle.OrderSN, again.OrderSN)
	require.Equal(t, "created", again.Status)
	require.Equal(t, idle.ExpiresAt, s.becomes(t, idler, idle.OrderSN, "created", 0).ExpiresAt,
		"the pay window does not restart")
	s.refuses(t, payer) // one unit per buyer, as before

	// The remaining units are sold, and no more.
	others := map[string]string{} // order_sn -> token
	for i := range units - 2 {
		token := s.token(t, fmt.Sprintf("other-%d", i))
		r := s.use(t, token, s.path(t, token))
		require.NotContains(t, others, r.OrderSN)
		others[r.OrderSN] = token
	}
	late := s.token(t, "late")
	s.refuses(t, late)

	// The timer was lost with the process, but the order is closed on time.
	s.becomes(t, idler, idle.OrderSN, "closed", payWithin+patience)
	requireOnTime(t, s.order(t, idler, idle.OrderSN))
	for sn, token := range others { // each has an order, which may be closed by now
		require.True(t, poll(patience, func() bool {
			var r reservation
			return s.call(t, token, http.MethodGet, "/v1/activities/"+s.activity+"/reservations/"+sn, nil,
				&r) == http.StatusOK &&
				(r.Status == "created" || r.Status == "closed")
		}))
	}

	// The other orders expire while the process is down.
	p.kill(t)
	time.Sleep(payWithin) // the time without a process
	p.start(t)
	for sn, token := range others {
		s.becomes(t, token, sn, "closed", patience)
		require.Equal(t, "expired", s.order(t, token, sn).CloseReason)
	}
	s.stockBecomes(t, units-1, 0, 1, patience)
	s.use(t, late, s.path(t, late))
	s.stockBecomes(t, units-2, 1, 1, patience)
}

// TestRestartFinishesAClosing: the process was killed after an order had been closed and before its unit was restored.
// The message of the closing was lost with the process. The restarted one restores the unit.
func TestRestartFinishesAClosing(t *testing.T) {
	t.Parallel()
	const units, payWithin = 2, 10 * time.Second
	dir := t.TempDir()
	p := newProcess(t, dir)
	p.start(t)
	s := openShop(t, p.url, units, payWithin)
	buyer := s.token(t, "buyer")
	sn := s.becomes(t, buyer, s.use(t, buyer, s.path(t, buyer)).OrderSN, "created", patience).OrderSN
	p.kill(t)

	db, err := sqldb.Open("sqlite:"+filepath.Join(dir, "order.db"), sqldb.Options{})
	require.NoError(t, err)
	done := db.Exec("UPDATE orders SET state = 'closed', close_reason = 'expired', closed_at = expires_at WHERE order_sn = ?", sn)
	require.NoError(t, done.Error)
	require.EqualValues(t, 1, done.RowsAffected)
	require.NoError(t, sqldb.Close(db))

	p.start(t)
	s.becomes(t, buyer, sn, "closed", payWithin+patience)
	s.stockBecomes(t, units, 0, 0, patience)
}

// TestKillDuringABurst kills the process at a random moment of a burst. After the restart, gate, ledger and orders
// agree. A purchase that had not reached the tables may be lost, and is then absent everywhere.
func TestKillDuringABurst(t *testing.T) {
	t.Parallel()
	const units, burst, rounds = 90, 60, 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := newProcess(t, t.TempDir())
	p.start(t)
	s := openShop(t, p.url, units, 10*time.Minute)
	accepted := map[string]string{} // order_sn -> token
	for round := range rounds {
		tokens := make([]string, burst)
		for i := range tokens {
			tokens[i] = s.token(t, fmt.Sprintf("u-%d-%d", round, i))
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		var done atomic.Int64
		killAfter := 1 + rnd.Int64N(burst)
		enough := make(chan struct{})
		for _, token := range tokens {
			wg.Go(func() {
				var path struct {
					Path string `json:"path"`
				}
				if s.call(t, token, http.MethodPost, "/v1/activities/"+s.activity+"/paths", map[string]any{},
					&path) == http.StatusCreated {
					var r reservation
					if s.call(t, token, http.MethodPost,
						"/v1/activities/"+s.activity+"/paths/"+path.Path+"/reservations",
						s.lines(), &r) == http.StatusAccepted {
						mu.Lock()
						accepted[r.OrderSN] = token
						mu.Unlock()
					}
				}
				if done.Add(1) == killAfter {
					close(enough)
				}
			})
		}
		<-enough
		time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond)))) // a random moment before all have landed
		p.kill(t)
		wg.Wait()
		p.start(t)
		// Reservations without an order get one, and then all three agree.
		found, orders := int64(0), int64(0)
		agree := poll(patience, func() bool {
			found, orders = 0, 0
			for sn, token := range accepted {
				switch s.call(t, token, http.MethodGet, "/v1/activities/"+s.activity+"/reservations/"+sn, nil,
					&reservation{}) {
				case http.StatusOK:
					found++
				case http.StatusNotFound:
				default:
					return false
				}
				if s.call(t, token, http.MethodGet, "/v1/orders/"+sn, nil, &order{}) == http.StatusOK {
					orders++
				}
			}
			v := s.stock(t)
			return found == orders && v.MySQL.Reserved >= found && v.Gate.Left == v.MySQL.Available &&
				v.Gate.Held == v.MySQL.Reserved &&
				v.Difference == 0 && v.Journal == 0 && v.InFlight == 0
		})
		v := s.stock(t)
		require.True(t, agree, "accepted %d, found %d, orders %d; %+v", len(accepted), found, orders, v)
		require.Equal(t, int64(units), v.MySQL.Available+v.MySQL.Reserved+v.MySQL.Sold)
		t.Logf("round %d: %d accepted so far, %d found after the kill; %d of %d reserved", round, len(accepted),
			found, v.MySQL.Reserved, units)
	}
	// All units can be sold, and no more.
	left := s.stock(t).MySQL.Available
	for i := range left {
		token := s.token(t, fmt.Sprintf("last-%d", i))
		s.use(t, token, s.path(t, token))
	}
	s.stockBecomes(t, 0, units, 0, patience)
	s.refuses(t, s.token(t, "late"))
}

func TestTwoProcessesOnOneFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newProcess(t, dir)
	first.start(t)
	second := newProcess(t, dir)
	out, err := run(t, second.env, "serve")
	require.Error(t, err)
	require.Contains(t, out, "another process uses this directory")
	require.Eventually(t, func() bool { return responds(first.url + "/v1/activities") }, patience, 20*time.Millisecond)
}

func TestSettingsAreLoggedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	p := newProcess(t, t.TempDir())
	p.env = append(p.env, "LOG_LEVEL=info", "AUTH_HS256_SECRET=hush-buyers", "INTERNAL_SECRET=hush-internal",
		"PATH_SECRETS=hush-paths")
	p.start(t)
	p.kill(t)
	logged := p.log.String()
	for _, setting := range []string{`"DATA_DIR":"`, `"PATH_RATE":"10000"`, `"ORDER_PAYMENT_GRACE":"`, `"CONSUMERS":"`, `"PATH_SECRETS":"(hidden)"`} {
		require.Contains(t, logged, setting)
	}
	require.NotContains(t, logged, "hush")
}

func TestDemoSalesWithATokenAudience(t *testing.T) {
	t.Parallel()
	p := newProcess(t, t.TempDir())
	p.env = append(p.env, "DEMO=true", "AUTH_AUDIENCE=shop", "AUTH_ISSUER=idp")
	p.start(t)
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		resp, err := client.Get(p.url + "/v1/activities")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		list, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(list), "Aurora phone")
	}, patience, 50*time.Millisecond)
}

// allinone offers the sign-in of its settings: by default any user, or none, or that of an identity provider.
func TestSignInOfTheSettings(t *testing.T) {
	t.Parallel()
	provider := []string{"OIDC_ISSUER=http://127.0.0.1:1/", "OIDC_CLIENT_ID=x", "PUBLIC_URL=http://127.0.0.1:8080"}
	for method, env := range map[string][]string{
		"dev": nil, "none": {"AUTH_DEV_TOKENS=false"}, "oidc": append(provider, "AUTH_DEV_TOKENS=false"),
	} {
		t.Run(method, func(t *testing.T) {
			p := newProcess(t, t.TempDir())
			p.env = append(p.env, env...)
			p.start(t)
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			status := func(path, body string) int {
				resp, err := client.Post(p.url+path, "application/json", strings.NewReader(body))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return resp.StatusCode
			}
			resp, err := client.Get(p.url + "/v1/config")
			require.NoError(t, err)
			defer resp.Body.Close()
			config, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Contains(t, string(config), `"sign_in":"`+method+`"`)
			page, err := client.Get(p.url + "/sales/1")
			require.NoError(t, err)
			require.NoError(t, page.Body.Close())
			require.Equal(t, http.StatusOK, page.StatusCode)
			session, token := http.StatusNotFound, http.StatusNotFound
			if method == "dev" {
				session, token = http.StatusNoContent, http.StatusOK
			}
			require.Equal(t, session, status("/auth/dev", `{"user_id":"42"}`))
			require.Equal(t, token, status("/v1/dev/tokens", `{"user_id":"42"}`))
		})
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for setting, name := range map[string]string{
		"HTTP_ADDR=nonsense":         "HTTP_ADDR",
		"HTTP_ADDR=0.0.0.0:0":        "APP_ENV",
		"ADMIN_ADDR=:0":              "APP_ENV",
		"ADMIN_ADDR=127.0.0.1:99999": "ADMIN_ADDR",
		"DEMO=perhaps":               "DEMO",
		"DRAIN_TIMEOUT=soon":         "DRAIN_TIMEOUT",
		"APP_ENV=production":         "APP_ENV",
		"PATH_RATE=-1":               "PATH_RATE",
		"ORDER_PAYMENT_GRACE=1ms":    "ORDER_PAYMENT_GRACE",
		"TEST_TIMERS=order.keep=1s":  "TEST_TIMERS",
		"CONSUMERS=1000":             "CONSUMERS",
		"ORDER_CONSUMERS=8":          "ORDER_CONSUMERS",
	} {
		t.Run(name, func(t *testing.T) {
			env := append(newProcess(t, t.TempDir()).env, setting) // the last one of a name counts
			for _, verb := range []string{"check-config", "serve"} {
				requireRefused(t, env, verb, name)
			}
		})
	}
	requireRefused(t, newProcess(t, "/dev/null/x").env, "serve", "DATA_DIR") // only an attempt shows it
}

// requireRefused requires exit status 2 and one line of output that names the setting.
func requireRefused(t *testing.T, env []string, verb, name string) {
	t.Helper()
	out, err := run(t, env, verb)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s did not fail:\n%s", verb, out)
	require.Equal(t, 2, exit.ExitCode(), "%s", out)
	require.Equal(t, 1, strings.Count(strings.TrimSpace(out), "\n")+1, "one line:\n%s", out)
	require.Contains(t, out, name)
}

// run runs the program until it ends by itself, and returns its output.
func run(t *testing.T, env []string, verb string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), verb)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "%s did not end:\n%s", verb, out)
	return string(out), err
}

// lines is a buffer that is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
