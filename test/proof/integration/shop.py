#!/usr/bin/env python3
"""The order system of a shop. It keeps the latest state of each order in a file of SQLite.

    shop.py feed FILE           follows BASE_URL with TOKEN until it is ended
    shop.py webhooks FILE       receives events at https://127.0.0.1:PORT with CERT (its key beside), verified by SECRET
    shop.py report FILE BEFORE  prints what it has as JSON, with the times of the events of changes before that time
"""
import datetime, http.server, json, os, signal, sqlite3, ssl, sys, threading, time, urllib.parse, urllib.request


class Books:
    """Orders by order_sn, events by id, and where the feed goes on."""

    def __init__(self, file):
        self.lock = threading.Lock()  # of the threads that receive events
        self.db = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS orders (sn TEXT PRIMARY KEY, changed_at TEXT, state TEXT, reason TEXT)")
        self.db.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, sn TEXT, changed_at TEXT, seconds REAL, times INT)")
        self.db.execute("CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value TEXT)")

    def apply(self, order):
        # The latest change counts: texts of changed_at compare as times.
        self.db.execute(
            "INSERT INTO orders VALUES (?, ?, ?, ?) ON CONFLICT (sn) DO UPDATE SET changed_at = excluded.changed_at, "
            "state = excluded.state, reason = excluded.reason WHERE excluded.changed_at > orders.changed_at",
            (order["order_sn"], order["changed_at"], order["state"], order.get("reason", "")))

    def event(self, event_id, order):
        changed = datetime.datetime.fromisoformat(order["changed_at"].replace("Z", "+00:00")).timestamp()
        self.db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET times = times + 1",
            (event_id, order["order_sn"], order["changed_at"], time.time() - changed))

    def kept(self, name, otherwise):
        row = self.db.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone()
        return row[0] if row else otherwise

    def keep(self, name, value):
        self.db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, value))

    def count(self, name):
        self.keep(name, int(self.kept(name, 0)) + 1)


def read(query):
    request = urllib.request.Request(
        os.environ["BASE_URL"] + "/v1/merchant/orders?" + urllib.parse.urlencode(query),
        headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def feed(books):
    while True:
        try:
            query = {"changed_since": books.kept("since", "2020-01-01T00:00:00Z"), "limit": 1000}
            while True:
                page = read(query)
                for order in page["items"]:
                    books.apply(order)
                if "next_since" in page:
                    break
                query["cursor"] = page["next_cursor"]
            books.keep("since", page["next_since"])
            books.count("passes")
        except (OSError, ValueError) as error:  # no response, or none of the API: again with the same since
            print("feed:", error, file=sys.stderr, flush=True)
        time.sleep(2)


def webhooks(books):
    from cloudevents.core.bindings.http import HTTPMessage, from_http_event
    from standardwebhooks import Webhook, WebhookVerificationError

    secret = Webhook(os.environ["SECRET"])

    class Receiver(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                secret.verify(body, dict(self.headers.items()))
                event = from_http_event(HTTPMessage(dict(self.headers.items()), body))
                if event.get_type() != "webhook.test":
                    order = event.get_data()
                    assert order["order_sn"] == event.get_subject() and self.headers["webhook-id"] == event.get_id()
                    with books.lock:
                        books.db.execute("BEGIN")
                        books.event(event.get_id(), order)
                        books.apply(order)
                        books.db.execute("COMMIT")
                status = 204
            except WebhookVerificationError as error:
                print("webhooks:", error, file=sys.stderr, flush=True)
                with books.lock:
                    books.count("unverified")
                status = 401
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ["CERT"], os.environ["CERT"].replace(".crt", ".key"))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


def report(books):
    seconds = [s for (s,) in books.db.execute("SELECT seconds FROM events WHERE changed_at < ? ORDER BY seconds", (sys.argv[3],))]
    doubles = books.db.execute("SELECT COUNT(*), COALESCE(SUM(times), 0) FROM events").fetchone()
    print(json.dumps({
        "orders": {sn: [state, reason] for sn, state, reason in books.db.execute("SELECT sn, state, reason FROM orders")},
        "events": doubles[0], "received": doubles[1], "timed": len(seconds),
        "changes": books.db.execute("SELECT COUNT(*) FROM (SELECT DISTINCT sn, changed_at FROM events)").fetchone()[0],
        "p50": seconds[len(seconds) // 2] if seconds else 0, "p99": seconds[len(seconds) * 99 // 100] if seconds else 0,
        "unverified": int(books.kept("unverified", 0)), "passes": int(books.kept("passes", 0))}))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    {"feed": feed, "webhooks": webhooks, "report": report}[sys.argv[1]](Books(sys.argv[2]))
