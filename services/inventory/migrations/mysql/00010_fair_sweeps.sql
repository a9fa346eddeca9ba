-- +goose Up
-- resume_at is when an unfinished adjustment is tried again after resume_attempt failed attempts; NULL before the first.
-- A pod of the previous release tries it earlier.
--
-- The index serves the order sweep, activity by activity. A pod of the previous release sweeps by reservations_republish.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the columns already, so the file checks first. Pods of the previous release write meanwhile: the defaults are
-- for their rows, and one ALTER needs the table alone only for an instant. Its wait is bounded (sqldb.Migrate).
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'adjustments' AND column_name = 'resume_at'
  ),
  'DO 0',
  'ALTER TABLE adjustments
    ADD COLUMN resume_at DATETIME(3) NULL,
    ADD COLUMN resume_attempt INT NOT NULL DEFAULT 0'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'reservations' AND index_name = 'reservations_republish_of_activity'
  ),
  'DO 0',
  'ALTER TABLE reservations ADD INDEX reservations_republish_of_activity (activity_id, republish_at)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE reservations DROP INDEX reservations_republish_of_activity;
ALTER TABLE adjustments DROP COLUMN resume_attempt, DROP COLUMN resume_at;
