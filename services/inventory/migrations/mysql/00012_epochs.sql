-- +goose Up
-- The epochs of this database; the one with the highest id is the present one. Each gate carries the epoch that it was
-- built or renewed under. since is the time from which orders are imported; NULL for the first epoch, which imports
-- nothing. Pods of the previous release neither read nor write these tables.
CREATE TABLE IF NOT EXISTS epochs (
  id       BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  epoch    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  since    DATETIME(3) NULL,
  cause    VARCHAR(200) NOT NULL,
  drawn_at DATETIME(3) NOT NULL,
  UNIQUE KEY epochs_epoch (epoch)
) DEFAULT CHARSET = utf8mb4;

-- The steps of the import that follows a new epoch. activity_id 0 stands for the orders of all activities. position is
-- where the step goes on, counts its report as JSON.
CREATE TABLE IF NOT EXISTS imports (
  epoch_id    BIGINT       NOT NULL,
  activity_id BIGINT       NOT NULL,
  step        VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  position    VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  counts      TEXT         NOT NULL,
  updated_at  DATETIME(3)  NOT NULL,
  PRIMARY KEY (epoch_id, activity_id),
  KEY imports_of_activity (activity_id, step)
) DEFAULT CHARSET = utf8mb4;

-- What an import found, for the operator. subject is an order_sn or the id of an adjustment.
CREATE TABLE IF NOT EXISTS import_findings (
  epoch_id    BIGINT       NOT NULL,
  activity_id BIGINT       NOT NULL,
  kind        VARCHAR(32)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  subject     VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  detail      VARCHAR(500) NOT NULL,
  found_at    DATETIME(3)  NOT NULL,
  PRIMARY KEY (epoch_id, activity_id, kind, subject)
) DEFAULT CHARSET = utf8mb4;

INSERT INTO epochs (epoch, since, cause, drawn_at)
SELECT REPLACE(UUID(), '-', ''), NULL, 'first', UTC_TIMESTAMP(3) FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM epochs);

-- +goose Down
DROP TABLE import_findings;
DROP TABLE imports;
DROP TABLE epochs;
