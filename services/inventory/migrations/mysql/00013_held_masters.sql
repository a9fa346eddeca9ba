-- +goose Up
-- held_since is when the master of the confirmation last got effects that belong to earlier times: those that were
-- repeated after it became the master, and those of rows that had changed long before. confirmed_at rises only once the
-- master was held for a while since then. The default is for the rows that exist.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the column already, so the file checks first.
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'gate_confirmations' AND column_name = 'held_since'
  ),
  'DO 0',
  'ALTER TABLE gate_confirmations ADD COLUMN held_since DATETIME(3) NOT NULL DEFAULT ''2000-01-01 00:00:00.000'''
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE gate_confirmations DROP COLUMN held_since;
