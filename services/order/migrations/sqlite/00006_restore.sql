-- +goose Up
-- changed_at is the time of the last change of an order's state, for orders:since.
ALTER TABLE orders_00 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_00_by_change ON orders_00 (changed_at, order_sn);
ALTER TABLE orders_01 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_01_by_change ON orders_01 (changed_at, order_sn);
ALTER TABLE orders_02 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_02_by_change ON orders_02 (changed_at, order_sn);
ALTER TABLE orders_03 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_03_by_change ON orders_03 (changed_at, order_sn);
ALTER TABLE orders_04 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_04_by_change ON orders_04 (changed_at, order_sn);
ALTER TABLE orders_05 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_05_by_change ON orders_05 (changed_at, order_sn);
ALTER TABLE orders_06 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_06_by_change ON orders_06 (changed_at, order_sn);
ALTER TABLE orders_07 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_07_by_change ON orders_07 (changed_at, order_sn);
ALTER TABLE orders_08 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_08_by_change ON orders_08 (changed_at, order_sn);
ALTER TABLE orders_09 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_09_by_change ON orders_09 (changed_at, order_sn);
ALTER TABLE orders_10 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_10_by_change ON orders_10 (changed_at, order_sn);
ALTER TABLE orders_11 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_11_by_change ON orders_11 (changed_at, order_sn);
ALTER TABLE orders_12 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_12_by_change ON orders_12 (changed_at, order_sn);
ALTER TABLE orders_13 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_13_by_change ON orders_13 (changed_at, order_sn);
ALTER TABLE orders_14 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_14_by_change ON orders_14 (changed_at, order_sn);
ALTER TABLE orders_15 ADD COLUMN changed_at DATETIME
  GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL;
CREATE INDEX orders_15_by_change ON orders_15 (changed_at, order_sn);

-- The book of the sandbox provider: the charges that it has made, by payment id, beside its refunds. order_sn and user_id
-- are what a real provider keeps as the reference of a charge. sandbox/migrations has the same tables, for SANDBOX_DSN.
CREATE TABLE sandbox_charges (
  payment_id INTEGER  NOT NULL PRIMARY KEY,
  order_sn   INTEGER  NOT NULL,
  user_id    TEXT     NOT NULL,
  amount     INTEGER  NOT NULL,
  currency   TEXT     NOT NULL,
  created_at DATETIME NOT NULL
);
CREATE INDEX sandbox_charges_by_time ON sandbox_charges (created_at, payment_id);
CREATE INDEX sandbox_refunds_by_time ON sandbox_refunds (created_at, refund_id);

-- How far `order migrate up` has copied an older book: rows up to after_id are done; finished_at: all of them.
CREATE TABLE sandbox_copies (
  step        TEXT     NOT NULL PRIMARY KEY,
  after_id    INTEGER  NOT NULL,
  finished_at DATETIME NULL
);

-- +goose Down
DROP TABLE sandbox_copies;
DROP INDEX sandbox_refunds_by_time;
DROP TABLE sandbox_charges;
DROP INDEX orders_00_by_change;
ALTER TABLE orders_00 DROP COLUMN changed_at;
DROP INDEX orders_01_by_change;
ALTER TABLE orders_01 DROP COLUMN changed_at;
DROP INDEX orders_02_by_change;
ALTER TABLE orders_02 DROP COLUMN changed_at;
DROP INDEX orders_03_by_change;
ALTER TABLE orders_03 DROP COLUMN changed_at;
DROP INDEX orders_04_by_change;
ALTER TABLE orders_04 DROP COLUMN changed_at;
DROP INDEX orders_05_by_change;
ALTER TABLE orders_05 DROP COLUMN changed_at;
DROP INDEX orders_06_by_change;
ALTER TABLE orders_06 DROP COLUMN changed_at;
DROP INDEX orders_07_by_change;
ALTER TABLE orders_07 DROP COLUMN changed_at;
DROP INDEX orders_08_by_change;
ALTER TABLE orders_08 DROP COLUMN changed_at;
DROP INDEX orders_09_by_change;
ALTER TABLE orders_09 DROP COLUMN changed_at;
DROP INDEX orders_10_by_change;
ALTER TABLE orders_10 DROP COLUMN changed_at;
DROP INDEX orders_11_by_change;
ALTER TABLE orders_11 DROP COLUMN changed_at;
DROP INDEX orders_12_by_change;
ALTER TABLE orders_12 DROP COLUMN changed_at;
DROP INDEX orders_13_by_change;
ALTER TABLE orders_13 DROP COLUMN changed_at;
DROP INDEX orders_14_by_change;
ALTER TABLE orders_14 DROP COLUMN changed_at;
DROP INDEX orders_15_by_change;
ALTER TABLE orders_15 DROP COLUMN changed_at;
