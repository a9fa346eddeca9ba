-- +goose Up
-- reference: the provider's own id of a payment, '' until one is known. turn_at: when it may begin at the provider,
-- NULL if it did not wait. cancel_at: when the provider is next requested to end it, NULL for never.
SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0', CONCAT(
  'ALTER TABLE payments ADD COLUMN reference VARCHAR(255) NOT NULL DEFAULT '''', ADD COLUMN turn_at DATETIME(3) NULL, ',
  'ADD COLUMN cancel_at DATETIME(3) NULL, ADD COLUMN cancel_attempts INT NOT NULL DEFAULT 0, ',
  'ADD KEY by_cancel (cancel_at)'))
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'payments' AND column_name = 'reference');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE payments DROP KEY by_cancel, DROP COLUMN cancel_attempts, DROP COLUMN cancel_at, DROP COLUMN turn_at,
  DROP COLUMN reference;
