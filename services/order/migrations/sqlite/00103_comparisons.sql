-- +goose Up
-- The comparisons with each payment provider. compared_to: the start of the last completed one, of the first attempt
-- before there is one. next_at: when the next one begins, or until when a process claims the one that runs.
CREATE TABLE payment_comparisons (
  provider    TEXT     NOT NULL PRIMARY KEY,
  compared_to DATETIME NOT NULL,
  next_at     DATETIME NOT NULL
);

-- What the comparisons found and could not repair; the code has the kinds. A row is deleted when a comparison no longer
-- finds it. payment_id: as the provider has it. amount, currency: at the provider; recorded_: in payments; 0 and '' for
-- none. at: of the charge or refund. last_seen: the start of the last comparison that found it.
CREATE TABLE payment_differences (
  id                INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
  provider          TEXT     NOT NULL,
  kind              TEXT     NOT NULL,
  payment_id        TEXT     NOT NULL,
  order_sn          TEXT     NOT NULL DEFAULT '',
  amount            INTEGER  NOT NULL DEFAULT 0,
  currency          TEXT     NOT NULL DEFAULT '',
  recorded_amount   INTEGER  NOT NULL DEFAULT 0,
  recorded_currency TEXT     NOT NULL DEFAULT '',
  at                DATETIME NOT NULL,
  first_seen        DATETIME NOT NULL,
  last_seen         DATETIME NOT NULL,
  UNIQUE (provider, kind, payment_id)
);

-- +goose Down
DROP TABLE payment_differences;
DROP TABLE payment_comparisons;
