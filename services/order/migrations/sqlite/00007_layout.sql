-- +goose Up
-- The tables that hold orders. The service reads their names here, when it starts and whenever a table does not exist.
--   version:     1: orders_00 to orders_15, with their lines in order_items; 2: tables with the lines in the row
--   generation:  part of the names of the tables of version 2; `order migrate tables` raises it
--   state:       'steady'; 'copying': writers record in order_changes what they change, and `order migrate tables`
--                copies; 'switching': writers wait until it has switched
--   table_names: the tables in the order of their shards, joined by commas; the shard of an order is its gene (the
--                lowest 8 bits of the order_sn) modulo their number, a power of two
--   next_names:  the tables that are being filled; empty in the state 'steady'
CREATE TABLE IF NOT EXISTS order_layout (
  id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL,
  table_names TEXT NOT NULL,
  next_names TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (id)
);

-- A database that was empty has its row already.
INSERT OR IGNORE INTO order_layout (id, version, generation, state, table_names) VALUES (1, 1, 0, 'steady',
  'orders_00,orders_01,orders_02,orders_03,orders_04,orders_05,orders_06,orders_07,orders_08,orders_09,orders_10,orders_11,orders_12,orders_13,orders_14,orders_15');

-- The orders that were written in the state 'copying' and that must be copied again.
CREATE TABLE order_changes (
  order_sn INTEGER NOT NULL,
  PRIMARY KEY (order_sn)
);

-- What the sweep for lost closings checks, in version 2: one row for the orders of one transaction that have one
-- deadline. order_sns are 8 bytes each, big-endian. The sweep deletes the row when none of them is pending.
CREATE TABLE close_checks (
  id INTEGER NOT NULL,
  check_at DATETIME NOT NULL,
  order_sns BLOB NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX close_checks_by_check ON close_checks (check_at, id);

-- +goose Down
DROP TABLE close_checks;
DROP TABLE order_changes;
DROP TABLE order_layout;
