-- +goose Up
-- Endpoints of merchants. types is a list with commas. secret and old_secret are sealed under WEBHOOK_KEYS; old_secret
-- signs until old_until. The changes of orders before scanned_to have their deliveries. replay is the progress of a
-- replay, '' for none. Until leased_to one process
-- sends, or the endpoint pauses; failures is the number of attempts in a row that failed.
CREATE TABLE IF NOT EXISTS webhooks (
  id          BIGINT       NOT NULL PRIMARY KEY,
  merchant_id VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  url         VARCHAR(500) NOT NULL,
  types       VARCHAR(200) NOT NULL,
  state       VARCHAR(10)  NOT NULL,
  secret      VARCHAR(200) NOT NULL,
  old_secret  VARCHAR(200) NOT NULL,
  old_until   DATETIME(3)  NULL,
  scanned_to  DATETIME(3)  NOT NULL,
  replay      VARCHAR(500) NOT NULL,
  created_at  DATETIME(3)  NOT NULL,
  leased_to   DATETIME(3)  NOT NULL,
  failures    INT          NOT NULL,
  KEY webhooks_of_merchant (merchant_id, id),
  CONSTRAINT webhooks_state CHECK (state IN ('active', 'gone', 'off'))
) DEFAULT CHARSET = utf8mb4;

-- Changes of orders to be sent. next_at is the next attempt of a waiting one. body is '' unless it waits. They are
-- deleted after 30 days.
CREATE TABLE IF NOT EXISTS deliveries (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  endpoint_id BIGINT       NOT NULL,
  order_sn    BIGINT       NOT NULL,
  changed_at  DATETIME(3)  NOT NULL,
  type        VARCHAR(32)  NOT NULL,
  state       VARCHAR(10)  NOT NULL,
  attempts    INT          NOT NULL,
  next_at     DATETIME(3)  NOT NULL,
  status      INT          NOT NULL,
  error       VARCHAR(200) NOT NULL,
  body        MEDIUMTEXT   NOT NULL,
  created_at  DATETIME(3)  NOT NULL,
  UNIQUE KEY deliveries_change (endpoint_id, order_sn, changed_at),
  KEY deliveries_due (endpoint_id, state, next_at),
  KEY deliveries_of_state (endpoint_id, state, id),
  CONSTRAINT deliveries_state CHECK (state IN ('waiting', 'delivered', 'failed'))
) DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE deliveries;
DROP TABLE webhooks;
