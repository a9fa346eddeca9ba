-- +goose Up
-- What buyers see of an activity besides its title.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the columns already, so the file checks first. Pods of the previous release write meanwhile: the default is for
-- their rows, and one ALTER needs the table alone only for an instant. Its wait is bounded (sqldb.Migrate).
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'description'
  ),
  'DO 0',
  'ALTER TABLE activities
    ADD COLUMN description VARCHAR(5000) NOT NULL DEFAULT '''',
    ADD COLUMN image_url VARCHAR(500) NOT NULL DEFAULT '''''
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE activities DROP COLUMN image_url, DROP COLUMN description;
