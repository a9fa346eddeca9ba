-- +goose Up
CREATE TABLE IF NOT EXISTS products (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name        VARCHAR(200) NOT NULL,
  description TEXT         NOT NULL,
  image_url   VARCHAR(500) NOT NULL,
  created_at  DATETIME(3)  NOT NULL,
  updated_at  DATETIME(3)  NOT NULL
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
  CONSTRAINT activities_state CHECK (state IN ('draft', 'published', 'paused', 'ended')),
  KEY activities_gates (state, ends_at)
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
  bucket            INT         NOT NULL,
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
  KEY reservations_republish (republish_at)
) DEFAULT CHARSET = utf8mb4;

-- decision: '' not decided, 'taken' the stock row contains the delta, 'refused' it never will.
-- state stays 'intent' until the decision is in effect at the gate.
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
  CONSTRAINT adjustments_state CHECK (state IN ('intent', 'applied', 'refused')),
  CONSTRAINT adjustments_decision CHECK (decision IN ('', 'taken', 'refused')),
  KEY adjustments_of_activity (activity_id, decision, id),
  KEY adjustments_open (state, updated_at)
) DEFAULT CHARSET = utf8mb4;

-- fingerprint is SHA-256 over origin, topic and item without its traceparent. An item that fails again updates its row.
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
  CONSTRAINT dead_letters_state CHECK (state IN ('open', 'replayed', 'rejected')),
  UNIQUE KEY dead_letters_fingerprint (fingerprint),
  KEY dead_letters_state_id (state, id),
  KEY dead_letters_order (order_sn, state)
) DEFAULT CHARSET = utf8mb4;

-- Every change by a merchant or operator.
CREATE TABLE IF NOT EXISTS changes (
  id        BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at        DATETIME(3) NOT NULL,
  who       VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  action    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  object    VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  object_id BIGINT      NOT NULL,
  detail    TEXT        NOT NULL,
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
