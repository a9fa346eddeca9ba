-- +goose Up
CREATE TABLE products (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  image_url TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL
);

CREATE TABLE skus (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  product_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  list_price BIGINT NOT NULL,
  currency TEXT NOT NULL,
  created_at DATETIME NOT NULL
);
CREATE INDEX skus_product ON skus (product_id, id);

-- version increases with every change that the gate has to receive.
CREATE TABLE activities (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  title TEXT NOT NULL,
  state TEXT NOT NULL,
  starts_at DATETIME NOT NULL,
  ends_at DATETIME NOT NULL,
  ended_at DATETIME NULL,
  per_user_limit BIGINT NOT NULL,
  pay_within_s BIGINT NOT NULL,
  currency TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  CONSTRAINT activities_state CHECK (state IN ('draft', 'published', 'paused', 'ended'))
);
CREATE INDEX activities_gates ON activities (state, ends_at);

CREATE TABLE stocks (
  activity_id BIGINT NOT NULL,
  sku_id BIGINT NOT NULL,
  price BIGINT NOT NULL,
  total BIGINT NOT NULL,
  available BIGINT NOT NULL,
  reserved BIGINT NOT NULL,
  sold BIGINT NOT NULL,
  PRIMARY KEY (activity_id, sku_id),
  CONSTRAINT stocks_available CHECK (available >= 0),
  CONSTRAINT stocks_reserved CHECK (reserved >= 0),
  CONSTRAINT stocks_sold CHECK (sold >= 0),
  CONSTRAINT stocks_sum CHECK (available + reserved + sold = total)
);

CREATE TABLE allowances (
  activity_id BIGINT NOT NULL,
  user_id TEXT NOT NULL,
  held BIGINT NOT NULL,
  PRIMARY KEY (activity_id, user_id),
  CONSTRAINT allowances_held CHECK (held >= 0)
);

-- The ledger. republish_at is set exactly as long as a row is reserved and its order is not known to inventory.
CREATE TABLE reservations (
  order_sn BIGINT NOT NULL PRIMARY KEY,
  activity_id BIGINT NOT NULL,
  user_id TEXT NOT NULL,
  bucket INT NOT NULL,
  line_items TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  reserved_at DATETIME NOT NULL,
  landed_at DATETIME NOT NULL,
  order_created_at DATETIME NULL,
  expires_at DATETIME NULL,
  changed_at DATETIME NOT NULL,
  republish_at DATETIME NULL,
  republish_attempt INT NOT NULL,
  traceparent TEXT NOT NULL,
  CONSTRAINT reservations_state CHECK (state IN ('reserved', 'sold', 'released', 'rejected'))
);
CREATE INDEX reservations_listing ON reservations (activity_id, order_sn);
CREATE INDEX reservations_of_user ON reservations (activity_id, user_id, order_sn);
CREATE INDEX reservations_changed ON reservations (activity_id, state, changed_at);
CREATE INDEX reservations_republish ON reservations (republish_at);

-- decision: '' not decided, 'taken' the stock row contains the delta, 'refused' it never will.
-- state stays 'intent' until the decision is in effect at the gate.
CREATE TABLE adjustments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  activity_id BIGINT NOT NULL,
  sku_id BIGINT NOT NULL,
  delta BIGINT NOT NULL,
  reason TEXT NOT NULL,
  state TEXT NOT NULL,
  decision TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  CONSTRAINT adjustments_state CHECK (state IN ('intent', 'applied', 'refused')),
  CONSTRAINT adjustments_decision CHECK (decision IN ('', 'taken', 'refused'))
);
CREATE INDEX adjustments_of_activity ON adjustments (activity_id, decision, id);
CREATE INDEX adjustments_open ON adjustments (state, updated_at);

-- fingerprint is SHA-256 over origin, topic and item without its traceparent. An item that fails again updates its row.
CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL,
  origin TEXT NOT NULL,
  topic TEXT NOT NULL,
  order_sn BIGINT NULL,
  activity_id BIGINT NULL,
  why TEXT NOT NULL,
  item BLOB NOT NULL,
  failed_at DATETIME NOT NULL,
  traceparent TEXT NOT NULL,
  state TEXT NOT NULL,
  occurrences BIGINT NOT NULL,
  decided_by TEXT NOT NULL,
  decided_at DATETIME NULL,
  CONSTRAINT dead_letters_state CHECK (state IN ('open', 'replayed', 'rejected'))
);
CREATE UNIQUE INDEX dead_letters_fingerprint ON dead_letters (fingerprint);
CREATE INDEX dead_letters_state_id ON dead_letters (state, id);
CREATE INDEX dead_letters_order ON dead_letters (order_sn, state);

-- Every change by a merchant or operator.
CREATE TABLE changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at DATETIME NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  object_id BIGINT NOT NULL,
  detail TEXT NOT NULL
);
CREATE INDEX changes_of_object ON changes (object, object_id, id);

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

-- +goose Down
DROP TABLE idempotency_keys;
DROP TABLE changes;
DROP TABLE dead_letters;
DROP TABLE adjustments;
DROP TABLE reservations;
DROP TABLE allowances;
DROP TABLE stocks;
DROP TABLE activities;
DROP TABLE skus;
DROP TABLE products;
