-- +goose Up
-- archived: the SKUs of the product are offered for no further sale.
ALTER TABLE products ADD COLUMN archived BOOLEAN NOT NULL DEFAULT FALSE;

-- For a merchant's sales by their start.
CREATE INDEX activities_by_start ON activities (merchant_id, starts_at, id);

-- +goose Down
DROP INDEX activities_by_start;
ALTER TABLE products DROP COLUMN archived;
