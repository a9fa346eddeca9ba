-- +goose Up
-- The owner of the changed object; '' for an object without an owner, such as a limit, and for rows of the previous
-- release, which does not record it.
ALTER TABLE changes ADD COLUMN merchant_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE changes DROP COLUMN merchant_id;
