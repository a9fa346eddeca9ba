-- +goose Up
-- The second key is for the count of a merchant's live activities, which a quota bounds.
SET @step = (
  SELECT IF(COUNT(*) > 0, 'DO 0', '
    ALTER TABLE activities
      ADD COLUMN merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''default'',
      ADD KEY activities_of_merchant (merchant_id, id),
      ADD KEY activities_live (merchant_id, state, ends_at)')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'merchant_id');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE activities DROP KEY activities_live, DROP KEY activities_of_merchant, DROP COLUMN merchant_id;
