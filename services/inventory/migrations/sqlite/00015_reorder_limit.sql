-- +goose Up
-- reorder_limit is the number of orders of an activity that a buyer may cancel or let expire. The default is for the rows
-- that exist.
ALTER TABLE activities ADD COLUMN reorder_limit BIGINT NOT NULL DEFAULT 2;

-- +goose Down
ALTER TABLE activities DROP COLUMN reorder_limit;
