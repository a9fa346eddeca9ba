-- +goose Up
-- Orders are spread over 16 tables by the gene in the order_sn (its lowest 8 bits, modulo 16), so that all orders of
-- one user are in one table, and each table can move to another database. A tombstone is an order that must never
-- exist: its row takes the primary key that the order would need. It has no user and no call returns it.
--   close_check_at: when the sweep for lost closings next checks a pending order
--   paying_until:   set once, by the first closing that found a payment in flight; the order stays open until then

CREATE TABLE IF NOT EXISTS orders_00 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_00_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_00_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_01 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_01_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_01_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_02 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_02_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_02_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_03 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_03_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_03_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_04 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_04_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_04_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_05 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_05_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_05_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_06 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_06_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_06_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_07 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_07_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_07_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_08 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_08_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_08_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_09 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_09_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_09_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_10 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_10_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_10_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_11 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_11_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_11_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_12 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_12_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_12_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_13 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_13_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_13_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_14 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_14_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_14_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS orders_15 (
  order_sn       BIGINT       NOT NULL,
  user_id        VARCHAR(64)  NOT NULL,
  activity_id    BIGINT       NOT NULL,
  bucket         INT          NOT NULL,
  state          VARCHAR(16)  NOT NULL,
  tombstone      TINYINT(1)   NOT NULL DEFAULT 0,
  amount         BIGINT       NOT NULL,
  currency       VARCHAR(3)   NOT NULL,
  created_at     DATETIME(3)  NOT NULL,
  expires_at     DATETIME(3)  NOT NULL,
  paid_at        DATETIME(3)  NULL,
  closed_at      DATETIME(3)  NULL,
  refunded_at    DATETIME(3)  NULL,
  close_reason   VARCHAR(16)  NOT NULL DEFAULT '',
  paid_by        BIGINT       NULL,
  paying_until   DATETIME(3)  NULL,
  close_check_at DATETIME(3)  NOT NULL,
  close_resends  INT          NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)  NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  KEY by_close_check (state, close_check_at),
  CONSTRAINT orders_15_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_15_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS order_items (
  order_sn BIGINT NOT NULL,
  line_no  INT    NOT NULL,
  sku_id   BIGINT NOT NULL,
  qty      BIGINT NOT NULL,
  price    BIGINT NOT NULL,
  PRIMARY KEY (order_sn, line_no),
  UNIQUE KEY by_sku (order_sn, sku_id),
  CONSTRAINT order_items_qty CHECK (qty > 0),
  CONSTRAINT order_items_price CHECK (price > 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- paid_amount and paid_currency are what the provider reports as taken, which can differ from amount and currency.
CREATE TABLE IF NOT EXISTS payments (
  payment_id    BIGINT      NOT NULL,
  order_sn      BIGINT      NOT NULL,
  user_id       VARCHAR(64) NOT NULL,
  provider      VARCHAR(32) NOT NULL,
  state         VARCHAR(16) NOT NULL,
  amount        BIGINT      NOT NULL,
  currency      VARCHAR(3)  NOT NULL,
  paid_amount   BIGINT      NOT NULL DEFAULT 0,
  paid_currency VARCHAR(3)  NOT NULL DEFAULT '',
  created_at    DATETIME(3) NOT NULL,
  finished_at   DATETIME(3) NULL,
  PRIMARY KEY (payment_id),
  KEY by_order (order_sn),
  CONSTRAINT payments_state CHECK (state IN ('started', 'succeeded', 'failed'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- A payment is refunded in full and once, so the payment's id is the refund's id, here and at the provider.
CREATE TABLE IF NOT EXISTS refunds (
  payment_id      BIGINT       NOT NULL,
  order_sn        BIGINT       NOT NULL,
  provider        VARCHAR(32)  NOT NULL,
  amount          BIGINT       NOT NULL,
  currency        VARCHAR(3)   NOT NULL,
  state           VARCHAR(16)  NOT NULL,
  reason          VARCHAR(16)  NOT NULL,
  attempts        INT          NOT NULL DEFAULT 0,
  next_attempt_at DATETIME(3)  NOT NULL,
  last_error      VARCHAR(255) NOT NULL DEFAULT '',
  created_at      DATETIME(3)  NOT NULL,
  finished_at     DATETIME(3)  NULL,
  PRIMARY KEY (payment_id),
  KEY by_order (order_sn),
  KEY by_next_attempt (state, next_attempt_at),
  CONSTRAINT refunds_state CHECK (state IN ('refund_pending', 'refunded', 'refund_failed')),
  CONSTRAINT refunds_amount CHECK (amount > 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Every event of a provider is stored once. handled: 'applied' if it changed a payment, 'ignored' if it was too late to
-- change one, 'unknown' if there is no such payment.
CREATE TABLE IF NOT EXISTS payment_events (
  provider    VARCHAR(32) NOT NULL,
  event_id    VARCHAR(64) NOT NULL,
  payment_id  BIGINT      NOT NULL,
  outcome     VARCHAR(16) NOT NULL,
  amount      BIGINT      NOT NULL,
  currency    VARCHAR(16) NOT NULL,
  handled     VARCHAR(16) NOT NULL,
  received_at DATETIME(3) NOT NULL,
  PRIMARY KEY (provider, event_id),
  KEY by_payment (payment_id),
  CONSTRAINT payment_events_handled CHECK (handled IN ('applied', 'ignored', 'unknown'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The refunds that the sandbox provider has made, by refund id.
CREATE TABLE IF NOT EXISTS sandbox_refunds (
  refund_id  BIGINT      NOT NULL,
  amount     BIGINT      NOT NULL,
  currency   VARCHAR(3)  NOT NULL,
  created_at DATETIME(3) NOT NULL,
  PRIMARY KEY (refund_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
