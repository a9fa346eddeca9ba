-- +goose Up
-- room_rate is the number of places that an activity's waiting room admits a second; 0 means that it has no waiting room.
ALTER TABLE activities ADD COLUMN room_rate BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE activities DROP COLUMN room_rate;
