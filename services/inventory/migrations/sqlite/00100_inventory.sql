-- +goose Up
-- The schema of the inventory service. Numbers of migrations begin at 100: lower ones are of versions before 0.1.0,
-- which no release can migrate.
--
-- Each product and activity belongs to a merchant, and so does everything below it: SKUs to the merchant of their
-- product; stocks, reservations, adjustments, dead letters and Idempotency-Keys to that of their activity.

-- version rises with each change and is the ETag.
CREATE TABLE products (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  image_url TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL,
  merchant_id TEXT NOT NULL DEFAULT 'default',
  version INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX products_of_merchant ON products (merchant_id, id);

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
--   degraded_*:       what the merchant allows while Redis is unavailable; degraded_per_second 0: nothing
--   mode:             gate, direct or returning; outage counts its changes to direct, mode_changed_at is when it
--                     last changed
--   gate_lacks_since: the time of the oldest change that the gate may lack; NULL while the mode is gate
--   reorder_limit:    the number of orders that a buyer may cancel or let expire
--   room_rate:        the number of places that the waiting room admits a second; 0: no waiting room
--   challenge:        the kind of it; challenge_difficulty is the number of hashes, in thousands, that a proof of
--                     work takes at most
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
  merchant_id TEXT NOT NULL DEFAULT 'default',
  description TEXT NOT NULL DEFAULT '',
  image_url TEXT NOT NULL DEFAULT '',
  degraded_per_second BIGINT NOT NULL DEFAULT 0,
  degraded_drop BIGINT NOT NULL DEFAULT 0,
  degraded_reserve BIGINT NOT NULL DEFAULT 0,
  mode TEXT NOT NULL DEFAULT 'gate',
  outage BIGINT NOT NULL DEFAULT 0,
  mode_changed_at DATETIME NULL,
  gate_lacks_since DATETIME NULL,
  reorder_limit BIGINT NOT NULL DEFAULT 2,
  room_rate BIGINT NOT NULL DEFAULT 0,
  challenge TEXT NOT NULL DEFAULT 'none',
  challenge_difficulty BIGINT NOT NULL DEFAULT 50,
  CONSTRAINT activities_state CHECK (state IN ('draft', 'published', 'paused', 'ended'))
);
CREATE INDEX activities_gates ON activities (state, ends_at);
CREATE INDEX activities_of_merchant ON activities (merchant_id, id);
CREATE INDEX activities_live ON activities (merchant_id, state, ends_at); -- for the count that a quota bounds

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
CREATE INDEX reservations_republish_of_activity ON reservations (activity_id, republish_at);

-- decision: '' not decided, 'taken' the stock row contains the delta, 'refused' it never will.
-- state stays 'intent' until the decision is in effect at the gate. resume_at is when an unfinished adjustment is tried
-- again after resume_attempt failed attempts; NULL before the first.
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
  resume_at DATETIME NULL,
  resume_attempt INT NOT NULL DEFAULT 0,
  CONSTRAINT adjustments_state CHECK (state IN ('intent', 'applied', 'refused')),
  CONSTRAINT adjustments_decision CHECK (decision IN ('', 'taken', 'refused'))
);
CREATE INDEX adjustments_of_activity ON adjustments (activity_id, decision, id);
CREATE INDEX adjustments_open ON adjustments (state, updated_at);

-- fingerprint is SHA-256 over origin, topic and item without its traceparent. An item that fails again updates its row.
-- rejecting is set by the first step of a rejection: from then on the dead letter cannot be replayed.
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
  rejecting BOOLEAN NOT NULL DEFAULT FALSE,
  CONSTRAINT dead_letters_state CHECK (state IN ('open', 'replayed', 'rejected'))
);
CREATE UNIQUE INDEX dead_letters_fingerprint ON dead_letters (fingerprint);
CREATE INDEX dead_letters_state_id ON dead_letters (state, id);
CREATE INDEX dead_letters_order ON dead_letters (order_sn, state);

-- Every change by a merchant or operator. merchant_id is the owner of the changed object, '' for an object without
-- one, such as a limit. role is that of the person, '' for repairs of the reconciler.
CREATE TABLE changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at DATETIME NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  object_id BIGINT NOT NULL,
  detail TEXT NOT NULL,
  merchant_id TEXT NOT NULL DEFAULT '',
  role TEXT NOT NULL DEFAULT ''
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

-- A row for each merchant who has added something. Transactions lock it before they count what a quota bounds.
CREATE TABLE merchants (
  merchant_id TEXT NOT NULL PRIMARY KEY
);

-- At confirmed_at the gate of the activity was on this Redis master, or on these masters of a Cluster, by replication
-- id, and the master had every earlier effect on the gate. A gate without a row gets all effects again.
-- held_since is when the master last got effects that belong to earlier times: those that were repeated after it
-- became the master, and those of rows that had changed long before. confirmed_at rises only once the master was held
-- for a while since then.
CREATE TABLE gate_confirmations (
  activity_id BIGINT NOT NULL PRIMARY KEY,
  master TEXT NOT NULL,
  confirmed_at DATETIME NOT NULL,
  held_since DATETIME NOT NULL DEFAULT '2000-01-01 00:00:00+00:00'
);

-- The epochs of this database; the one with the highest id is the present one. Each gate carries the epoch that it was
-- built or renewed under. since is the time from which orders are imported; NULL for the first epoch, which imports
-- nothing.
CREATE TABLE epochs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  epoch TEXT NOT NULL UNIQUE,
  since DATETIME NULL,
  cause TEXT NOT NULL,
  drawn_at DATETIME NOT NULL
);

-- The steps of the import that follows a new epoch. activity_id 0 stands for the orders of all activities. position is
-- where the step goes on, counts its report as JSON.
CREATE TABLE imports (
  epoch_id BIGINT NOT NULL,
  activity_id BIGINT NOT NULL,
  step TEXT NOT NULL,
  position TEXT NOT NULL,
  counts TEXT NOT NULL,
  updated_at DATETIME NOT NULL,
  PRIMARY KEY (epoch_id, activity_id)
);
CREATE INDEX imports_of_activity ON imports (activity_id, step);

-- What an import found, for the operator. subject is an order_sn or the id of an adjustment.
CREATE TABLE import_findings (
  epoch_id BIGINT NOT NULL,
  activity_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,
  found_at DATETIME NOT NULL,
  PRIMARY KEY (epoch_id, activity_id, kind, subject)
);

INSERT INTO epochs (epoch, since, cause, drawn_at)
VALUES (lower(hex(randomblob(16))), NULL, 'first', strftime('%Y-%m-%d %H:%M:%f', 'now'));

-- The figures of a sale without Redis. seen_at is when a process of inventory last began to read the gate, figures_at
-- the time of Redis then, noted_at when the reading had ended; unlanded has the units that had not landed. held_back
-- has the units that are kept for purchases accepted before figures_at, reserve those for later ones. All three are
-- JSON by SKU. sold_count purchases were sold in the second sold_second (Unix time).
CREATE TABLE redisless_sales (
  activity_id INTEGER PRIMARY KEY,
  seen_at DATETIME NOT NULL,
  figures_at DATETIME NOT NULL,
  noted_at DATETIME NOT NULL,
  unlanded TEXT NOT NULL,
  held_back TEXT NOT NULL,
  reserve TEXT NOT NULL,
  sold_second BIGINT NOT NULL,
  sold_count BIGINT NOT NULL
);

-- Leases of the worker ids that processes of seckill use while Redis is unavailable. Times are Unix ms.
CREATE TABLE worker_leases (
  worker INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  from_ms BIGINT NOT NULL,
  high_ms BIGINT NOT NULL
);

-- +goose Down
DROP TABLE worker_leases;
DROP TABLE redisless_sales;
DROP TABLE import_findings;
DROP TABLE imports;
DROP TABLE epochs;
DROP TABLE gate_confirmations;
DROP TABLE merchants;
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
