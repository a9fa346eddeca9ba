-- +goose Up
-- The role of the person who made the change: merchant or operator; '' for repairs of the reconciler, and for rows of the
-- previous release, which does not record it.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the column already, so the file checks first. Pods of the previous release write meanwhile: the default is for
-- their rows, and one ALTER needs the table alone only for an instant. Its wait is bounded (sqldb.Migrate).
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'changes' AND column_name = 'role'
  ),
  'DO 0',
  'ALTER TABLE changes
    ADD COLUMN role VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''''
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE changes DROP COLUMN role;
