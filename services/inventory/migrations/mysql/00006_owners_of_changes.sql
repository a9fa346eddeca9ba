-- +goose Up
-- The owner of the changed object; '' for an object without an owner, such as a limit, and for rows of the previous
-- release, which does not record it.
SET @step = (
  SELECT IF(COUNT(*) > 0, 'DO 0', '
    ALTER TABLE changes
      ADD COLUMN merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''''')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'changes' AND column_name = 'merchant_id');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE changes DROP COLUMN merchant_id;
