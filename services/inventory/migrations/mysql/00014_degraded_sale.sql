-- +goose Up
-- What a merchant allows while Redis is unavailable (degraded_per_second 0: nothing), and the mode of the sale: gate,
-- direct or returning. mode_epoch counts how often the mode became direct, mode_changed_at is when it last changed.
-- gate_lacks_since is the time of the oldest change that the gate may lack; NULL while the mode is gate.
--
-- MySQL commits an ALTER by itself. A process that is killed between it and the record of the migration leaves a table
-- that has the columns already, so the file checks first. Pods of the previous release write meanwhile: the defaults are
-- for their rows.
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'activities' AND column_name = 'mode'
  ),
  'DO 0',
  'ALTER TABLE activities
    ADD COLUMN degraded_per_second INT NOT NULL DEFAULT 0,
    ADD COLUMN degraded_drop INT NOT NULL DEFAULT 0,
    ADD COLUMN degraded_reserve INT NOT NULL DEFAULT 0,
    ADD COLUMN mode VARCHAR(16) NOT NULL DEFAULT ''gate'',
    ADD COLUMN mode_epoch BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN mode_changed_at DATETIME(3) NULL,
    ADD COLUMN gate_lacks_since DATETIME(3) NULL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- The figures of a sale without Redis. seen_at is when a process of inventory last began to read the gate, figures_at the
-- time of Redis then, noted_at when the reading had ended; unlanded has the units that had not landed. held_back has the
-- units that are kept for purchases accepted before figures_at, reserve those for later ones. All three are JSON by SKU.
-- sold_count purchases were sold in the second sold_second (Unix time).
CREATE TABLE IF NOT EXISTS direct_sales (
  activity_id BIGINT      NOT NULL PRIMARY KEY,
  seen_at     DATETIME(3) NOT NULL,
  figures_at  DATETIME(3) NOT NULL,
  noted_at    DATETIME(3) NOT NULL,
  unlanded    TEXT        NOT NULL,
  held_back   TEXT        NOT NULL,
  reserve     TEXT        NOT NULL,
  sold_second BIGINT      NOT NULL,
  sold_count  BIGINT      NOT NULL
) DEFAULT CHARSET = utf8mb4;

-- Leases of the worker ids that processes of seckill use while Redis is unavailable. Times are Unix ms.
CREATE TABLE IF NOT EXISTS worker_leases (
  worker  INT         NOT NULL PRIMARY KEY,
  owner   VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  from_ms BIGINT      NOT NULL,
  high_ms BIGINT      NOT NULL
) DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE worker_leases;
DROP TABLE direct_sales;
ALTER TABLE activities DROP COLUMN gate_lacks_since, DROP COLUMN mode_changed_at, DROP COLUMN mode_epoch, DROP COLUMN mode,
  DROP COLUMN degraded_reserve, DROP COLUMN degraded_drop, DROP COLUMN degraded_per_second;
