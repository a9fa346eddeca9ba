-- +goose Up
-- Endpoints of merchants. types is a list with commas. secret and old_secret are sealed under WEBHOOK_KEYS; old_secret
-- signs until old_until. The changes of orders before scanned_to have their deliveries. replay is the progress of a
-- replay, '' for none. Until leased_to one process
-- sends, or the endpoint pauses; failures is the number of attempts in a row that failed.
CREATE TABLE IF NOT EXISTS webhooks (
  id          INTEGER  NOT NULL PRIMARY KEY,
  merchant_id TEXT     NOT NULL,
  url         TEXT     NOT NULL,
  types       TEXT     NOT NULL,
  state       TEXT     NOT NULL,
  secret      TEXT     NOT NULL,
  old_secret  TEXT     NOT NULL,
  old_until   DATETIME NULL,
  scanned_to  DATETIME NOT NULL,
  replay      TEXT     NOT NULL,
  created_at  DATETIME NOT NULL,
  leased_to   DATETIME NOT NULL,
  failures    INT      NOT NULL,
  CONSTRAINT webhooks_state CHECK (state IN ('active', 'gone', 'off'))
);
CREATE INDEX webhooks_of_merchant ON webhooks (merchant_id, id);

-- Changes of orders to be sent. next_at is the next attempt of a waiting one. body is '' unless it waits. They are
-- deleted after 30 days.
CREATE TABLE IF NOT EXISTS deliveries (
  id          INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
  endpoint_id BIGINT   NOT NULL,
  order_sn    BIGINT   NOT NULL,
  changed_at  DATETIME NOT NULL,
  type        TEXT     NOT NULL,
  state       TEXT     NOT NULL,
  attempts    INT      NOT NULL,
  next_at     DATETIME NOT NULL,
  status      INT      NOT NULL,
  error       TEXT     NOT NULL,
  body        TEXT     NOT NULL,
  created_at  DATETIME NOT NULL,
  CONSTRAINT deliveries_state CHECK (state IN ('waiting', 'delivered', 'failed'))
);
CREATE UNIQUE INDEX deliveries_change ON deliveries (endpoint_id, order_sn, changed_at);
CREATE INDEX deliveries_due ON deliveries (endpoint_id, state, next_at);
CREATE INDEX deliveries_of_state ON deliveries (endpoint_id, state, id);

-- +goose Down
DROP TABLE deliveries;
DROP TABLE webhooks;
