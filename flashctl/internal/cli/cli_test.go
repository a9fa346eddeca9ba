package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/internal/cli"
	"flashsale.internal/flashctl/internal/shoptest"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/settings"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == "storm-part" { // a process of TestStorm
		os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

func run(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = cli.Run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

func TestTokenNeedsNoService(t *testing.T) {
	status, out, errs := run(t, "token", "--user", "42", "--role", "merchant")
	require.Zero(t, status, errs)
	require.Len(t, strings.Split(strings.TrimSpace(out), "."), 3)
}

// With the keys of an identity provider flashctl cannot sign tokens, so it uses the given one.
func TestCommandsUseTheGivenToken(t *testing.T) {
	var requests []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	t.Cleanup(srv.Close)
	t.Setenv("BASE_URL", srv.URL)
	t.Setenv("AUTH_HS256_SECRET", settings.DevelopmentAuthSecret)
	t.Setenv("FLASHCTL_TOKEN", "of.an.operator")
	status, _, errs := run(t, "dead-letters", "list")
	require.Zero(t, status, errs)
	status, _, errs = run(t, "reconcile", "7")
	require.Zero(t, status, errs)
	require.Equal(t, []string{
		"GET /v1/merchant/dead-letters Bearer of.an.operator", "POST /v1/merchant/activities/7/reconciliations Bearer of.an.operator",
	}, requests)
}

func TestRefunds(t *testing.T) {
	var requests []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		switch {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"items":[{"refund_id":"7","state":"refund_failed"}]}`))
		case strings.HasSuffix(r.URL.Path, "/8/settle"):
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"code":"state_conflict","detail":"The provider has made this refund."}`))
		default:
			_, _ = w.Write([]byte(`{"refund_id":"7","state":"refunded"}`))
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("BASE_URL", srv.URL)
	t.Setenv("FLASHCTL_TOKEN", "of.an.operator")
	for _, tt := range []struct {
		args string
		out  string
	}{
		{"refunds list", `{"refund_id":"7","state":"refund_failed"}`},
		{"refunds retry 7", `{"refund_id":"7","state":"refunded"}`},
		{"refunds settle-by-hand 7 --reference t1 --reason closed", `{"refund_id":"7","state":"refunded"}`},
	} {
		status, out, errs := run(t, strings.Fields(tt.args)...)
		require.Zero(t, status, errs)
		require.JSONEq(t, tt.out, out)
	}
	status, _, errs := run(t, "refunds", "settle-by-hand", "8", "--reference", "t1", "--reason", "closed")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "The provider has made this refund.")
	status, _, errs = run(t, "refunds", "settle-by-hand", "7")
	require.Equal(t, 2, status, errs)
	require.Equal(t, []string{
		"GET /v1/merchant/refunds", "POST /v1/merchant/refunds/7/retry",
		`POST /v1/merchant/refunds/7/settle {"reason":"closed","reference":"t1"}`,
		`POST /v1/merchant/refunds/8/settle {"reason":"closed","reference":"t1"}`,
	}, requests)
}

func TestTokensAreForTheAudienceOfTheServices(t *testing.T) {
	t.Setenv("AUTH_HS256_SECRET", settings.DevelopmentAuthSecret)
	t.Setenv("AUTH_AUDIENCE", "flashsale")
	t.Setenv("AUTH_ISSUER", "https://login.example.com")
	status, out, errs := run(t, "token", "--user", "42", "--role", "operator")
	require.Zero(t, status, errs)
	v, err := auth.NewVerifier(settings.Auth{
		HS256Secrets: []string{settings.DevelopmentAuthSecret}, Audience: "flashsale", Issuer: "https://login.example.com",
	}, nil)
	require.NoError(t, err)
	id, err := v.Verify(t.Context(), strings.TrimSpace(out))
	require.NoError(t, err)
	require.Equal(t, "42", id.UserID)
	require.True(t, id.Has(auth.Operator))

	c := client.New(client.Origins{}, client.Options{Secret: settings.DevelopmentAuthSecret, Audience: "flashsale", Issuer: "https://login.example.com"})
	t.Cleanup(c.Close)
	token, err := c.Token(t.Context(), "43")
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)
}

func TestTokensAreSignedWithTheFirstSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("the-new-secret,the-old-one\n"), 0o600))
	v, err := auth.NewVerifier(settings.Auth{HS256Secrets: []string{"the-new-secret"}}, nil)
	require.NoError(t, err)
	for variable, value := range map[string]string{"AUTH_HS256_SECRET": "the-new-secret,the-old-one", "AUTH_HS256_SECRET_FILE": file} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("AUTH_HS256_SECRET", "")
			t.Setenv(variable, value)
			status, out, errs := run(t, "token", "--user", "42")
			require.Zero(t, status, errs)
			_, err := v.Verify(t.Context(), strings.TrimSpace(out))
			require.NoError(t, err)
		})
	}
}

func TestSaleAndBuyCommands(t *testing.T) {
	shop := shoptest.Start(t, shoptest.Faults{})
	t.Setenv("BASE_URL", shop.URL)
	status, out, errs := run(t, "sale", "create", "--stock", "1", "--publish")
	require.Zero(t, status, errs)
	found := regexp.MustCompile(`^activity (\d+) sku (\d+)\n$`).FindStringSubmatch(out)
	require.NotNil(t, found, out)

	status, out, errs = run(t, "buy", found[1], "--user", "42", "--pay")
	require.Zero(t, status, errs)
	require.Regexp(t, `(?s)order \d+ queued.*order \d+ created.*order \d+ paid`, out)

	status, _, errs = run(t, "buy", found[1], "--user", "43")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "purchase of 43 failed, sold_out")

	status, out, errs = run(t, "sale", "watch", "--once", found[1])
	require.Zero(t, status, errs)
	require.Contains(t, out, "database: 0 available, 0 reserved, 1 sold of 1; gate: 0 left, 0 held")

	status, out, errs = run(t, "sale", "duplicate", found[1])
	require.Zero(t, status, errs)
	draft := regexp.MustCompile(`^activity (\d+)\n$`).FindStringSubmatch(out)
	require.NotNil(t, draft, out)
	status, out, errs = run(t, "sale", "delete", draft[1])
	require.Zero(t, status, errs)
	require.Empty(t, out)
	for id, code := range map[string]string{draft[1]: "not_found", found[1]: "state_conflict"} {
		status, _, errs = run(t, "sale", "delete", id)
		require.Equal(t, 1, status)
		require.Contains(t, errs, code)
	}
}

func TestLoadReport(t *testing.T) {
	shop := shoptest.Start(t, shoptest.Faults{})
	t.Setenv("BASE_URL", shop.URL)
	status, out, errs := run(t, "load", "--stock", "5", "--buyers", "20", "--width", "4")
	require.Zero(t, status, errs)
	require.Regexp(t, `accepted\s+5\s`, out)
	require.Regexp(t, `sold_out\s+15\s`, out)
	require.Regexp(t, `created\s+5\s`, out)

	status, out, errs = run(t, "load", "--stock", "5", "--buyers", "20", "--json")
	require.Zero(t, status, errs)
	require.Contains(t, out, `"sold_out":15`)
}

func TestEveryBuyerIsCounted(t *testing.T) {
	for name, rate := range map[string]int{"closed loop": 0, "open loop": 500} {
		t.Run(name, func(t *testing.T) {
			shop := shoptest.Start(t, shoptest.Faults{LosesOrders: 2, Refuses: 5})
			t.Setenv("BASE_URL", shop.URL)
			// The sale is not open yet; buyers wait for its start.
			status, out, errs := run(t, "sale", "create", "--stock", "20", "--publish", "--starts-in", "300ms")
			require.Zero(t, status, errs)
			id := strings.Fields(out)[1]
			status, out, errs = run(t, "load", "--activity", id, "--buyers", "100", "--width", "10", "--json",
				"--rate", strconv.Itoa(rate))
			require.Zero(t, status, errs)
			var report load.Report
			require.NoError(t, json.Unmarshal([]byte(out), &report))
			attempt, path := report.Step("attempt"), report.Step("path").Times
			require.Equal(t, map[string]int{"accepted": 20, "sold_out": 80}, attempt.Outcomes)
			require.Equal(t, map[string]int{"created": 18, "failed": 2}, report.Step("order").Outcomes)
			require.Equal(t, 100, attempt.Times.Count)
			if rate > 0 {
				require.GreaterOrEqual(t, report.Took, 198*time.Millisecond, "the last buyer begins after 99/500 s")
				require.GreaterOrEqual(t, attempt.Times.Max, path.Max, "the time counts from when a buyer was due")
			}
		})
	}
}

func TestPathsAreCounted(t *testing.T) {
	shop := shoptest.Start(t, shoptest.Faults{})
	t.Setenv("BASE_URL", shop.URL)
	status, out, errs := run(t, "load", "paths", "--users", "4", "--conns", "2", "--rate", "200", "--for", "100ms", "--json")
	require.Zero(t, status, errs)
	var report load.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, map[string]int{"201": 20}, report.Step("path").Outcomes)
	require.Equal(t, map[string]int{"202": 20}, report.Step("purchase").Outcomes)
	require.Equal(t, 20, report.Step("path").Times.Count)
	require.Equal(t, 20, report.Step("sent late").Times.Count)
	require.Equal(t, []int{20}, report.Step("path").PerSecond[:1])
}

func TestRefusalsMustNameTheirLimits(t *testing.T) {
	for want, fields := range map[string]map[string]string{
		"":                        {"Retry-After": "2", "RateLimit": `"a";r=0;t=2`, "RateLimit-Policy": `"a";q=5;w=1`},
		`Retry-After ""`:          {},
		"of a refusal by a":       {"Retry-After": "2", "RateLimit": `"b";r=0;t=2`},
		"with Retry-After 1":      {"Retry-After": "1", "RateLimit": `"a";r=0;t=2`},
		"RateLimit-Policy [\"\"]": {"Retry-After": "2", "RateLimit": `"a";r=0;t=2`},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/paths") {
				for name, value := range fields {
					w.Header().Set(name, value)
				}
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(`{"code":"rate_limited","violated_policies":["a"]}`))
				return
			}
			_, _ = w.Write([]byte(`{"activity_id":"7","items":[{"sku_id":"1"}]}`))
		}))
		t.Setenv("BASE_URL", srv.URL)
		t.Setenv("AUTH_HS256_SECRET", settings.DevelopmentAuthSecret)
		status, out, errs := run(t, "load", "paths", "--activity", "7", "--users", "1", "--conns", "1", "--rate", "100", "--for", "20ms")
		srv.Close()
		require.Contains(t, out, "429 rate_limited")
		if want == "" {
			require.Zero(t, status, errs)
			require.Contains(t, out, "Retry-After 2")
			continue
		}
		require.Equal(t, 1, status)
		require.Contains(t, errs, want)
	}
}

func TestInvalidArgumentsAreReported(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{}, "expected one of"},
		{[]string{"token"}, "missing flags: --user"},
		{[]string{"token", "--user", "42", "--role", "king"}, "must be one of"},
		{[]string{"sale", "create", "--merchant", "a b"}, `"a b" is not 1 to 64 of`},
		{[]string{"dead-letters", "replay", "7", "--merchant", "m1"}, "unknown flag --merchant"},
		{[]string{"dead-letters", "reject", "7", "--merchant", "m1"}, "unknown flag --merchant"},
		{[]string{"reconcile", "7", "--merchant", "m1"}, "unknown flag --merchant"},
		{[]string{"demo", "--units", "3"}, "3 units are not an even number"},
		{[]string{"demo", "--merchant", "m1"}, "are not two different merchants"},
		{[]string{"demo", "--merchant", "m1,m1"}, "are not two different merchants"},
		{[]string{"demo", "--merchant", "m1,m 2"}, `"m 2" is not 1 to 64 of`},
		{[]string{"demo", "--buyers", "5"}, "fewer than two for each"},
		{[]string{"demo", "--pay-within", "1500ms"}, "not whole seconds"},
		{[]string{"load", "--buyers", "0"}, "0 buyers"},
	} {
		status, _, errs := run(t, c.args...)
		require.Equal(t, 2, status, c.args)
		require.Contains(t, errs, c.want)
	}
}

// Every command of a merchant acts for the merchant of --merchant, and for none that it names without the flag. The
// buyers of a load act for no merchant.
func TestMerchantFlag(t *testing.T) {
	var mu sync.Mutex
	var requests []*http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/paths") {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"status":409,"code":"sold_out"}`))
			return
		}
		_, _ = w.Write([]byte(`{"activity_id":"7","skus":[{"sku_id":"1"}],"items":[{"sku_id":"1"}]}`))
	}))
	t.Cleanup(srv.Close)
	t.Setenv("BASE_URL", srv.URL)
	t.Setenv("AUTH_HS256_SECRET", settings.DevelopmentAuthSecret+",the-old-secret-of-a-rotation")
	const buyers, paths = "load buyers --buyers 2 --width 1", "load paths --users 2 --conns 1 --rate 100 --for 50ms"
	for _, command := range []string{
		"sale create", "sale publish 7", "sale pause 7", "sale resume 7", "sale end 7", "sale duplicate 7", "sale delete 7", "sale watch 7 --once",
		"dead-letters list", buyers, buyers + " --activity 7", paths, paths + " --activity 7",
	} {
		for _, merchant := range []string{"", "m-1"} {
			requests = nil
			args := strings.Fields(command)
			if merchant != "" {
				args = append(args, "--merchant", merchant)
			}
			status, _, errs := run(t, args...)
			require.Zero(t, status, "%s: %s", command, errs)
			own, bought := 0, 0
			for _, r := range requests {
				token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				if claimOf(t, token, "sub") != "flashctl" { // a buyer
					require.True(t, strings.HasSuffix(r.URL.Path, "/paths"), r.URL.Path)
					require.Empty(t, claimOf(t, token, "merchant_id"), command)
					bought++
					continue
				}
				require.Equal(t, merchant, claimOf(t, token, "merchant_id"), "%s: %s", command, r.URL.Path)
				own++
			}
			require.Positive(t, own, command)
			require.Equal(t, strings.HasPrefix(command, "load"), bought > 0, command)
			if command == "dead-letters list" && merchant != "" {
				require.Contains(t, requests[0].URL.RawQuery, "merchant_id=m-1")
			}
		}
	}

	status, out, errs := run(t, "token", "--user", "42", "--role", "merchant", "--merchant", "m-1")
	require.Zero(t, status, errs)
	require.Equal(t, "m-1", claimOf(t, strings.TrimSpace(out), "merchant_id"))
	v, err := auth.NewVerifier(settings.Auth{HS256Secrets: []string{settings.DevelopmentAuthSecret}}, nil)
	require.NoError(t, err)
	id, err := v.Verify(t.Context(), strings.TrimSpace(out))
	require.NoError(t, err, "the first secret of the list signs")
	require.Equal(t, auth.Identity{UserID: "42", Roles: []auth.Role{auth.Merchant}, MerchantID: "m-1"}, id)

	t.Setenv("FLASHCTL_TOKEN", "of.a.merchant")
	status, _, errs = run(t, "sale", "end", "7", "--merchant", "m-1")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "--merchant has no effect with FLASHCTL_TOKEN")
}

// claimOf returns a claim of a token that is a string; "" if the token does not have it.
func claimOf(t *testing.T, token, name string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(raw, &claims))
	value, _ := claims[name].(string)
	return value
}

// The whole file is checked before the first call, and the same file may be imported again.
func TestProductsImport(t *testing.T) {
	stored := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := http.StatusOK
		if stored[r.URL.Path] == "" {
			status = http.StatusCreated
		}
		if strings.HasSuffix(r.URL.Path, "/TAKEN") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"code":"state_conflict","detail":"another SKU of the merchant has the ref X"}`))
			return
		}
		stored[r.URL.Path] = r.Method + " " + string(body)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(srv.Close)
	t.Setenv("BASE_URL", srv.URL)
	t.Setenv("FLASHCTL_TOKEN", "of.a.merchant")
	const header = "product_ref,product_name,sku_ref,sku_name,list_price,currency\n"
	file := filepath.Join(t.TempDir(), "products.csv")
	write := func(rows string) { require.NoError(t, os.WriteFile(file, []byte(header+rows), 0o600)) }

	write("L,Lamp,L-1,red,99.00,EUR\nC,Chair,C-1,one,\"9,000\",EUR\n")
	status, _, errs := run(t, "products", "import", file)
	require.Equal(t, 1, status)
	require.Contains(t, errs, `line 3, list_price: "9,000"`)
	require.Empty(t, stored)

	write("L,Lamp,L-1,red,99.00,EUR\nC,Chair,C-1,one,9000,JPY\nL,Lamp,L-2,blue,99,EUR\n")
	status, out, errs := run(t, "products", "import", file)
	require.Zero(t, status, errs)
	require.Equal(t, "2 products: 2 created, 0 existed\n", out)
	want := map[string]string{
		"/v1/merchant/products/by-ref/L": `PUT {"name":"Lamp","description":"","image_url":"","skus":[` +
			`{"ref":"L-1","name":"red","list_price":9900,"currency":"EUR"},{"ref":"L-2","name":"blue","list_price":9900,"currency":"EUR"}]}`,
		"/v1/merchant/products/by-ref/C": `PUT {"name":"Chair","description":"","image_url":"","skus":[` +
			`{"ref":"C-1","name":"one","list_price":9000,"currency":"JPY"}]}`,
	}
	require.Equal(t, want, stored)
	status, out, errs = run(t, "products", "import", file)
	require.Zero(t, status, errs)
	require.Equal(t, "2 products: 0 created, 2 existed\n", out)
	require.Equal(t, want, stored)

	write("L,Lamp,L-1,red,99.00,EUR\nTAKEN,Chair,X,one,9000,JPY\n")
	status, _, errs = run(t, "products", "import", file)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "line 3, product TAKEN: ")
	require.Contains(t, errs, "another SKU of the merchant has the ref X; 1 of 2 products were imported before")
	status, _, errs = run(t, "products", "import", filepath.Join(t.TempDir(), "none.csv"))
	require.Equal(t, 1, status, errs)
}
