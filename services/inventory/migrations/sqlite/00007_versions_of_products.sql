-- +goose Up
-- The version of a product rises with each change and is its ETag. (SQLite applies a file in one transaction.)
ALTER TABLE products ADD COLUMN version INTEGER NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE products DROP COLUMN version;
