-- +goose Up
-- The order sweep reads reservations_republish_of_activity.
DROP INDEX reservations_republish;

-- +goose Down
CREATE INDEX reservations_republish ON reservations (republish_at);
