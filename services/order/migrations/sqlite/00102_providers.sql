-- +goose Up
-- reference: the provider's own id of a payment, '' until one is known. turn_at: when it may begin at the provider,
-- NULL if it did not wait. cancel_at: when the provider is next requested to end it, NULL for never.
ALTER TABLE payments ADD COLUMN reference TEXT NOT NULL DEFAULT '';
ALTER TABLE payments ADD COLUMN turn_at DATETIME NULL;
ALTER TABLE payments ADD COLUMN cancel_at DATETIME NULL;
ALTER TABLE payments ADD COLUMN cancel_attempts INTEGER NOT NULL DEFAULT 0;
CREATE INDEX payments_by_cancel ON payments (cancel_at);

-- +goose Down
DROP INDEX payments_by_cancel;
ALTER TABLE payments DROP COLUMN cancel_attempts;
ALTER TABLE payments DROP COLUMN cancel_at;
ALTER TABLE payments DROP COLUMN turn_at;
ALTER TABLE payments DROP COLUMN reference;
