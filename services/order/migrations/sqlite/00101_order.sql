-- +goose Up
-- The schema of the order service. Numbers of migrations begin at 101: lower ones are of versions before 0.1.0, which
-- no release can migrate.
--
-- The gene (the lowest 8 bits of an order_sn or a payment_id) follows from the user, so that all rows of a user could
-- move to one of several databases. The orders have their lines as "sku_id:qty:price" joined by commas. A tombstone is
-- an order that must never exist: its row takes the primary key that the order would need. It has no user and no call
-- returns it.
--   described_at:   as_of of what was bought in descriptions
--   close_check_at: when the sweep for lost closings next checks a pending order
--   paying_until:   set once, by the first closing that found a payment in flight; the order stays open until then
-- The order_sn rises with time. SQLite has no partitions.
CREATE TABLE orders (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
  line_items TEXT NOT NULL DEFAULT '',
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  expires_at DATETIME NOT NULL,
  paid_at DATETIME NULL,
  closed_at DATETIME NULL,
  refunded_at DATETIME NULL,
  close_reason TEXT NOT NULL DEFAULT '',
  paid_by INTEGER NULL,
  paying_until DATETIME NULL,
  close_check_at DATETIME NOT NULL,
  close_resends INTEGER NOT NULL DEFAULT 0,
  traceparent TEXT NOT NULL DEFAULT '',
  described_at DATETIME NULL,
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_amount CHECK (amount >= 0)
);
CREATE INDEX orders_by_user ON orders (user_id, created_at, order_sn);

-- What the sweep for lost closings checks: one row for the orders of one transaction that have one
-- deadline. order_sns are 8 bytes each, big-endian. The sweep deletes the row when none of them is pending.
CREATE TABLE close_checks (
  id INTEGER NOT NULL,
  check_at DATETIME NOT NULL,
  order_sns BLOB NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX close_checks_by_check ON close_checks (check_at, id);

-- paid_amount and paid_currency are what the provider reports as taken, which can differ from amount and currency.
CREATE TABLE payments (
  payment_id INTEGER NOT NULL,
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  state TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  paid_amount INTEGER NOT NULL DEFAULT 0,
  paid_currency TEXT NOT NULL DEFAULT '',
  created_at DATETIME NOT NULL,
  finished_at DATETIME NULL,
  PRIMARY KEY (payment_id),
  CONSTRAINT payments_state CHECK (state IN ('started', 'succeeded', 'failed'))
);
CREATE INDEX payments_by_order ON payments (order_sn);

-- A payment is refunded in full and once, so the payment's id is the refund's id, here and at the provider.
CREATE TABLE refunds (
  payment_id INTEGER NOT NULL,
  order_sn INTEGER NOT NULL,
  provider TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at DATETIME NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  created_at DATETIME NOT NULL,
  finished_at DATETIME NULL,
  PRIMARY KEY (payment_id),
  CONSTRAINT refunds_state CHECK (state IN ('refund_pending', 'refunded', 'refund_failed')),
  CONSTRAINT refunds_amount CHECK (amount > 0)
);
CREATE INDEX refunds_by_order ON refunds (order_sn);
CREATE INDEX refunds_by_next_attempt ON refunds (state, next_attempt_at);

-- Every event of a provider is stored once. handled: 'applied' if it changed a payment, 'ignored' if it was too late to
-- change one, 'unknown' if there is no such payment.
CREATE TABLE payment_events (
  provider TEXT NOT NULL,
  event_id TEXT NOT NULL,
  payment_id INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  handled TEXT NOT NULL,
  received_at DATETIME NOT NULL,
  PRIMARY KEY (provider, event_id),
  CONSTRAINT payment_events_handled CHECK (handled IN ('applied', 'ignored', 'unknown'))
);
CREATE INDEX payment_events_by_payment ON payment_events (payment_id);

-- The table of pkg/outbox.
CREATE TABLE outbox (
    id            INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
    topic         TEXT     NOT NULL,
    msg_key       TEXT     NOT NULL DEFAULT '',
    item          TEXT     NOT NULL,
    deliver_at    DATETIME NULL,
    created_at    DATETIME NOT NULL,
    claimed_until DATETIME NOT NULL,
    claimed_by    TEXT     NOT NULL DEFAULT ''
);
CREATE INDEX outbox_claimable ON outbox (claimed_until, id);

-- The table of pkg/idempotency.
CREATE TABLE idempotency_keys (
    id         INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
    caller     TEXT     NOT NULL,
    method     TEXT     NOT NULL,
    path       TEXT     NOT NULL,
    idem_key   TEXT     NOT NULL,
    body_hash  TEXT     NOT NULL,
    status     INTEGER  NOT NULL DEFAULT 0,
    body       BLOB     NULL,
    created_at DATETIME NOT NULL,
    UNIQUE (caller, method, path, idem_key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

-- How inventory's deductions describe activities, a row for each change of the content. An order names the row that was bought by its
-- described_at; contacts are kept until the end that the latest row has. skus is a JSON list of {sku_id, name}. as_of is
-- inventory's time when it read the content first.
CREATE TABLE descriptions (
  activity_id INTEGER  NOT NULL,
  title       TEXT     NOT NULL,
  ends_at     DATETIME NOT NULL,
  skus        TEXT     NOT NULL,
  as_of       DATETIME NOT NULL,
  PRIMARY KEY (activity_id, as_of)
);

-- The buyer's contact of an order, encrypted with the key key_id and bound to the order_sn.
--   kept_from: the end of the activity, or the creation of the order if that end is not known; the sweep deletes the
--              contact CONTACT_KEEP later
CREATE TABLE contacts (
  order_sn    INTEGER  NOT NULL PRIMARY KEY,
  user_id     TEXT     NOT NULL,
  activity_id INTEGER  NOT NULL,
  key_id      TEXT     NOT NULL,
  sealed      BLOB     NOT NULL,
  kept_from   DATETIME NOT NULL
);
CREATE INDEX contacts_by_user ON contacts (user_id);
CREATE INDEX contacts_by_kept_from ON contacts (kept_from);
CREATE INDEX contacts_by_key ON contacts (key_id, order_sn);

-- The decisions of operators about refunds that their provider has refused. A row is never changed.
--   action: 'retry' the refund is attempted again; 'settle' the money was returned outside of the provider, under
--           reference; 'found' the provider had made the refund already
CREATE TABLE refund_decisions (
  id         INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
  payment_id INTEGER  NOT NULL,
  action     TEXT     NOT NULL,
  decided_by TEXT     NOT NULL,
  decided_at DATETIME NOT NULL,
  reference  TEXT     NOT NULL DEFAULT '',
  reason     TEXT     NOT NULL DEFAULT '',
  CONSTRAINT refund_decisions_action CHECK (action IN ('retry', 'settle', 'found'))
);
CREATE INDEX refund_decisions_by_payment ON refund_decisions (payment_id, id);

-- The book of the sandbox provider: the charges that it has made, by payment id, and its refunds, by refund id.
-- order_sn and user_id are what a real provider keeps as the reference of a charge. A restore of the database leaves
-- them as they are, as the book of a real provider: the runbook has the steps.
CREATE TABLE sandbox_charges (
  payment_id INTEGER  NOT NULL PRIMARY KEY,
  order_sn   INTEGER  NOT NULL,
  user_id    TEXT     NOT NULL,
  amount     INTEGER  NOT NULL,
  currency   TEXT     NOT NULL,
  created_at DATETIME NOT NULL
);
CREATE INDEX sandbox_charges_by_time ON sandbox_charges (created_at, payment_id);
CREATE TABLE sandbox_refunds (
  refund_id  INTEGER  NOT NULL PRIMARY KEY,
  amount     INTEGER  NOT NULL,
  currency   TEXT     NOT NULL,
  created_at DATETIME NOT NULL
);
CREATE INDEX sandbox_refunds_by_time ON sandbox_refunds (created_at, refund_id);

-- +goose Down
DROP TABLE sandbox_refunds;
DROP TABLE sandbox_charges;
DROP TABLE refund_decisions;
DROP TABLE contacts;
DROP TABLE descriptions;
DROP TABLE idempotency_keys;
DROP TABLE outbox;
DROP TABLE payment_events;
DROP TABLE refunds;
DROP TABLE payments;
DROP TABLE close_checks;
DROP TABLE orders;
