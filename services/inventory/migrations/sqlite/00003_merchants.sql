-- +goose Up
-- A row for each merchant who has added something. Transactions lock it before they count what a quota bounds.
CREATE TABLE merchants (
  merchant_id TEXT NOT NULL PRIMARY KEY
);

-- +goose Down
DROP TABLE merchants;
