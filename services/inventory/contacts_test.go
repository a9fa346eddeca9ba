package inventory

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

// lookups is the lookup of the order service behind a real HTTP server. An order that it does not have is unknown.
type lookups struct {
	url string

	mu      sync.Mutex
	results map[string]string // by order_sn: the members after order_sn, in JSON
	shown   map[string]string // by order_sn: an order for a page, in JSON, without its order_sn
	calls   int
	largest int // order_sns in a call
	status  int // of the responses; 0 for 200
}

func newLookups(t *testing.T) *lookups {
	l := &lookups{results: map[string]string{}, shown: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/v1/orders:lookup", func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		var body struct {
			SNs []string `json:"order_sns"`
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if l.calls++; d.Decode(&body) != nil || l.status != 0 {
			w.WriteHeader(max(l.status, 400))
			return
		}
		l.largest = max(l.largest, len(body.SNs))
		all := make([]string, len(body.SNs))
		for i, sn := range body.SNs {
			rest, ok := l.results[sn]
			if !ok {
				rest = `"state":"unknown"`
			}
			all[i] = fmt.Sprintf(`{"order_sn":%q,%s}`, sn, rest)
		}
		_, _ = fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(all, ","))
	})
	mux.HandleFunc("GET /internal/v1/orders/{order_sn}", l.serveOrder)
	(&refundService{}).serve(mux)
	srv := httptest.NewServer(auth.Internal("x")(mux))
	t.Cleanup(srv.Close)
	l.url = srv.URL
	return l
}

func (l *lookups) set(sn, members string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[sn] = members
}

// show sets the order of a page.
func (l *lookups) show(sn, order string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown[sn] = order
}

func (l *lookups) serveOrder(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.status != 0 {
		w.WriteHeader(l.status)
		return
	}
	doc := map[string]any{"state": "unknown"}
	if order, ok := l.shown[r.PathValue("order_sn")]; ok {
		if err := json.Unmarshal([]byte(order), &doc); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
	}
	doc["order_sn"] = r.PathValue("order_sn")
	for _, list := range []string{"lines", "payments", "refunds", "decisions"} {
		if doc[list] == nil {
			doc[list] = []any{}
		}
	}
	_ = json.NewEncoder(w).Encode(doc)
}

// count returns the number of calls since the last count, and the most order_sns in one of them.
func (l *lookups) count() (calls, largest int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls, largest = l.calls, l.largest
	l.calls, l.largest = 0, 0
	return calls, largest
}

func (l *lookups) respond(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

// open publishes a sale and lands n reservations with the order_sns 1000, 1001, ...
func (s *shop) open(n int) (activityID string) {
	s.t.Helper()
	sku := s.product("EUR")[0]
	id := s.draft(sku, n+10)
	require.Equal(s.t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
	var items []contract.Reservation
	for i := range n {
		items = append(items, contract.Reservation{
			OrderSN: fmt.Sprint(1000 + i), UserID: fmt.Sprint("u", i), ActivityID: id,
			Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: time.Now(),
		})
	}
	for len(items) > 0 {
		k := min(len(items), contract.MaxItems)
		require.NoError(s.t, s.svc.core.Land(s.t.Context(), items[:k], nil))
		items = items[k:]
	}
	return id
}

func (s *shop) export(token, at string) [][]string {
	s.t.Helper()
	got := s.as(token, "GET", at, "", "Accept", "text/csv")
	require.Equal(s.t, 200, got.status, "%s", got.body)
	return s.sheet(got)
}

// sheet reads an export, which begins with the mark of UTF-8.
func (s *shop) sheet(got response) [][]string {
	s.t.Helper()
	text, marked := bytes.CutPrefix(got.body, []byte("\xef\xbb\xbf"))
	require.True(s.t, marked)
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(s.t, err)
	return rows
}

// Merchants see contacts in full. Operators see the first character of the name and the last four digits of the phone
// number, also if they are merchants too. Without the order service the list is served without orders.
func TestContactsInTheOrdersOfAnActivity(t *testing.T) {
	t.Parallel()
	l := newLookups(t)
	s := newShop(t, func(c *Config) { c.OrderURL = l.url })
	at := "/v1/merchant/activities/" + s.open(5) + "/orders"
	l.set("1000", `"state":"paid","amount":9900,"currency":"EUR","contact":{"name":"王小明","phone":"+8613812345678","address_lines":["=1+1","1 Renmin Road"]}`)
	l.set("1001", `"state":"closed","amount":9900,"currency":"EUR","contact":{"name":"=cmd()","phone":"+4915112345678"}`)
	l.set("1002", `"state":"pending","amount":9900,"currency":"EUR"`)
	l.set("1003", `"state":"pending","amount":1,"currency":"EUR","contact":{"name":"＝sum()","phone":"+15550100"}`)

	type item struct {
		SN      string  `json:"order_sn"`
		State   *string `json:"order_state"`
		Amount  *int64  `json:"amount"`
		Contact *struct {
			Name    string    `json:"name"`
			Phone   string    `json:"phone"`
			Address *[]string `json:"address_lines"`
		} `json:"contact"`
	}
	list := func(token string) map[string]item {
		got := s.as(token, "GET", at, "")
		require.Equal(t, 200, got.status, "%s", got.body)
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		var all struct {
			Items []item `json:"items"`
		}
		got.into(t, &all)
		found := map[string]item{}
		for _, it := range all.Items {
			found[it.SN] = it
		}
		require.Len(t, found, 5)
		return found
	}
	full := list(s.token)
	require.Equal(t, "王小明", full["1000"].Contact.Name)
	require.Equal(t, "+8613812345678", full["1000"].Contact.Phone)
	require.Equal(t, []string{"=1+1", "1 Renmin Road"}, *full["1000"].Contact.Address)
	require.Equal(t, "paid", *full["1000"].State)
	require.Equal(t, int64(9900), *full["1000"].Amount)
	require.Nil(t, full["1002"].Contact)
	require.Equal(t, "pending", *full["1002"].State)
	require.Nil(t, full["1004"].State, "no order yet")
	require.Contains(t, string(s.do("GET", at, "").body), `"order_state":null`)
	require.Equal(t, []string{"paid", "99.00", "EUR", "王小明", "'+8613812345678", "'=1+1, 1 Renmin Road"}, s.export(s.token, at)[5][10:16])
	require.Equal(t, []string{"closed", "99.00", "EUR", "'=cmd()", "'+4915112345678", ""}, s.export(s.token, at)[4][10:16])
	require.Equal(t, []string{"pending", "99.00", "EUR", "", "", ""}, s.export(s.token, at)[3][10:16])
	require.Equal(t, "'＝sum()", s.export(s.token, at)[2][13])
	sku, _, _ := strings.Cut(s.export(s.token, at)[3][2], "x1")
	l.set("1002", `"state":"pending","amount":9900,"currency":"EUR","sku_names":{"`+sku+`":"Phone as bought"}`)
	require.Equal(t, "Phone as bought x1", s.export(s.token, at)[3][3])
	require.NotContains(t, s.export(s.token, at)[2][3], "as bought", "its order names nothing: the present name")
	require.Equal(t, []string{"", "", "", "", "", ""}, s.export(s.token, at)[1][10:16])

	for name, token := range map[string]string{
		"operator": s.mint("op", auth.Operator), "operator and merchant": s.mint("both", auth.Merchant, auth.Operator),
	} {
		masked := list(token)
		require.Equal(t, "王***", masked["1000"].Contact.Name, name)
		require.Equal(t, "***5678", masked["1000"].Contact.Phone, name)
		require.Nil(t, masked["1000"].Contact.Address, name)
		require.Equal(t, []string{"paid", "99.00", "EUR", "王***", "***5678", ""}, s.export(token, at)[5][10:16], name)
		for _, got := range []response{s.as(token, "GET", at, ""), s.as(token, "GET", at, "", "Accept", "text/csv")} {
			for _, secret := range []string{"小明", "138123", "Renmin", "cmd", "491511"} {
				require.NotContains(t, string(got.body), secret, name)
			}
		}
	}
	require.Equal(t, 403, s.as(s.mint("u0"), "GET", at, "").status, "a buyer")
	require.Equal(t, 401, s.as("", "GET", at, "").status)

	l.respond(http.StatusServiceUnavailable)
	down := list(s.token)
	require.Nil(t, down["1000"].Contact)
	require.Nil(t, down["1000"].State)
	require.Equal(t, []string{"", "", "", "", "", ""}, s.export(s.token, at)[5][10:16])
	l.respond(0)
	require.Eventually(t, func() bool { // the breaker may be open
		return list(s.token)["1000"].Contact != nil
	}, 30*time.Second, 50*time.Millisecond)
}

// Each page of an export takes as few lookups as their bound allows. An order service that keeps failing does not
// delay an export page by page.
func TestLookupsOfAnExport(t *testing.T) {
	t.Parallel()
	l := newLookups(t)
	s := newShop(t, func(c *Config) { c.OrderURL = l.url })
	const rowsOfSale = 4100 // five pages
	at := "/v1/merchant/activities/" + s.open(rowsOfSale) + "/orders"
	for i := range rowsOfSale {
		l.set(fmt.Sprint(1000+i), fmt.Sprintf(`"state":"paid","amount":%d,"currency":"EUR"`, i))
	}
	rows := s.export(s.token, at)
	require.Len(t, rows, 1+rowsOfSale)
	for i, row := range rows[1:] {
		require.Equal(t, []string{"paid", contract.Decimal(int64(rowsOfSale-1-i), "EUR")}, row[10:12])
	}
	calls, largest := l.count()
	require.Equal(t, []int{17, contract.MaxItems}, []int{calls, largest}, "four for 1000 rows, one for 100")

	l.respond(http.StatusBadRequest) // does not open the breaker
	require.Len(t, s.export(s.token, at), 1+rowsOfSale)
	calls, _ = l.count()
	require.Equal(t, 12, calls, "of three pages")
}
