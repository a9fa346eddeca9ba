-- +goose Up
-- Each product and activity belongs to a merchant, and so does everything below it: SKUs to the merchant of their
-- product; stocks, reservations, adjustments, dead letters and Idempotency-Keys to that of their activity. Rows from
-- before, and rows of pods of the previous release, belong to 'default'.
ALTER TABLE products ADD COLUMN merchant_id TEXT NOT NULL DEFAULT 'default';
CREATE INDEX products_of_merchant ON products (merchant_id, id);
ALTER TABLE activities ADD COLUMN merchant_id TEXT NOT NULL DEFAULT 'default';
CREATE INDEX activities_of_merchant ON activities (merchant_id, id);

-- The owner of the changed object, '' for an object without an owner, such as a limit.
ALTER TABLE changes ADD COLUMN merchant_id TEXT NOT NULL DEFAULT 'default';
UPDATE changes SET merchant_id = '' WHERE object = 'limit';

-- A row for each merchant who has added something. Transactions lock it before they count what a quota bounds.
CREATE TABLE merchants (
  merchant_id TEXT NOT NULL PRIMARY KEY
);

-- +goose Down
DROP TABLE merchants;
ALTER TABLE changes DROP COLUMN merchant_id;
DROP INDEX activities_of_merchant;
ALTER TABLE activities DROP COLUMN merchant_id;
DROP INDEX products_of_merchant;
ALTER TABLE products DROP COLUMN merchant_id;
