-- +goose Up
-- The descriptions of activities from inventory's deductions, for the lists of orders and for the time until which
-- contacts are kept. skus is a JSON list of {sku_id, name}. as_of is inventory's time when it read them; a later one
-- replaces them.
CREATE TABLE activities (
  activity_id INTEGER  NOT NULL PRIMARY KEY,
  title       TEXT     NOT NULL,
  ends_at     DATETIME NOT NULL,
  skus        TEXT     NOT NULL,
  as_of       DATETIME NOT NULL
);

-- The buyer's contact of an order, encrypted with the key key_id and bound to the order_sn.
--   kept_from: the end of the activity, or the creation of the order if that end is not known; the sweep deletes the
--              contact CONTACT_KEEP later
CREATE TABLE contacts (
  order_sn    INTEGER  NOT NULL PRIMARY KEY,
  user_id     TEXT     NOT NULL,
  activity_id INTEGER  NOT NULL,
  key_id      TEXT     NOT NULL,
  sealed      BLOB     NOT NULL,
  kept_from   DATETIME NOT NULL
);
CREATE INDEX contacts_by_user ON contacts (user_id);
CREATE INDEX contacts_by_kept_from ON contacts (kept_from);
CREATE INDEX contacts_by_key ON contacts (key_id, order_sn);

-- +goose Down
DROP TABLE contacts;
DROP TABLE activities;
