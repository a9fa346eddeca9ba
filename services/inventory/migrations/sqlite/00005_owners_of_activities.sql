-- +goose Up
-- The second index is for the count of a merchant's live activities, which a quota bounds.
ALTER TABLE activities ADD COLUMN merchant_id TEXT NOT NULL DEFAULT 'default';
CREATE INDEX activities_of_merchant ON activities (merchant_id, id);
CREATE INDEX activities_live ON activities (merchant_id, state, ends_at);

-- +goose Down
DROP INDEX activities_live;
DROP INDEX activities_of_merchant;
ALTER TABLE activities DROP COLUMN merchant_id;
