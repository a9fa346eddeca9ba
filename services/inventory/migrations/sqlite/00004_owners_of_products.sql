-- +goose Up
-- Each product and activity belongs to a merchant, and so does everything below it: SKUs to the merchant of their
-- product; stocks, reservations, adjustments, dead letters and Idempotency-Keys to that of their activity. Rows from
-- before, and rows of pods of the previous release, belong to 'default'.
ALTER TABLE products ADD COLUMN merchant_id TEXT NOT NULL DEFAULT 'default';
CREATE INDEX products_of_merchant ON products (merchant_id, id);

-- +goose Down
DROP INDEX products_of_merchant;
ALTER TABLE products DROP COLUMN merchant_id;
