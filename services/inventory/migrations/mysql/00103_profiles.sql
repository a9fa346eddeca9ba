-- +goose Up
-- What buyers read of a merchant, besides its sales. version rises with each change and is the ETag.
CREATE TABLE IF NOT EXISTS profiles (
  merchant_id VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  name        VARCHAR(100) NOT NULL,
  terms_url   VARCHAR(500) NOT NULL,
  delivery    VARCHAR(500) NOT NULL,
  version     BIGINT       NOT NULL,
  updated_at  DATETIME(3)  NOT NULL
) DEFAULT CHARSET = utf8mb4;

-- notice: a line to the buyers of a sale, '' for none; notice_at is when it was written, NULL without one.
SET @step = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE activities ADD COLUMN notice VARCHAR(200) NOT NULL DEFAULT '''', ADD COLUMN notice_at DATETIME(3) NULL')
FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'notice');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE activities DROP COLUMN notice_at, DROP COLUMN notice;
DROP TABLE profiles;
