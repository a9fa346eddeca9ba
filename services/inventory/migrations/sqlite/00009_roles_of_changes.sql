-- +goose Up
-- The role of the person who made the change: merchant or operator; '' for repairs of the reconciler, and for rows of the
-- previous release, which does not record it.
ALTER TABLE changes ADD COLUMN role TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE changes DROP COLUMN role;
