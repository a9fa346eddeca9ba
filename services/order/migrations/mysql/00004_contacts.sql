-- +goose Up
-- The descriptions of activities from inventory's deductions, for the lists of orders and for the time until which
-- contacts are kept. skus is a JSON list of {sku_id, name}. as_of is inventory's time when it read them; a later one
-- replaces them.
CREATE TABLE IF NOT EXISTS activities (
  activity_id BIGINT       NOT NULL,
  title       VARCHAR(200) NOT NULL,
  ends_at     DATETIME(3)  NOT NULL,
  skus        MEDIUMTEXT   NOT NULL,
  as_of       DATETIME(3)  NOT NULL,
  PRIMARY KEY (activity_id)
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

-- +goose Down
DROP TABLE contacts;
DROP TABLE activities;
