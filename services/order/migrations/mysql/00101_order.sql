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
-- The order_sn rises with time. `order migrate up` splits p_last into one partition for each month (ADR 0019).
CREATE TABLE IF NOT EXISTS orders (
  order_sn       BIGINT        NOT NULL,
  user_id        VARCHAR(64)   NOT NULL,
  activity_id    BIGINT        NOT NULL,
  state          VARCHAR(16)   NOT NULL,
  tombstone      TINYINT(1)    NOT NULL DEFAULT 0,
  line_items     VARCHAR(1024) NOT NULL DEFAULT '',
  amount         BIGINT        NOT NULL,
  currency       VARCHAR(3)    NOT NULL,
  created_at     DATETIME(3)   NOT NULL,
  expires_at     DATETIME(3)   NOT NULL,
  paid_at        DATETIME(3)   NULL,
  closed_at      DATETIME(3)   NULL,
  refunded_at    DATETIME(3)   NULL,
  close_reason   VARCHAR(16)   NOT NULL DEFAULT '',
  paid_by        BIGINT        NULL,
  paying_until   DATETIME(3)   NULL,
  close_check_at DATETIME(3)   NOT NULL,
  close_resends  INT           NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)   NOT NULL DEFAULT '',
  described_at   DATETIME(3)   NULL,
  PRIMARY KEY (order_sn),
  KEY by_user (user_id, created_at, order_sn),
  CONSTRAINT orders_state CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CONSTRAINT orders_amount CHECK (amount >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
PARTITION BY RANGE (order_sn) (PARTITION p_last VALUES LESS THAN MAXVALUE);

-- What the sweep for lost closings checks: one row for the orders of one transaction that have one deadline. order_sns
-- are 8 bytes each, big-endian. The sweep deletes the row when none of them is pending.
CREATE TABLE IF NOT EXISTS close_checks (
  id        BIGINT          NOT NULL AUTO_INCREMENT,
  check_at  DATETIME(3)     NOT NULL,
  order_sns VARBINARY(2048) NOT NULL,
  PRIMARY KEY (id),
  KEY by_check (check_at, id)
) ENGINE=InnoDB;

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

-- The table of pkg/outbox.
CREATE TABLE IF NOT EXISTS outbox (
    id            BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    topic         VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    msg_key       VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    item          MEDIUMTEXT  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    deliver_at    DATETIME(3) NULL,
    created_at    DATETIME(3) NOT NULL,
    claimed_until DATETIME(3) NOT NULL,
    claimed_by    VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    KEY outbox_claimable (claimed_until, id)
) ENGINE = InnoDB;

-- The table of pkg/idempotency.
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
) ENGINE = InnoDB;

-- How inventory's deductions describe activities, a row for each change of the content. An order names the row that was bought by its
-- described_at; contacts are kept until the end that the latest row has. skus is a JSON list of {sku_id, name}. as_of is
-- inventory's time when it read the content first.
CREATE TABLE IF NOT EXISTS descriptions (
  activity_id BIGINT       NOT NULL,
  title       VARCHAR(200) NOT NULL,
  ends_at     DATETIME(3)  NOT NULL,
  skus        MEDIUMTEXT   NOT NULL,
  as_of       DATETIME(3)  NOT NULL,
  PRIMARY KEY (activity_id, as_of)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The buyer's contact of an order, encrypted with the key key_id and bound to the order_sn.
--   kept_from: the end of the activity, or the creation of the order if that end is not known; the sweep deletes the
--              contact CONTACT_KEEP later
CREATE TABLE IF NOT EXISTS contacts (
  order_sn    BIGINT          NOT NULL,
  user_id     VARCHAR(64)     NOT NULL,
  activity_id BIGINT          NOT NULL,
  key_id      VARCHAR(16)     NOT NULL,
  sealed      VARBINARY(4096) NOT NULL,
  kept_from   DATETIME(3)     NOT NULL,
  PRIMARY KEY (order_sn),
  KEY by_user (user_id),
  KEY by_kept_from (kept_from),
  KEY by_key (key_id, order_sn)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The decisions of operators about refunds that their provider has refused. A row is never changed.
--   action: 'retry' the refund is attempted again; 'settle' the money was returned outside of the provider, under
--           reference; 'found' the provider had made the refund already
CREATE TABLE IF NOT EXISTS refund_decisions (
  id         BIGINT       NOT NULL AUTO_INCREMENT,
  payment_id BIGINT       NOT NULL,
  action     VARCHAR(16)  NOT NULL,
  decided_by VARCHAR(64)  NOT NULL,
  decided_at DATETIME(3)  NOT NULL,
  reference  VARCHAR(128) NOT NULL DEFAULT '',
  reason     VARCHAR(255) NOT NULL DEFAULT '',
  PRIMARY KEY (id),
  KEY by_payment (payment_id, id),
  CONSTRAINT refund_decisions_action CHECK (action IN ('retry', 'settle', 'found'))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The book of the sandbox provider: the charges that it has made, by payment id, and its refunds, by refund id.
-- order_sn and user_id are what a real provider keeps as the reference of a charge. A restore of the database leaves
-- them as they are, as the book of a real provider: the runbook has the steps.
CREATE TABLE IF NOT EXISTS sandbox_charges (
  payment_id BIGINT      NOT NULL,
  order_sn   BIGINT      NOT NULL,
  user_id    VARCHAR(64) NOT NULL,
  amount     BIGINT      NOT NULL,
  currency   VARCHAR(3)  NOT NULL,
  created_at DATETIME(3) NOT NULL,
  PRIMARY KEY (payment_id),
  KEY by_time (created_at, payment_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS sandbox_refunds (
  refund_id  BIGINT      NOT NULL,
  amount     BIGINT      NOT NULL,
  currency   VARCHAR(3)  NOT NULL,
  created_at DATETIME(3) NOT NULL,
  PRIMARY KEY (refund_id),
  KEY by_time (created_at, refund_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
