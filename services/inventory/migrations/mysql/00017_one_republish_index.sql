-- +goose Up
-- The order sweep reads reservations_republish_of_activity, also that of the previous release. The older index served
-- nothing any more, and each landing and each creation of an order changed it.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- without the index, so the file checks first.
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'reservations' AND index_name = 'reservations_republish'
  ),
  'ALTER TABLE reservations DROP INDEX reservations_republish',
  'DO 0'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE reservations ADD INDEX reservations_republish (republish_at);
