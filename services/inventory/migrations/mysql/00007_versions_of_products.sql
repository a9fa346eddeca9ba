-- +goose Up
-- The version of a product rises with each change and is its ETag. A pod of the previous release changes a product without
-- raising it.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the column already, so the file checks first. Pods of the previous release write meanwhile: the default is for
-- their rows, and one ALTER needs the table alone only for an instant. Its wait is bounded (sqldb.Migrate).
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'products' AND column_name = 'version'
  ),
  'DO 0',
  'ALTER TABLE products ADD COLUMN version BIGINT NOT NULL DEFAULT 1'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE products DROP COLUMN version;
