-- +goose Up
-- reorder_limit is the number of orders of an activity that a buyer may cancel or let expire. The default is for the rows
-- that exist.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the column already, so the file checks first.
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'reorder_limit'
  ),
  'DO 0',
  'ALTER TABLE activities ADD COLUMN reorder_limit BIGINT NOT NULL DEFAULT 2'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE activities DROP COLUMN reorder_limit;
