-- +goose Up
-- ref: the merchant's own reference of the object, NULL for none.
SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE products ADD COLUMN ref VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL, ADD UNIQUE KEY products_ref (merchant_id, ref)')
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'products' AND column_name = 'ref');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- merchant_id is that of the product, and NULL without a ref.
SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE skus ADD COLUMN merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL, ADD COLUMN ref VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL, ADD UNIQUE KEY skus_ref (merchant_id, ref)')
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'skus' AND column_name = 'ref');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE activities ADD COLUMN ref VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL, ADD UNIQUE KEY activities_ref (merchant_id, ref)')
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'ref');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE activities DROP KEY activities_ref, DROP COLUMN ref;
ALTER TABLE skus DROP KEY skus_ref, DROP COLUMN ref, DROP COLUMN merchant_id;
ALTER TABLE products DROP KEY products_ref, DROP COLUMN ref;
