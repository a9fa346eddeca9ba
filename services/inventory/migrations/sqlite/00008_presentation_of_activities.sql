-- +goose Up
-- What buyers see of an activity besides its title.
ALTER TABLE activities ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE activities ADD COLUMN image_url TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE activities DROP COLUMN image_url;
ALTER TABLE activities DROP COLUMN description;
