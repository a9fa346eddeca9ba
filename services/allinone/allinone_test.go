package allinone_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/allinone"
)

const patience = 30 * time.Second

// In this process: one purchase is paid, another runs out, and after a clean stop nothing is left running.
func TestPaidAndClosed(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	environ := map[string]string{"HTTP_ADDR": porttest.Free(t), "ADMIN_ADDR": porttest.Free(t), "DATA_DIR": t.TempDir(), "DEMO": "true"}
	cfg := allinone.Config{App: settings.App{LogLevel: slog.LevelWarn}}
	require.NoError(t, settings.Load(&cfg, environ))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var said, logged lines
	ended := make(chan error, 1)
	go func() { ended <- allinone.Run(ctx, cfg, environ, &said, &logged) }()
	url := "http://" + environ["HTTP_ADDR"]
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "Ctrl-C stops") }, patience, 20*time.Millisecond)
	require.Regexp(t, "A demo sale of 100 pieces (opens in|is open)", said.String(), "there is something to look at")

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
		t.Fatal("it did not end")
	}
	requireOnTime(t, closed)
	require.Empty(t, logged.String(), "neither a start nor an end has anything to warn of")
}

// requireOnTime demands what is promised: never early, at most 3 s late.
func requireOnTime(t *testing.T, o order) {
	t.Helper()
	late := o.ClosedAt.Sub(o.ExpiresAt)
	require.GreaterOrEqual(t, late, time.Duration(0))
	require.LessOrEqual(t, late, 3*time.Second)
}

// Killed and started again on the same folder, it goes on where its tables say.
func TestKilledAndStartedAgain(t *testing.T) {
	p := newProcess(t, t.TempDir())
	p.start(t)
	const pieces, payWithin = 6, 10 * time.Second
	s := openShop(t, p.url, pieces, payWithin)
	payer, idler := s.token(t, "payer"), s.token(t, "idler")
	paidPath, idlePath := s.path(t, payer), s.path(t, idler)
	paid := s.use(t, payer, paidPath)
	s.becomes(t, payer, paid.OrderSN, "created", patience)
	s.pay(t, payer, paid.OrderSN)
	s.becomes(t, payer, paid.OrderSN, "paid", patience)
	idle := s.becomes(t, idler, s.use(t, idler, idlePath).OrderSN, "created", patience)
	s.stockBecomes(t, pieces-2, 1, 1, patience)
	p.kill(t)
	p.start(t)

	// What was known is known, at once: the gate is filled before anybody is answered.
	s.stockBecomes(t, pieces-2, 1, 1, 0)
	again := s.use(t, payer, paidPath)
	require.Equal(t, paid.OrderSN, again.OrderSN)
	require.Equal(t, "paid", again.Status)
	again = s.use(t, idler, idlePath)
	require.Equal(t, idle.OrderSN, again.OrderSN)
	require.Equal(t, "created", again.Status)
	require.Equal(t, idle.ExpiresAt, s.becomes(t, idler, idle.OrderSN, "created", 0).ExpiresAt, "the clock does not start again")
	s.refuses(t, payer) // one piece a buyer, as before

	// What is left is sold, and not a piece more.
	others := map[string]string{} // order_sn -> token
	for i := range pieces - 2 {
		token := s.token(t, fmt.Sprintf("other-%d", i))
		r := s.use(t, token, s.path(t, token))
		require.NotContains(t, others, r.OrderSN)
		others[r.OrderSN] = token
	}
	late := s.token(t, "late")
	s.refuses(t, late)

	// Its timer died with the process; the order is closed on time all the same.
	s.becomes(t, idler, idle.OrderSN, "closed", payWithin+patience)
	requireOnTime(t, s.order(t, idler, idle.OrderSN))
	for sn, token := range others { // an order was made of each; it may be over by now
		require.True(t, poll(patience, func() bool {
			var r reservation
			return s.call(t, token, http.MethodGet, "/v1/activities/"+s.activity+"/reservations/"+sn, nil, &r) == http.StatusOK &&
				(r.Status == "created" || r.Status == "closed")
		}))
	}

	// The others' time passes while nobody is there.
	p.kill(t)
	time.Sleep(payWithin) // an absence, not a wait for something
	p.start(t)
	for sn, token := range others {
		s.becomes(t, token, sn, "closed", patience)
		require.Equal(t, "expired", s.order(t, token, sn).CloseReason)
	}
	s.stockBecomes(t, pieces-1, 0, 1, patience)
	s.use(t, late, s.path(t, late))
	s.stockBecomes(t, pieces-2, 1, 1, patience)
}

// Killed at any moment of a rush, it comes back with gate, ledger and orders that agree. A purchase of which nothing had
// reached the tables may be gone, and is then unknown everywhere.
func TestKilledInTheMiddleOfARush(t *testing.T) {
	const pieces, rush, rounds = 90, 60, 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := newProcess(t, t.TempDir())
	p.start(t)
	s := openShop(t, p.url, pieces, 10*time.Minute)
	told := map[string]string{} // order_sn -> token
	for round := range rounds {
		tokens := make([]string, rush)
		for i := range tokens {
			tokens[i] = s.token(t, fmt.Sprintf("u-%d-%d", round, i))
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		var answered atomic.Int64
		killAfter := 1 + rnd.Int64N(rush)
		enough := make(chan struct{})
		for _, token := range tokens {
			wg.Go(func() {
				var path struct {
					Path string `json:"path"`
				}
				if s.call(t, token, http.MethodPost, "/v1/activities/"+s.activity+"/paths", map[string]any{}, &path) == http.StatusCreated {
					var r reservation
					if s.call(t, token, http.MethodPost, "/v1/activities/"+s.activity+"/paths/"+path.Path+"/reservations",
						s.lines(), &r) == http.StatusAccepted {
						mu.Lock()
						told[r.OrderSN] = token
						mu.Unlock()
					}
				}
				if answered.Add(1) == killAfter {
					close(enough)
				}
			})
		}
		<-enough
		time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond)))) // any moment until all of them have landed
		p.kill(t)
		wg.Wait()
		p.start(t)
		// Rows without an order get theirs, and then all three agree.
		known, orders := int64(0), int64(0)
		agree := poll(patience, func() bool {
			known, orders = 0, 0
			for sn, token := range told {
				switch s.call(t, token, http.MethodGet, "/v1/activities/"+s.activity+"/reservations/"+sn, nil, &reservation{}) {
				case http.StatusOK:
					known++
				case http.StatusNotFound:
				default:
					return false
				}
				if s.call(t, token, http.MethodGet, "/v1/orders/"+sn, nil, &order{}) == http.StatusOK {
					orders++
				}
			}
			v := s.stock(t)
			return known == orders && v.MySQL.Reserved >= known && v.Gate.Left == v.MySQL.Available && v.Gate.Held == v.MySQL.Reserved &&
				v.Difference == 0 && v.Journal == 0 && v.InFlight == 0
		})
		v := s.stock(t)
		require.True(t, agree, "told %d, of them known %d, ordered %d; %+v", len(told), known, orders, v)
		require.Equal(t, int64(pieces), v.MySQL.Available+v.MySQL.Reserved+v.MySQL.Sold)
		t.Logf("round %d: %d told so far, %d known after the kill; %d of %d reserved", round, len(told), known, v.MySQL.Reserved, pieces)
	}
	// Sold to the last piece, and no further.
	left := s.stock(t).MySQL.Available
	for i := range left {
		token := s.token(t, fmt.Sprintf("last-%d", i))
		s.use(t, token, s.path(t, token))
	}
	s.stockBecomes(t, 0, pieces, 0, patience)
	s.refuses(t, s.token(t, "late"))
}

func TestTwoProcessesOnOneFolder(t *testing.T) {
	dir := t.TempDir()
	first := newProcess(t, dir)
	first.start(t)
	second := newProcess(t, dir)
	out, err := run(t, second.env, "serve")
	require.Error(t, err)
	require.Contains(t, out, "another process uses this directory")
	require.Eventually(t, func() bool { return answersOK(first.url + "/v1/activities") }, patience, 20*time.Millisecond)
}

func TestSettingsAreLoggedWithoutTheirSecrets(t *testing.T) {
	p := newProcess(t, t.TempDir())
	p.env = append(p.env, "LOG_LEVEL=info", "AUTH_HS256_SECRET=hush-buyers", "INTERNAL_SECRET=hush-internal", "PATH_SECRETS=hush-paths")
	p.start(t)
	p.kill(t)
	said := p.log.String()
	for _, setting := range []string{`"DATA_DIR":"`, `"PATH_RATE":"10000"`, `"ORDER_PAYMENT_GRACE":"`, `"INVENTORY_CONSUMERS":"`, `"PATH_SECRETS":"(hidden)"`} {
		require.Contains(t, said, setting)
	}
	require.NotContains(t, said, "hush")
}

func TestDemoSaleWhereTokensAreForAnAudience(t *testing.T) {
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
		return err == nil && strings.Contains(string(list), "Demo")
	}, patience, 50*time.Millisecond)
}

func TestWrongSettingsStopIt(t *testing.T) {
	for setting, name := range map[string]string{
		"HTTP_ADDR=nonsense":         "HTTP_ADDR",
		"HTTP_ADDR=0.0.0.0:0":        "APP_ENV",
		"ADMIN_ADDR=:0":              "APP_ENV",
		"ADMIN_ADDR=127.0.0.1:99999": "ADMIN_ADDR",
		"DEMO=perhaps":               "DEMO",
		"DRAIN_TIMEOUT=soon":         "DRAIN_TIMEOUT",
		"APP_ENV=production":         "APP_ENV",
		"PATH_RATE=-1":               "PATH_RATE",
		"ORDER_SWEEP_AFTER=1ms":      "ORDER_SWEEP_AFTER",
		"INVENTORY_CONSUMERS=1000":   "INVENTORY_CONSUMERS",
	} {
		t.Run(name, func(t *testing.T) {
			env := append(newProcess(t, t.TempDir()).env, setting) // the last one of a name counts
			for _, verb := range []string{"check-config", "serve"} {
				requireRefused(t, env, verb, name)
			}
		})
	}
	requireRefused(t, newProcess(t, "/dev/null/x").env, "serve", "DATA_DIR") // known by trying
}

// requireRefused demands one sentence that names the setting, and the status for it.
func requireRefused(t *testing.T, env []string, verb, name string) {
	t.Helper()
	out, err := run(t, env, verb)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s went on:\n%s", verb, out)
	require.Equal(t, 2, exit.ExitCode(), "%s", out)
	require.Equal(t, 1, strings.Count(strings.TrimSpace(out), "\n")+1, "one sentence:\n%s", out)
	require.Contains(t, out, name)
}

// run is the program until it ends by itself, which it is to do soon.
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

// lines is a buffer that may be read while it is written.
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
