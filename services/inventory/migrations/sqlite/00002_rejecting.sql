-- +goose Up
-- Set by the first step of a rejection: from then on the dead letter cannot be replayed.
ALTER TABLE dead_letters ADD COLUMN rejecting BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE dead_letters DROP COLUMN rejecting;
