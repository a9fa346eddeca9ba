-- +goose Up
-- The schema of the inventory service. Numbers of migrations begin at 100: lower ones are of versions before 0.1.0,
-- which no release can migrate.
--
-- Each product and activity belongs to a merchant, and so does everything below it: SKUs to the merchant of their
-- product; stocks, reservations, adjustments, dead letters and Idempotency-Keys to that of their activity.

-- version rises with each change and is the ETag.
CREATE TABLE IF NOT EXISTS products (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name        VARCHAR(200) NOT NULL,
  description TEXT         NOT NULL,
  image_url   VARCHAR(500) NOT NULL,
  created_at  DATETIME(3)  NOT NULL,
  updated_at  DATETIME(3)  NOT NULL,
  merchant_id VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'default',
  version     BIGINT       NOT NULL DEFAULT 1,
  KEY products_of_merchant (merchant_id, id)
) DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS skus (
  id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  product_id BIGINT       NOT NULL,
  name       VARCHAR(200) NOT NULL,
  list_price BIGINT       NOT NULL,
  currency   CHAR(3)      CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at DATETIME(3)  NOT NULL,
  KEY skus_product (product_id, id)
) DEFAULT CHARSET = utf8mb4;

-- version increases with every change that the gate has to receive.
--   degraded_*:       what the merchant allows while Redis is unavailable; degraded_per_second 0: nothing
--   mode:             gate, direct or returning; outage counts its changes to direct, mode_changed_at is when it
--                     last changed
--   gate_lacks_since: the time of the oldest change that the gate may lack; NULL while the mode is gate
--   reorder_limit:    the number of orders that a buyer may cancel or let expire
--   room_rate:        the number of places that the waiting room admits a second; 0: no waiting room
--   challenge:        the kind of it; challenge_difficulty is the number of hashes, in thousands, that a proof of
--                     work takes at most
CREATE TABLE IF NOT EXISTS activities (
  id             BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title          VARCHAR(200) NOT NULL,
  state          VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  starts_at      DATETIME(3)  NOT NULL,
  ends_at        DATETIME(3)  NOT NULL,
  ended_at       DATETIME(3)  NULL,
  per_user_limit BIGINT       NOT NULL,
  pay_within_s   BIGINT       NOT NULL,
  currency       CHAR(3)      CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  version        BIGINT       NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  updated_at     DATETIME(3)  NOT NULL,
  merchant_id         VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'default',
  description         VARCHAR(5000) NOT NULL DEFAULT '',
  image_url           VARCHAR(500)  NOT NULL DEFAULT '',
  degraded_per_second INT           NOT NULL DEFAULT 0,
  degraded_drop       INT           NOT NULL DEFAULT 0,
  degraded_reserve    INT           NOT NULL DEFAULT 0,
  mode                VARCHAR(16)   NOT NULL DEFAULT 'gate',
  outage              BIGINT        NOT NULL DEFAULT 0,
  mode_changed_at     DATETIME(3)   NULL,
  gate_lacks_since    DATETIME(3)   NULL,
  reorder_limit       BIGINT        NOT NULL DEFAULT 2,
  room_rate           BIGINT        NOT NULL DEFAULT 0,
  challenge            VARCHAR(16)   NOT NULL DEFAULT 'none',
  challenge_difficulty BIGINT        NOT NULL DEFAULT 50,
  CONSTRAINT activities_state CHECK (state IN ('draft', 'published', 'paused', 'ended')),
  KEY activities_gates (state, ends_at),
  KEY activities_of_merchant (merchant_id, id),
  KEY activities_live (merchant_id, state, ends_at) -- for the count that a quota bounds
) DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS stocks (
  activity_id BIGINT      NOT NULL,
  sku_id      BIGINT      NOT NULL,
  price       BIGINT      NOT NULL,
  total       BIGINT      NOT NULL,
  available   BIGINT      NOT NULL,
  reserved    BIGINT      NOT NULL,
  sold        BIGINT      NOT NULL,
  PRIMARY KEY (activity_id, sku_id),
  CONSTRAINT stocks_available CHECK (available >= 0),
  CONSTRAINT stocks_reserved CHECK (reserved >= 0),
  CONSTRAINT stocks_sold CHECK (sold >= 0),
  CONSTRAINT stocks_sum CHECK (available + reserved + sold = total)
) DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS allowances (
  activity_id BIGINT      NOT NULL,
  user_id     VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  held        BIGINT      NOT NULL,
  PRIMARY KEY (activity_id, user_id),
  CONSTRAINT allowances_held CHECK (held >= 0)
) DEFAULT CHARSET = utf8mb4;

-- The ledger. republish_at is set exactly as long as a row is reserved and its order is not known to inventory.
CREATE TABLE IF NOT EXISTS reservations (
  order_sn          BIGINT      NOT NULL PRIMARY KEY,
  activity_id       BIGINT      NOT NULL,
  user_id           VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  line_items        VARCHAR(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  state             VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  reason            VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  reserved_at       DATETIME(3) NOT NULL,
  landed_at         DATETIME(3) NOT NULL,
  order_created_at  DATETIME(3) NULL,
  expires_at        DATETIME(3) NULL,
  changed_at        DATETIME(3) NOT NULL,
  republish_at      DATETIME(3) NULL,
  republish_attempt INT         NOT NULL,
  traceparent       VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  CONSTRAINT reservations_state CHECK (state IN ('reserved', 'sold', 'released', 'rejected')),
  KEY reservations_listing (activity_id, order_sn),
  KEY reservations_of_user (activity_id, user_id, order_sn),
  KEY reservations_changed (activity_id, state, changed_at),
  KEY reservations_republish_of_activity (activity_id, republish_at)
) DEFAULT CHARSET = utf8mb4;

-- decision: '' not decided, 'taken' the stock row contains the delta, 'refused' it never will.
-- state stays 'intent' until the decision is in effect at the gate. resume_at is when an unfinished adjustment is tried
-- again after resume_attempt failed attempts; NULL before the first.
CREATE TABLE IF NOT EXISTS adjustments (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  activity_id BIGINT       NOT NULL,
  sku_id      BIGINT       NOT NULL,
  delta       BIGINT       NOT NULL,
  reason      VARCHAR(200) NOT NULL,
  state       VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  decision    VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_by  VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at  DATETIME(3)  NOT NULL,
  updated_at  DATETIME(3)  NOT NULL,
  resume_at      DATETIME(3) NULL,
  resume_attempt INT         NOT NULL DEFAULT 0,
  CONSTRAINT adjustments_state CHECK (state IN ('intent', 'applied', 'refused')),
  CONSTRAINT adjustments_decision CHECK (decision IN ('', 'taken', 'refused')),
  KEY adjustments_of_activity (activity_id, decision, id),
  KEY adjustments_open (state, updated_at)
) DEFAULT CHARSET = utf8mb4;

-- fingerprint is SHA-256 over origin, topic and item without its traceparent. An item that fails again updates its row.
-- rejecting is set by the first step of a rejection: from then on the dead letter cannot be replayed.
CREATE TABLE IF NOT EXISTS dead_letters (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  fingerprint CHAR(64)     CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  origin      VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  topic       VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  order_sn    BIGINT       NULL,
  activity_id BIGINT       NULL,
  why         VARCHAR(500) NOT NULL,
  item        MEDIUMBLOB   NOT NULL,
  failed_at   DATETIME(3)  NOT NULL,
  traceparent VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  state       VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  occurrences BIGINT       NOT NULL,
  decided_by  VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  decided_at  DATETIME(3)  NULL,
  rejecting   BOOLEAN      NOT NULL DEFAULT FALSE,
  CONSTRAINT dead_letters_state CHECK (state IN ('open', 'replayed', 'rejected')),
  UNIQUE KEY dead_letters_fingerprint (fingerprint),
  KEY dead_letters_state_id (state, id),
  KEY dead_letters_order (order_sn, state)
) DEFAULT CHARSET = utf8mb4;

-- Every change by a merchant or operator. merchant_id is the owner of the changed object, '' for an object without
-- one, such as a limit. role is that of the person, '' for repairs of the reconciler.
CREATE TABLE IF NOT EXISTS changes (
  id        BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at        DATETIME(3) NOT NULL,
  who       VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  action    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  object    VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  object_id BIGINT      NOT NULL,
  detail    TEXT        NOT NULL,
  merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  role      VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  KEY changes_of_object (object, object_id, id)
) DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS idempotency_keys (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    caller     VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    method     VARCHAR(8)   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    path       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    idem_key   VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    body_hash  VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    status     INT          NOT NULL DEFAULT 0,
    body       MEDIUMBLOB   NULL,
    created_at DATETIME(3)  NOT NULL,
    UNIQUE KEY idempotency_keys_request (caller, method, path, idem_key),
    KEY idempotency_keys_created (created_at)
) DEFAULT CHARSET = utf8mb4;

-- A row for each merchant who has added something. Transactions lock it before they count what a quota bounds.
CREATE TABLE IF NOT EXISTS merchants (
  merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY
) DEFAULT CHARSET = utf8mb4;

-- At confirmed_at the gate of the activity was on this Redis master, or on these masters of a Cluster, by replication
-- id, and the master had every earlier effect on the gate. A gate without a row gets all effects again.
-- held_since is when the master last got effects that belong to earlier times: those that were repeated after it
-- became the master, and those of rows that had changed long before. confirmed_at rises only once the master was held
-- for a while since then.
CREATE TABLE IF NOT EXISTS gate_confirmations (
  activity_id  BIGINT      NOT NULL PRIMARY KEY,
  master       TEXT        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  confirmed_at DATETIME(3) NOT NULL,
  held_since   DATETIME(3) NOT NULL DEFAULT '2000-01-01 00:00:00.000'
) DEFAULT CHARSET = utf8mb4;

-- The epochs of this database; the one with the highest id is the present one. Each gate carries the epoch that it was
-- built or renewed under. since is the time from which orders are imported; NULL for the first epoch, which imports
-- nothing.
CREATE TABLE IF NOT EXISTS epochs (
  id       BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  epoch    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  since    DATETIME(3) NULL,
  cause    VARCHAR(200) NOT NULL,
  drawn_at DATETIME(3) NOT NULL,
  UNIQUE KEY epochs_epoch (epoch)
) DEFAULT CHARSET = utf8mb4;

-- The steps of the import that follows a new epoch. activity_id 0 stands for the orders of all activities. position is
-- where the step goes on, counts its report as JSON.
CREATE TABLE IF NOT EXISTS imports (
  epoch_id    BIGINT       NOT NULL,
  activity_id BIGINT       NOT NULL,
  step        VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  position    VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  counts      TEXT         NOT NULL,
  updated_at  DATETIME(3)  NOT NULL,
  PRIMARY KEY (epoch_id, activity_id),
  KEY imports_of_activity (activity_id, step)
) DEFAULT CHARSET = utf8mb4;

-- What an import found, for the operator. subject is an order_sn or the id of an adjustment.
CREATE TABLE IF NOT EXISTS import_findings (
  epoch_id    BIGINT       NOT NULL,
  activity_id BIGINT       NOT NULL,
  kind        VARCHAR(32)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  subject     VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  detail      VARCHAR(500) NOT NULL,
  found_at    DATETIME(3)  NOT NULL,
  PRIMARY KEY (epoch_id, activity_id, kind, subject)
) DEFAULT CHARSET = utf8mb4;

INSERT INTO epochs (epoch, since, cause, drawn_at)
SELECT REPLACE(UUID(), '-', ''), NULL, 'first', UTC_TIMESTAMP(3) FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM epochs);

-- The figures of a sale without Redis. seen_at is when a process of inventory last began to read the gate, figures_at
-- the time of Redis then, noted_at when the reading had ended; unlanded has the units that had not landed. held_back
-- has the units that are kept for purchases accepted before figures_at, reserve those for later ones. All three are
-- JSON by SKU. sold_count purchases were sold in the second sold_second (Unix time).
CREATE TABLE IF NOT EXISTS redisless_sales (
  activity_id BIGINT      NOT NULL PRIMARY KEY,
  seen_at     DATETIME(3) NOT NULL,
  figures_at  DATETIME(3) NOT NULL,
  noted_at    DATETIME(3) NOT NULL,
  unlanded    TEXT        NOT NULL,
  held_back   TEXT        NOT NULL,
  reserve     TEXT        NOT NULL,
  sold_second BIGINT      NOT NULL,
  sold_count  BIGINT      NOT NULL
) DEFAULT CHARSET = utf8mb4;

-- Leases of the worker ids that processes of seckill use while Redis is unavailable. Times are Unix ms.
CREATE TABLE IF NOT EXISTS worker_leases (
  worker  INT         NOT NULL PRIMARY KEY,
  owner   VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  from_ms BIGINT      NOT NULL,
  high_ms BIGINT      NOT NULL
) DEFAULT CHARSET = utf8mb4;

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
