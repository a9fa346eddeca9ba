-- +goose Up
-- archived: the SKUs of the product are offered for no further sale.
SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE products ADD COLUMN archived BOOLEAN NOT NULL DEFAULT FALSE')
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'products' AND column_name = 'archived');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- For a merchant's sales by their start.
SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE activities ADD KEY activities_by_start (merchant_id, starts_at, id)')
FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = 'activities' AND index_name = 'activities_by_start');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE activities DROP KEY activities_by_start;
ALTER TABLE products DROP COLUMN archived;
