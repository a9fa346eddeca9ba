-- +goose Up
-- The book of the sandbox provider in its own database (SANDBOX_DSN), as a real provider has one: a restore of the order
-- database does not change it. The charges that it has made, by payment id; order_sn and user_id are what a real provider
-- keeps as the reference of a charge.
CREATE TABLE sandbox_charges (
  payment_id INTEGER  NOT NULL PRIMARY KEY,
  order_sn   INTEGER  NOT NULL,
  user_id    TEXT     NOT NULL,
  amount     INTEGER  NOT NULL,
  currency   TEXT     NOT NULL,
  created_at DATETIME NOT NULL
);
CREATE INDEX sandbox_charges_by_time ON sandbox_charges (created_at, payment_id);

-- The refunds that it has made, by refund id.
CREATE TABLE sandbox_refunds (
  refund_id  INTEGER  NOT NULL PRIMARY KEY,
  amount     INTEGER  NOT NULL,
  currency   TEXT     NOT NULL,
  created_at DATETIME NOT NULL
);
CREATE INDEX sandbox_refunds_by_time ON sandbox_refunds (created_at, refund_id);

-- How far `order migrate up` has copied an older book: rows up to after_id are done; finished_at: all of them.
CREATE TABLE sandbox_copies (
  step        TEXT     NOT NULL PRIMARY KEY,
  after_id    INTEGER  NOT NULL,
  finished_at DATETIME NULL
);

-- +goose Down
DROP TABLE sandbox_copies;
DROP TABLE sandbox_refunds;
DROP TABLE sandbox_charges;
