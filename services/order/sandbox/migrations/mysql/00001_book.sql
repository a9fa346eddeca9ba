-- +goose Up
-- The book of the sandbox provider in its own database (SANDBOX_DSN), as a real provider has one: a restore of the order
-- database does not change it. The charges that it has made, by payment id; order_sn and user_id are what a real provider
-- keeps as the reference of a charge.
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

-- The refunds that it has made, by refund id.
CREATE TABLE IF NOT EXISTS sandbox_refunds (
  refund_id  BIGINT      NOT NULL,
  amount     BIGINT      NOT NULL,
  currency   VARCHAR(3)  NOT NULL,
  created_at DATETIME(3) NOT NULL,
  PRIMARY KEY (refund_id),
  KEY by_time (created_at, refund_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- How far `order migrate up` has copied an older book: rows up to after_id are done; finished_at: all of them.
CREATE TABLE IF NOT EXISTS sandbox_copies (
  step        VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  after_id    BIGINT      NOT NULL,
  finished_at DATETIME(3) NULL,
  PRIMARY KEY (step)
) ENGINE=InnoDB;

-- +goose Down
DROP TABLE sandbox_copies;
DROP TABLE sandbox_refunds;
DROP TABLE sandbox_charges;
