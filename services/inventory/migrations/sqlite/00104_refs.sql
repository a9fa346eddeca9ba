-- +goose Up
-- ref: the merchant's own reference of the object, NULL for none.
ALTER TABLE products ADD COLUMN ref TEXT NULL;
CREATE UNIQUE INDEX products_ref ON products (merchant_id, ref);

-- merchant_id is that of the product, and NULL without a ref.
ALTER TABLE skus ADD COLUMN merchant_id TEXT NULL;
ALTER TABLE skus ADD COLUMN ref TEXT NULL;
CREATE UNIQUE INDEX skus_ref ON skus (merchant_id, ref);

ALTER TABLE activities ADD COLUMN ref TEXT NULL;
CREATE UNIQUE INDEX activities_ref ON activities (merchant_id, ref);

-- +goose Down
DROP INDEX activities_ref;
ALTER TABLE activities DROP COLUMN ref;
DROP INDEX skus_ref;
ALTER TABLE skus DROP COLUMN ref;
ALTER TABLE skus DROP COLUMN merchant_id;
DROP INDEX products_ref;
ALTER TABLE products DROP COLUMN ref;
