-- +goose Up
-- The decisions of operators about refunds that their provider has refused. A row is never changed.
--   action: 'retry' the refund is attempted again; 'settle' the money was returned outside of the provider, under
--           reference; 'found' the provider had made the refund already
CREATE TABLE refund_decisions (
  id         INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
  payment_id INTEGER  NOT NULL,
  action     TEXT     NOT NULL,
  decided_by TEXT     NOT NULL,
  decided_at DATETIME NOT NULL,
  reference  TEXT     NOT NULL DEFAULT '',
  reason     TEXT     NOT NULL DEFAULT '',
  CONSTRAINT refund_decisions_action CHECK (action IN ('retry', 'settle', 'found'))
);
CREATE INDEX refund_decisions_by_payment ON refund_decisions (payment_id, id);

-- +goose Down
DROP TABLE refund_decisions;
