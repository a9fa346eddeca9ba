-- +goose Up
-- The second key is for the count of a merchant's live activities, which a quota bounds.
ALTER TABLE activities
  ADD COLUMN merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'default',
  ADD KEY activities_of_merchant (merchant_id, id),
  ADD KEY activities_live (merchant_id, state, ends_at);

-- +goose Down
ALTER TABLE activities DROP KEY activities_live, DROP KEY activities_of_merchant, DROP COLUMN merchant_id;
