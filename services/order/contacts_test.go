package order_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

func contactKey(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

var (
	firstKey  = contactKey("the-first-key-of-the-tests-32-by")
	secondKey = contactKey("the-second-key-of-the-tests-32-b")
)

const goodContact = `{"name":"Li Lei","phone":"138-1234-5678","address_lines":["1 Renmin Road","Shanghai"]}`

func (r *running) contactPath(d contract.Deduction) string {
	return "/v1/orders/" + d.OrderSN + "/contact"
}

func (r *running) putContact(d contract.Deduction, body string) response {
	r.t.Helper()
	return r.call("PUT", r.contactPath(d), d.UserID, body)
}

func (r *running) lookup(sns ...string) []any {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"order_sns": sns})
	require.NoError(r.t, err)
	a := r.callInternal("/internal/v1/orders:lookup", settings.DevelopmentInternalSecret, string(body))
	require.Equal(r.t, 200, a.status, a.raw)
	require.Equal(r.t, "no-store", a.header.Get("Cache-Control"))
	return a.body["results"].([]any)
}

func withKeys(keys ...string) change {
	return func(c *order.Config, _ *order.Deps) { c.Contacts.Keys = keys }
}

func TestContactOfAnOrder(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	d := r.created("u1")
	other := r.created("u1")
	require.Equal(t, 404, r.call("GET", r.contactPath(d), "u1", "").status)
	for range 2 {
		a := r.putContact(d, goodContact)
		require.Equal(t, 200, a.status, a.raw)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.JSONEq(t, `{"name":"Li Lei","phone":"+8613812345678","address_lines":["1 Renmin Road","Shanghai"]}`, a.raw)
	}
	got := r.call("GET", r.contactPath(d), "u1", "")
	require.Equal(t, 200, got.status)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	require.JSONEq(t, `{"name":"Li Lei","phone":"+8613812345678","address_lines":["1 Renmin Road","Shanghai"]}`, got.raw)
	require.Equal(t, 200, r.putContact(d, `{"name":"王","phone":"+4915112345678"}`).status)
	require.JSONEq(t, `{"name":"王","phone":"+4915112345678"}`, r.call("GET", r.contactPath(d), "u1", "").raw, "replaced as a whole")
	require.Equal(t, 404, r.call("GET", r.contactPath(other), "u1", "").status)
	require.NotContains(t, r.order(d), "contact")

	results := r.lookup(d.OrderSN, other.OrderSN, "4711")
	require.Equal(t, map[string]any{"name": "王", "phone": "+4915112345678"}, results[0].(map[string]any)["contact"])
	require.Equal(t, "pending", results[0].(map[string]any)["state"])
	require.EqualValues(t, 700, results[0].(map[string]any)["amount"])
	require.NotContains(t, results[1], "contact")
	require.Equal(t, map[string]any{"order_sn": "4711", "state": "unknown"}, results[2])

	// Paid: still allowed. Closed or refunded: readable, and no longer changed.
	id := r.pay(d, "k")
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded).status)
	require.Equal(t, 200, r.putContact(d, goodContact).status)
	require.Equal(t, 200, r.putContact(other, goodContact).status)
	require.Equal(t, 200, r.call("POST", "/v1/orders/"+other.OrderSN+"/cancel", "u1", "").status)
	a := r.callInternal("/internal/v1/orders:refund", settings.DevelopmentInternalSecret, fmt.Sprintf(`{"order_sns":[%q],"reason":"no_stock"}`, d.OrderSN))
	require.Equal(t, 200, a.status)
	for state, ended := range map[string]contract.Deduction{"refunded": d, "closed": other} {
		a := r.putContact(ended, goodContact)
		require.Equal(t, []any{409, "state_conflict", state}, []any{a.status, a.code(), a.body["state"]})
		require.Equal(t, 200, r.call("GET", r.contactPath(ended), "u1", "").status)
	}
}

func TestInvalidContacts(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	d := r.created("u1")
	path, wide := r.contactPath(d), strings.Repeat("x", 121)
	for name, tt := range map[string]struct {
		method, path, user, body string
		status                   int
		field                    string
	}{
		"no token":            {"GET", path, "", "", 401, ""},
		"no token to put":     {"PUT", path, "", goodContact, 401, ""},
		"another buyer":       {"GET", path, "u2", "", 404, ""},
		"another buyer's put": {"PUT", path, "u2", goodContact, 404, ""},
		"no such order":       {"PUT", "/v1/orders/12345/contact", "u1", goodContact, 404, ""},
		"malformed order":     {"PUT", "/v1/orders/0x1/contact", "u1", goodContact, 404, ""},
		"malformed order get": {"GET", "/v1/orders/-1/contact", "u1", "", 404, ""},
		"method":              {"POST", path, "u1", goodContact, 405, ""},
		"no body":             {"PUT", path, "u1", "", 400, "body"},
		"no name":             {"PUT", path, "u1", `{"phone":"13812345678"}`, 400, "name"},
		"no phone":            {"PUT", path, "u1", `{"name":"a"}`, 400, "phone"},
		"null":                {"PUT", path, "u1", `{"name":null,"phone":"13812345678"}`, 400, "name"},
		"null lines":          {"PUT", path, "u1", `{"name":"a","phone":"13812345678","address_lines":null}`, 400, "address_lines"},
		"number":              {"PUT", path, "u1", `{"name":"a","phone":13812345678}`, 400, "phone"},
		"unknown field":       {"PUT", path, "u1", `{"name":"a","phone":"13812345678","mail":"x"}`, 400, "mail"},
		"name twice":          {"PUT", path, "u1", `{"name":"a","name":"b","phone":"13812345678"}`, 400, "name"},
		"blank name":          {"PUT", path, "u1", `{"name":"  ","phone":"13812345678"}`, 400, "name"},
		"name of 65":          {"PUT", path, "u1", `{"name":"` + strings.Repeat("王", 65) + `","phone":"13812345678"}`, 400, "name"},
		"control character":   {"PUT", path, "u1", `{"name":"a\u0007","phone":"13812345678"}`, 400, "name"},
		"newline":             {"PUT", path, "u1", `{"name":"a","phone":"13812345678","address_lines":["a\nb"]}`, 400, "address_lines[0]"},
		"half a surrogate":    {"PUT", path, "u1", `{"name":"a\ud800","phone":"13812345678"}`, 400, "name"},
		"not UTF-8":           {"PUT", path, "u1", "{\"name\":\"a\xff\",\"phone\":\"13812345678\"}", 400, "body"},
		"short phone":         {"PUT", path, "u1", `{"name":"a","phone":"1381234567"}`, 400, "phone"},
		"text as phone":       {"PUT", path, "u1", `{"name":"a","phone":"call me"}`, 400, "phone"},
		"unknown country":     {"PUT", path, "u1", `{"name":"a","phone":"+999123456789"}`, 400, "phone"},
		"five lines":          {"PUT", path, "u1", `{"name":"a","phone":"13812345678","address_lines":["1","2","3","4","5"]}`, 400, "address_lines"},
		"blank line":          {"PUT", path, "u1", `{"name":"a","phone":"13812345678","address_lines":["1",""]}`, 400, "address_lines[1]"},
		"wide line":           {"PUT", path, "u1", `{"name":"a","phone":"13812345678","address_lines":["` + wide + `"]}`, 400, "address_lines[0]"},
		"too large":           {"PUT", path, "u1", `{"name":"` + strings.Repeat("x", 65<<10) + `"}`, 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.call(tt.method, tt.path, tt.user, tt.body)
			require.Equal(t, tt.status, a.status, a.raw)
			if tt.field != "" {
				require.Equal(t, "invalid_request", a.code())
				require.Equal(t, tt.field, a.body["errors"].([]any)[0].(map[string]any)["field"], a.raw)
			}
		})
	}
	all := r.putContact(d, `{"name":"","phone":"x","address_lines":["ok","\t"]}`)
	require.Len(t, all.body["errors"], 3, "every wrong field is named")
	require.Equal(t, 404, r.call("GET", path, "u1", "").status, "nothing was stored")
	require.Equal(t, 415, r.call("PUT", path, "u1", goodContact, "Content-Type", "text/plain").status)

	secret := settings.DevelopmentInternalSecret
	require.Equal(t, 401, r.callInternal("/internal/v1/orders:lookup", "x", `{"order_sns":["1"]}`).status)
	require.Equal(t, 404, r.call("POST", "/internal/v1/orders:lookup", "u1", `{"order_sns":["1"]}`).status)
	for _, body := range []string{`{}`, `{"order_sns":[]}`, `{"order_sns":["x"]}`, `{"order_sns":["1"],"reason":"x"}`, `{"order_sns":["` + strings.Repeat(`1","`, 256) + `1"]}`} {
		require.Equal(t, 400, r.callInternal("/internal/v1/orders:lookup", secret, body).status, body)
	}
}

// new,old everywhere, then the command, then new alone. A lost key: 503 for the buyer, no contact in lists, and the
// contact can be given again. The contacts of a buyer can be deleted.
func TestContactKeysAndCommands(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	r := run(t, db, withKeys(firstKey))
	d, other := r.created("u1"), r.created("u2")
	for _, of := range []contract.Deduction{d, other} {
		require.Equal(t, 200, r.putContact(of, goodContact).status)
	}
	reencrypt := func(keys ...string) (string, error) {
		stored, err := order.OpenContacts(db, order.Contacts{Keys: keys})
		require.NoError(t, err)
		var out strings.Builder
		err = stored.Reencrypt(t.Context(), &out)
		return out.String(), err
	}
	lost := run(t, db, withKeys(secondKey))
	a := lost.call("GET", lost.contactPath(d), "u1", "")
	require.Equal(t, []any{503, "unavailable"}, []any{a.status, a.code()})
	require.NotContains(t, lost.lookup(d.OrderSN)[0], "contact")
	_, err := reencrypt(secondKey)
	require.ErrorContains(t, err, "2 contacts")

	both := run(t, db, withKeys(secondKey, firstKey))
	require.Equal(t, 200, both.call("GET", both.contactPath(d), "u1", "").status)
	text, err := reencrypt(secondKey, firstKey)
	require.NoError(t, err)
	require.Contains(t, text, "2 contacts encrypted again; 0 left")
	require.Equal(t, 200, lost.call("GET", lost.contactPath(d), "u1", "").status, "the new key alone")
	require.Equal(t, 503, r.call("GET", r.contactPath(d), "u1", "").status, "the old key alone")
	require.Equal(t, 200, r.putContact(d, goodContact).status, "given again")
	require.Equal(t, 200, r.call("GET", r.contactPath(d), "u1", "").status)

	stored, err := order.OpenContacts(db, order.Contacts{Keys: []string{secondKey}})
	require.NoError(t, err)
	n, err := stored.ForgetContacts(t.Context(), "u1")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 404, r.call("GET", r.contactPath(d), "u1", "").status)
	require.Equal(t, 200, lost.call("GET", lost.contactPath(other), "u2", "").status, "of another user")
}

// Orders show the title of their activity and the names of their SKUs, as the deductions describe them.
func TestOrdersShowNames(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	plain := r.created("u1")
	require.NotContains(t, r.order(plain), "activity_title")
	d := r.deduction("u1")
	d.ActivityID = "8"
	bodies, err := contract.EncodeDeductions([]contract.Deduction{d}, []contract.ActivityInfo{{
		ActivityID: "8", Title: "Kettles", EndsAt: time.Now().Add(time.Hour), AsOf: time.Now(),
		SKUs: []contract.SKUName{{SKUID: "11", Name: "Red kettle"}},
	}})
	require.NoError(t, err)
	require.NoError(t, r.bus.Publish(t.Context(), bus.Message{Topic: contract.TopicDeductions, Body: bodies[0]}))
	eventually(t, func() bool { return r.call("GET", "/v1/orders/"+d.OrderSN, "u1", "").status == 200 }, "landed")
	o := r.order(d)
	require.Equal(t, "Kettles", o["activity_title"])
	require.Equal(t, "Red kettle", o["lines"].([]any)[0].(map[string]any)["name"])
	list := r.call("GET", "/v1/orders", "u1", "").body["items"].([]any)
	require.Equal(t, "Kettles", list[0].(map[string]any)["activity_title"])
	require.NotContains(t, list[1], "activity_title")
	found := r.lookup(d.OrderSN, plain.OrderSN, "1")
	require.Equal(t, map[string]any{"11": "Red kettle"}, found[0].(map[string]any)["sku_names"], "for inventory's exports")
	require.NotContains(t, found[1], "sku_names")
	a := r.call("POST", "/v1/orders/"+d.OrderSN+"/cancel", "u1", "")
	require.Equal(t, "Kettles", a.body["activity_title"])
}

// Names are optional: a call that took effect does not fail when they cannot be read.
func TestOrdersWithoutNames(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	log := &lines{}
	withLog := func(_ *order.Config, d *order.Deps) { d.Telemetry.Log = telemetry.NewLogger(log, slog.LevelDebug) }
	d := run(t, db).created("u1")
	require.NoError(t, db.Table("descriptions").Create(map[string]any{
		"activity_id": d.ActivityID, "title": "Kettles", "skus": "{malformed", "ends_at": time.Now(), "as_of": time.Now(),
	}).Error)
	r := run(t, db, withLog) // another process, which has no description in memory
	require.Equal(t, "Kettles", r.order(d)["activity_title"], "without names of SKUs")
	require.Equal(t, 200, r.putContact(d, goodContact).status)

	r = run(t, db, withLog)
	require.NoError(t, db.Exec("ALTER TABLE descriptions RENAME TO renamed").Error)
	a := r.call("POST", "/v1/orders/"+d.OrderSN+"/cancel", "u1", "")
	require.Equal(t, []any{200, "closed"}, []any{a.status, a.body["state"]}, a.raw)
	require.NotContains(t, a.body, "activity_title")
	require.Equal(t, 1, strings.Count(log.String(), "read names of activities failed"))
	require.Len(t, r.call("GET", "/v1/orders", "u1", "").body["items"], 1)
}

// lines is a log that keeps its lines.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// sniffer keeps the bodies of all published messages.
type sniffer struct {
	bus.Bus
	lines
}

func (s *sniffer) Publish(ctx context.Context, m bus.Message) error {
	_, _ = s.Write(m.Body)
	_, _ = s.Write([]byte(strings.Join(m.Keys, " ") + "\n"))
	return s.Bus.Publish(ctx, m)
}

// A contact is in plain text nowhere but in the responses to its buyer and to inventory: not in the tables, their
// files, the logs, the traces, the metrics or the messages of a whole sale, in which calls also fail.
func TestNoPlainTextOfContactsIsKept(t *testing.T) {
	t.Parallel()
	// Each part of a contact is a text that occurs nowhere else.
	parts := []string{"Zerubabel", "Quux-Ophir", "13987654321", "3987654321", "Wolkenkuckucksweg", "Xanadu Heights"}
	contact := `{"name":"Zerubabel Quux-Ophir","phone":"139 8765 4321","address_lines":["Wolkenkuckucksweg 17","Xanadu Heights"]}`
	check := func(t *testing.T, db *gorm.DB, files ...string) {
		tel, recorder := telemetry.Recording()
		log, sent := &lines{}, &sniffer{}
		tel.Log = telemetry.NewLogger(log, slog.LevelDebug)
		r := run(t, db, withKeys(firstKey), func(_ *order.Config, d *order.Deps) {
			sent.Bus = d.Bus
			d.Bus, d.Telemetry = sent, tel
		})
		var all []contract.Deduction
		for i := range 4 {
			d := r.created(fmt.Sprint("u", i), func(d *contract.Deduction) {
				ctx, root := tel.Tracer.Start(t.Context(), "purchase")
				d.Traceparent = telemetry.Traceparent(ctx)
				root.End()
			})
			require.Equal(t, 200, r.putContact(d, contact).status)
			require.Contains(t, r.call("GET", r.contactPath(d), d.UserID, "").raw, "Wolkenkuckucksweg")
			all = append(all, d)
		}
		for _, d := range all[:2] {
			id := r.pay(d, "k")
			require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", d.UserID, succeeded).status)
		}
		require.Equal(t, 200, r.call("POST", "/v1/orders/"+all[2].OrderSN+"/cancel", all[2].UserID, "").status)
		require.Contains(t, fmt.Sprint(r.lookup(all[0].OrderSN, all[1].OrderSN, all[2].OrderSN)), "Xanadu")

		// Calls that fail: the order is closed, the buyer is another one, the body is not valid, and the database refuses.
		require.Equal(t, 409, r.putContact(all[2], contact).status)
		require.Equal(t, 404, r.call("PUT", r.contactPath(all[0]), "u3", contact).status)
		for _, wrong := range []string{
			strings.Replace(contact, "4321", "43219999", 1), strings.Replace(contact, "17", `\u0007`, 1), contact + "x",
			strings.Replace(contact, `"name"`, `"nom"`, 1),
		} {
			a := r.putContact(all[0], wrong)
			require.Equal(t, 400, a.status)
			for _, part := range parts {
				require.NotContains(t, a.raw, part, "a refusal does not repeat the contact")
			}
		}
		require.NoError(t, db.Exec("ALTER TABLE contacts RENAME TO renamed").Error)
		require.Equal(t, 503, r.putContact(all[0], contact).status)
		require.NoError(t, db.Exec("ALTER TABLE renamed RENAME TO contacts").Error)
		require.NoError(t, db.Exec("UPDATE contacts SET key_id = 'lost' WHERE order_sn = ?", all[1].OrderSN).Error)
		lost := r.call("GET", r.contactPath(all[1]), all[1].UserID, "")
		require.Equal(t, 503, lost.status)
		require.Equal(t, 1, strings.Count(log.String(), lost.body["trace_id"].(string)), "logged once, with its trace")
		require.Equal(t, 200, r.putContact(all[1], contact).status)
		eventually(t, func() bool { return len(r.events.all()) >= 7 }, "every transition was published")

		search := func(what, text string) {
			t.Helper()
			for _, part := range parts {
				for _, form := range []string{
					part, hex.EncodeToString([]byte(part)), strings.ToUpper(hex.EncodeToString([]byte(part))),
				} {
					require.NotContains(t, text, form, what)
				}
			}
		}
		dump := dumpTables(t, db)
		require.Contains(t, dump, all[0].OrderSN)
		require.Contains(t, dump, "contacts")
		search("tables", dump)
		require.Contains(t, log.String(), "contact_unreadable")
		search("log", log.String())
		require.Contains(t, sent.String(), all[0].OrderSN)
		search("messages", sent.String())
		var spans strings.Builder
		for _, s := range recorder.Ended() {
			fmt.Fprintln(&spans, s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links())
		}
		require.Contains(t, spans.String(), "contact transaction")
		search("spans", spans.String())
		search("metrics", metricsPage(t, tel.Metrics))
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(raw), "u1")
			search(file, string(raw))
		}
	}
	t.Run("mariadb", func(t *testing.T) { check(t, ordertest.MariaDB(t)) })
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "order.db")
		db, err := sqldb.Open("sqlite:"+file, sqldb.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sqldb.Close(db) })
		require.NoError(t, sqldb.Migrate(t.Context(), db, order.Migrations, slog.New(slog.DiscardHandler)))
		check(t, db, file+"-wal")
	})
}

func metricsPage(t *testing.T, h http.Handler) string {
	t.Helper()
	var body bytes.Buffer
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	require.NoError(t, err)
	h.ServeHTTP(pageWriter{&body, http.Header{}}, req)
	require.NotEmpty(t, body.String())
	return body.String()
}

type pageWriter struct {
	*bytes.Buffer
	header http.Header
}

func (w pageWriter) Header() http.Header { return w.header }
func (w pageWriter) WriteHeader(int)     {}

// dumpTables returns every row of every table.
func dumpTables(t *testing.T, db *gorm.DB) string {
	t.Helper()
	tables, err := db.Migrator().GetTables()
	require.NoError(t, err)
	require.Greater(t, len(tables), 12)
	var out strings.Builder
	for _, table := range tables {
		var rows []map[string]any
		require.NoError(t, db.Table(table).Find(&rows).Error)
		for _, row := range rows {
			fmt.Fprint(&out, table)
			for column, value := range row {
				if raw, ok := value.([]byte); ok {
					value = string(raw)
				}
				fmt.Fprint(&out, " ", column, "=", value)
			}
			fmt.Fprintln(&out)
		}
	}
	return out.String()
}
