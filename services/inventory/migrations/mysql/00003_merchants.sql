-- +goose Up
-- A row for each merchant who has added something. Transactions lock it before they count what a quota bounds.
CREATE TABLE IF NOT EXISTS merchants (
  merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY
) DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE merchants;
