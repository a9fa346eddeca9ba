package allinone_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
)

// linesPerCurrency is the number of SKUs in the sale of each currency.
const linesPerCurrency = 7

// alphabet has characters of texts: scripts in both directions, marks, emoji with joiners and tags, what spreadsheets and
// pages could take for more than text, and characters that no text may have.
var alphabet = []rune("abcXYZ 0189 äßéñ ﬁ Ωж 中文价格 हिन्दी ไทย אבג عربي می\u200cخواهم 👩\u200d👩\u200d👧 🏴\U000e0067\U000e0062\U000e007f " +
	"=+-@'\"<>&;,|%_\\/(){}[]#!?$€£¥ \u00a0\u00ad\u200e\u200f\u0301\t\r\n\u202e\u2067\u3164\u2800\ufeff\ufffd\x00\x1b")

// texts draws texts that the rule for texts accepts.
func texts(of contract.Text) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom(alphabet), 1, min(of.Most, 40), -1).
		Filter(func(s string) bool { return of.Check(s) == "" })
}

// times draws times to the millisecond, as texts with any offset.
func times(from, to time.Time) *rapid.Generator[string] {
	return rapid.Custom(func(r *rapid.T) string {
		ms := rapid.Int64Range(from.UnixMilli(), to.UnixMilli()).Draw(r, "ms")
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(r, "offset"))
		return time.UnixMilli(ms).In(zone).Format("2006-01-02T15:04:05.000Z07:00")
	})
}

type keptSKU struct {
	SKUID     string `json:"sku_id,omitempty"`
	Name      string `json:"name"`
	ListPrice int64  `json:"list_price"`
	Currency  string `json:"currency"`
	Digits    int64  `json:"currency_digits,omitempty"`
	Price     int64  `json:"price,omitempty"`
}

type keptSale struct {
	Title       string    `json:"title"`
	Description string    `json:"description,omitempty"`
	StartsAt    time.Time `json:"starts_at"`
	EndsAt      time.Time `json:"ends_at"`
	Digits      int64     `json:"currency_digits"`
	Items       []keptSKU `json:"items"`
}

// Each text, amount, currency and time that is accepted is stored, shown to merchant and buyer, kept by the order and
// exported as it is: 7 cases for each currency of the table.
func TestWhatIsAcceptedIsKept(t *testing.T) {
	t.Parallel()
	p := newProcess(t, t.TempDir())
	p.env = append(p.env, "MERCHANT_MAX_ACTIVITIES=1000") // all sales are live at once
	p.start(t)
	currencies := contract.Currencies()
	require.GreaterOrEqual(t, len(currencies)*linesPerCurrency, 1000, "cases")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	for i, currency := range currencies {
		s := &shop{url: p.url, http: client}
		s.merchant = s.token(t, "merchant-"+currency, "merchant")
		requireKept(t, s, currency, i)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d currencies, %d cases", len(currencies), len(currencies)*linesPerCurrency)
}

// requireKept sells and buys drawn SKUs in one currency; seed repeats what is drawn.
func requireKept(t *testing.T, s *shop, currency string, seed int) {
	t.Helper()
	name := texts(contract.Text{Most: 200})
	amount := rapid.OneOf(rapid.Int64Range(1, 1200), rapid.Int64Range(1, 100_000_000_000))
	var product struct {
		ID          string    `json:"product_id,omitempty"`
		Name        string    `json:"name"`
		Description string    `json:"description,omitempty"`
		SKUs        []keptSKU `json:"skus"`
	}
	product.Name = name.Example(seed)
	product.Description = texts(contract.Text{Most: 5000, Lines: true}).Example(seed)
	for i := range linesPerCurrency {
		n := seed*linesPerCurrency + i
		product.SKUs = append(product.SKUs, keptSKU{Name: name.Example(n + 1), ListPrice: amount.Example(n), Currency: currency})
	}
	sent := product
	s.must(t, http.StatusCreated, s.merchant, http.MethodPost, "/v1/merchant/products", sent, &product)
	kept := product
	s.must(t, http.StatusOK, s.merchant, http.MethodGet, "/v1/merchant/products/"+product.ID, nil, &kept)
	require.Equal(t, sent.Name, kept.Name)
	require.Equal(t, sent.Description, kept.Description)
	require.Len(t, kept.SKUs, linesPerCurrency)

	now := time.Now()
	startsAt := times(now.Add(-time.Hour), now.Add(-time.Second)).Example(seed)
	endsAt := times(now.Add(time.Hour), now.Add(1000*time.Hour)).Example(seed)
	title := name.Example(-seed - 1)
	var items []map[string]any
	var lines []any
	want := make([]keptSKU, linesPerCurrency)
	total := new(big.Int)
	for i, sku := range sent.SKUs {
		require.Equal(t, sku.Name, kept.SKUs[i].Name)
		require.Equal(t, sku.ListPrice, kept.SKUs[i].ListPrice)
		require.Equal(t, currency, kept.SKUs[i].Currency)
		require.Equal(t, contract.CurrencyDigits(currency), kept.SKUs[i].Digits)
		sku.SKUID, sku.Price = kept.SKUs[i].SKUID, amount.Example(-seed*linesPerCurrency-i)
		want[i] = sku
		items = append(items, map[string]any{"sku_id": sku.SKUID, "price": sku.Price, "stock": 3})
		lines = append(lines, map[string]any{"sku_id": sku.SKUID, "qty": 1})
		total.Add(total, big.NewInt(sku.Price))
	}
	var made struct {
		ActivityID string `json:"activity_id"`
	}
	s.must(t, http.StatusCreated, s.merchant, http.MethodPost, "/v1/merchant/activities", map[string]any{
		"title": title, "starts_at": startsAt, "ends_at": endsAt, "per_user_limit": linesPerCurrency, "items": items,
	}, &made)
	s.activity = made.ActivityID
	s.must(t, http.StatusOK, s.merchant, http.MethodPost, "/v1/merchant/activities/"+s.activity+"/publish", nil, nil)
	for _, path := range []string{"/v1/merchant/activities/", "/v1/activities/"} {
		var sale keptSale
		require.True(t, poll(patience, func() bool {
			return s.call(t, s.merchant, http.MethodGet, path+s.activity, nil, &sale) == http.StatusOK
		}), path)
		requireSale(t, path, sale, title, startsAt, endsAt, want)
	}
	requireOrder(t, s, lines, title, currency, total.Int64(), want, name.Example(seed+100_000))
}

func requireSale(t *testing.T, path string, sale keptSale, title, startsAt, endsAt string, want []keptSKU) {
	t.Helper()
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		return parsed.UTC()
	}
	require.Equal(t, title, sale.Title, path)
	require.Equal(t, at(startsAt), sale.StartsAt.UTC(), path)
	require.Equal(t, at(endsAt), sale.EndsAt.UTC(), path)
	require.Len(t, sale.Items, len(want), path)
	for _, item := range sale.Items {
		for _, sku := range want {
			if sku.SKUID == item.SKUID {
				assert.Equal(t, sku.Name, item.Name, path)
				assert.Equal(t, sku.Price, item.Price, path)
				assert.Equal(t, sku.ListPrice, item.ListPrice, path)
			}
		}
	}
}

// requireOrder buys one unit of each SKU, and requires that order and export have what was accepted.
func requireOrder(
	t *testing.T, s *shop, lines []any, title, currency string, total int64, want []keptSKU, contact string,
) {
	t.Helper()
	buyer := s.token(t, "buyer-"+currency)
	var path struct{ Path string }
	require.True(t, poll(patience, func() bool { // the gate is built after the publication
		return s.call(t, buyer, http.MethodPost, "/v1/activities/"+s.activity+"/paths", map[string]any{}, &path) == http.StatusCreated
	}))
	var r reservation
	s.must(t, http.StatusAccepted, buyer, http.MethodPost,
		"/v1/activities/"+s.activity+"/paths/"+path.Path+"/reservations", map[string]any{"lines": lines}, &r)
	s.becomes(t, buyer, r.OrderSN, "created", patience)
	s.must(t, http.StatusOK, buyer, http.MethodPut, "/v1/orders/"+r.OrderSN+"/contact", map[string]any{
		"name": contact, "phone": "+4930123456", "address_lines": []string{contact},
	}, nil)
	var o struct {
		Title    string `json:"activity_title"`
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
		Digits   int64  `json:"currency_digits"`
		Lines    []struct {
			SKUID string `json:"sku_id"`
			Name  string `json:"name"`
			Price int64  `json:"unit_price"`
		} `json:"lines"`
	}
	require.True(t, poll(patience, func() bool { // title and names reach the order a little later
		return s.call(t, buyer, http.MethodGet, "/v1/orders/"+r.OrderSN, nil, &o) == http.StatusOK && o.Title != ""
	}))
	require.Equal(t, title, o.Title)
	require.Equal(t, total, o.Amount)
	require.Equal(t, currency, o.Currency)
	require.Equal(t, contract.CurrencyDigits(currency), o.Digits)
	var reached struct {
		Name         string   `json:"name"`
		AddressLines []string `json:"address_lines"`
	}
	s.must(t, http.StatusOK, buyer, http.MethodGet, "/v1/orders/"+r.OrderSN+"/contact", nil, &reached)
	contact = strings.TrimSpace(contact) // contacts are kept without white space around them
	require.Equal(t, contact, reached.Name)
	require.Equal(t, []string{contact}, reached.AddressLines)
	var skus []string
	for _, line := range o.Lines {
		for _, sku := range want {
			if sku.SKUID == line.SKUID {
				require.Equal(t, sku.Name, line.Name)
				require.Equal(t, sku.Price, line.Price)
				skus = append(skus, sku.Name+" x1")
			}
		}
	}
	require.Len(t, skus, len(want))

	row := s.exported(t, r.OrderSN)
	require.Equal(t, currency, row["currency"])
	require.Equal(t, decimals(total, contract.CurrencyDigits(currency)), row["amount"])
	require.Equal(t, withoutMarks(contact), withoutMarks(row["contact_name"]))
	require.Equal(t, withoutMarks(contact), withoutMarks(row["contact_address"]))
	for _, sku := range skus {
		require.Contains(t, withoutMarks(row["skus"]), withoutMarks(sku))
	}
}

// withoutMarks drops apostrophes: an export puts one before what a spreadsheet would evaluate.
func withoutMarks(s string) string { return strings.ReplaceAll(s, "'", "") }

// decimals is an amount as an export has it, by arithmetic of its own.
func decimals(minor, digits int64) string {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil)
	return new(big.Rat).SetFrac(big.NewInt(minor), unit).FloatString(int(digits))
}

// exported returns the row of an order in the CSV file of its sale, by column.
func (s *shop) exported(t *testing.T, orderSN string) map[string]string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		s.url+"/v1/merchant/activities/"+s.activity+"/orders?format=csv", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.merchant)
	resp, err := s.http.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	text, marked := strings.CutPrefix(string(raw), "\ufeff")
	require.True(t, marked, "the file begins with a UTF-8 mark")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	for _, fields := range rows[1:] {
		row := map[string]string{}
		for i, column := range rows[0] {
			row[column] = fields[i]
		}
		if row["order_sn"] == "'"+orderSN {
			return row
		}
	}
	require.Fail(t, fmt.Sprintf("no row of %s in %s", orderSN, text))
	return nil
}
