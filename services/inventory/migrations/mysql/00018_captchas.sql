-- +goose Up
-- captcha is the kind of an activity's challenge, captcha_difficulty the number of hashes, in thousands, that a proof of
-- work takes at most.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the columns already, so the file checks first.
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'captcha'
  ),
  'DO 0',
  'ALTER TABLE activities ADD COLUMN captcha VARCHAR(16) NOT NULL DEFAULT ''none'', ADD COLUMN captcha_difficulty BIGINT NOT NULL DEFAULT 50'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- +goose Down
ALTER TABLE activities DROP COLUMN captcha, DROP COLUMN captcha_difficulty;
