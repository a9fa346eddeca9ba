-- +goose Up
-- room_rate is the number of places that an activity's waiting room admits a second; 0 means that it has no waiting room.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the column already, so the file checks first.
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'room_rate'
  ),
  'DO 0',
  'ALTER TABLE activities ADD COLUMN room_rate BIGINT NOT NULL DEFAULT 0'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE activities DROP COLUMN room_rate;
