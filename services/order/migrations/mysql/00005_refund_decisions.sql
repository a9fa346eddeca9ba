-- +goose Up
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

-- +goose Down
DROP TABLE refund_decisions;
