-- +goose Up
-- The comparisons with each payment provider. compared_to: the start of the last completed one, of the first attempt
-- before there is one. next_at: when the next one begins, or until when a process claims the one that runs.
CREATE TABLE IF NOT EXISTS payment_comparisons (
  provider    VARCHAR(32) NOT NULL,
  compared_to DATETIME(3) NOT NULL,
  next_at     DATETIME(3) NOT NULL,
  PRIMARY KEY (provider)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What the comparisons found and could not repair; the code has the kinds. A row is deleted when a comparison no longer
-- finds it. payment_id: as the provider has it. amount, currency: at the provider; recorded_: in payments; 0 and '' for
-- none. at: of the charge or refund. last_seen: the start of the last comparison that found it.
CREATE TABLE IF NOT EXISTS payment_differences (
  id                BIGINT      NOT NULL AUTO_INCREMENT,
  provider          VARCHAR(32) NOT NULL,
  kind              VARCHAR(32) NOT NULL,
  payment_id        VARCHAR(64) NOT NULL,
  order_sn          VARCHAR(20) NOT NULL DEFAULT '',
  amount            BIGINT      NOT NULL DEFAULT 0,
  currency          VARCHAR(16) NOT NULL DEFAULT '',
  recorded_amount   BIGINT      NOT NULL DEFAULT 0,
  recorded_currency VARCHAR(16) NOT NULL DEFAULT '',
  at                DATETIME(3) NOT NULL,
  first_seen        DATETIME(3) NOT NULL,
  last_seen         DATETIME(3) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY by_payment (provider, kind, payment_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE payment_differences;
DROP TABLE payment_comparisons;
