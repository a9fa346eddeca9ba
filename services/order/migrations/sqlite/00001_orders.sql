-- +goose Up
-- Orders are spread over 16 tables by the gene in the order_sn (its lowest 8 bits, modulo 16), so that all orders of
-- one user are in one table, and each table can move to another database. A tombstone is an order that must never
-- exist: its row takes the primary key that the order would need. It has no user and no call returns it.
--   close_check_at: when the sweep for lost closings next checks a pending order
--   paying_until:   set once, by the first closing that found a payment in flight; the order stays open until then

CREATE TABLE orders_00 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_00_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_00_amount CHECK (amount >= 0)
);
CREATE INDEX orders_00_by_user ON orders_00 (user_id, created_at, order_sn);
CREATE INDEX orders_00_by_close_check ON orders_00 (state, close_check_at);

CREATE TABLE orders_01 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_01_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_01_amount CHECK (amount >= 0)
);
CREATE INDEX orders_01_by_user ON orders_01 (user_id, created_at, order_sn);
CREATE INDEX orders_01_by_close_check ON orders_01 (state, close_check_at);

CREATE TABLE orders_02 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_02_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_02_amount CHECK (amount >= 0)
);
CREATE INDEX orders_02_by_user ON orders_02 (user_id, created_at, order_sn);
CREATE INDEX orders_02_by_close_check ON orders_02 (state, close_check_at);

CREATE TABLE orders_03 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_03_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_03_amount CHECK (amount >= 0)
);
CREATE INDEX orders_03_by_user ON orders_03 (user_id, created_at, order_sn);
CREATE INDEX orders_03_by_close_check ON orders_03 (state, close_check_at);

CREATE TABLE orders_04 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_04_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_04_amount CHECK (amount >= 0)
);
CREATE INDEX orders_04_by_user ON orders_04 (user_id, created_at, order_sn);
CREATE INDEX orders_04_by_close_check ON orders_04 (state, close_check_at);

CREATE TABLE orders_05 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_05_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_05_amount CHECK (amount >= 0)
);
CREATE INDEX orders_05_by_user ON orders_05 (user_id, created_at, order_sn);
CREATE INDEX orders_05_by_close_check ON orders_05 (state, close_check_at);

CREATE TABLE orders_06 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_06_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_06_amount CHECK (amount >= 0)
);
CREATE INDEX orders_06_by_user ON orders_06 (user_id, created_at, order_sn);
CREATE INDEX orders_06_by_close_check ON orders_06 (state, close_check_at);

CREATE TABLE orders_07 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_07_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_07_amount CHECK (amount >= 0)
);
CREATE INDEX orders_07_by_user ON orders_07 (user_id, created_at, order_sn);
CREATE INDEX orders_07_by_close_check ON orders_07 (state, close_check_at);

CREATE TABLE orders_08 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_08_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_08_amount CHECK (amount >= 0)
);
CREATE INDEX orders_08_by_user ON orders_08 (user_id, created_at, order_sn);
CREATE INDEX orders_08_by_close_check ON orders_08 (state, close_check_at);

CREATE TABLE orders_09 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_09_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_09_amount CHECK (amount >= 0)
);
CREATE INDEX orders_09_by_user ON orders_09 (user_id, created_at, order_sn);
CREATE INDEX orders_09_by_close_check ON orders_09 (state, close_check_at);

CREATE TABLE orders_10 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_10_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_10_amount CHECK (amount >= 0)
);
CREATE INDEX orders_10_by_user ON orders_10 (user_id, created_at, order_sn);
CREATE INDEX orders_10_by_close_check ON orders_10 (state, close_check_at);

CREATE TABLE orders_11 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_11_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_11_amount CHECK (amount >= 0)
);
CREATE INDEX orders_11_by_user ON orders_11 (user_id, created_at, order_sn);
CREATE INDEX orders_11_by_close_check ON orders_11 (state, close_check_at);

CREATE TABLE orders_12 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_12_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_12_amount CHECK (amount >= 0)
);
CREATE INDEX orders_12_by_user ON orders_12 (user_id, created_at, order_sn);
CREATE INDEX orders_12_by_close_check ON orders_12 (state, close_check_at);

CREATE TABLE orders_13 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_13_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_13_amount CHECK (amount >= 0)
);
CREATE INDEX orders_13_by_user ON orders_13 (user_id, created_at, order_sn);
CREATE INDEX orders_13_by_close_check ON orders_13 (state, close_check_at);

CREATE TABLE orders_14 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_14_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_14_amount CHECK (amount >= 0)
);
CREATE INDEX orders_14_by_user ON orders_14 (user_id, created_at, order_sn);
CREATE INDEX orders_14_by_close_check ON orders_14 (state, close_check_at);

CREATE TABLE orders_15 (
  order_sn INTEGER NOT NULL,
  user_id TEXT NOT NULL,
  activity_id INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  state TEXT NOT NULL,
  tombstone BOOLEAN NOT NULL DEFAULT 0,
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
  PRIMARY KEY (order_sn),
  CONSTRAINT orders_15_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_15_amount CHECK (amount >= 0)
);
CREATE INDEX orders_15_by_user ON orders_15 (user_id, created_at, order_sn);
CREATE INDEX orders_15_by_close_check ON orders_15 (state, close_check_at);

CREATE TABLE order_items (
  order_sn INTEGER NOT NULL,
  line_no INTEGER NOT NULL,
  sku_id INTEGER NOT NULL,
  qty INTEGER NOT NULL,
  price INTEGER NOT NULL,
  PRIMARY KEY (order_sn, line_no),
  CONSTRAINT order_items_qty CHECK (qty > 0),
  CONSTRAINT order_items_price CHECK (price > 0)
);
CREATE UNIQUE INDEX order_items_by_sku ON order_items (order_sn, sku_id);

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

-- The refunds that the sandbox provider has made, by refund id.
CREATE TABLE sandbox_refunds (
  refund_id INTEGER NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  PRIMARY KEY (refund_id)
);

-- +goose Down
DROP TABLE sandbox_refunds;
DROP TABLE payment_events;
DROP TABLE refunds;
DROP TABLE payments;
DROP TABLE order_items;
DROP TABLE orders_00;
DROP TABLE orders_01;
DROP TABLE orders_02;
DROP TABLE orders_03;
DROP TABLE orders_04;
DROP TABLE orders_05;
DROP TABLE orders_06;
DROP TABLE orders_07;
DROP TABLE orders_08;
DROP TABLE orders_09;
DROP TABLE orders_10;
DROP TABLE orders_11;
DROP TABLE orders_12;
DROP TABLE orders_13;
DROP TABLE orders_14;
DROP TABLE orders_15;
