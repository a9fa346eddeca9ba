-- +goose Up
-- What buyers read of a merchant, besides its sales. version rises with each change and is the ETag.
CREATE TABLE IF NOT EXISTS profiles (
  merchant_id TEXT     NOT NULL PRIMARY KEY,
  name        TEXT     NOT NULL,
  terms_url   TEXT     NOT NULL,
  delivery    TEXT     NOT NULL,
  version     INTEGER  NOT NULL,
  updated_at  DATETIME NOT NULL
);

-- notice: a line to the buyers of a sale, '' for none; notice_at is when it was written, NULL without one.
ALTER TABLE activities ADD COLUMN notice TEXT NOT NULL DEFAULT '';
ALTER TABLE activities ADD COLUMN notice_at DATETIME NULL;

-- +goose Down
ALTER TABLE activities DROP COLUMN notice_at;
ALTER TABLE activities DROP COLUMN notice;
DROP TABLE profiles;
