-- +goose Up
-- Set by the first step of a rejection: from then on the dead letter cannot be replayed.
SET @step = (
  SELECT IF(COUNT(*) > 0, 'DO 0', '
    ALTER TABLE dead_letters ADD COLUMN rejecting BOOLEAN NOT NULL DEFAULT FALSE')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'dead_letters' AND column_name = 'rejecting');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE dead_letters DROP COLUMN rejecting;
