-- +goose Up
-- Set by the first step of a rejection: such a letter cannot be replayed any more.
ALTER TABLE dead_letters ADD COLUMN rejecting BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE dead_letters DROP COLUMN rejecting;
