-- +goose Up
-- resume_at is when an unfinished adjustment is tried again after resume_attempt failed attempts; NULL before the first.
ALTER TABLE adjustments ADD COLUMN resume_at DATETIME NULL;
ALTER TABLE adjustments ADD COLUMN resume_attempt INT NOT NULL DEFAULT 0;
-- The index serves the order sweep, activity by activity.
CREATE INDEX reservations_republish_of_activity ON reservations (activity_id, republish_at);

-- +goose Down
DROP INDEX reservations_republish_of_activity;
ALTER TABLE adjustments DROP COLUMN resume_attempt;
ALTER TABLE adjustments DROP COLUMN resume_at;
