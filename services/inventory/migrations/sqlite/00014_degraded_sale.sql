-- +goose Up
-- What a merchant allows while Redis is unavailable (degraded_per_second 0: nothing), and the mode of the sale: gate,
-- direct or returning. mode_epoch counts how often the mode became direct, mode_changed_at is when it last changed.
-- gate_lacks_since is the time of the oldest change that the gate may lack; NULL while the mode is gate.
ALTER TABLE activities ADD COLUMN degraded_per_second BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN degraded_drop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN degraded_reserve BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN mode TEXT NOT NULL DEFAULT 'gate';
ALTER TABLE activities ADD COLUMN mode_epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN mode_changed_at DATETIME NULL;
ALTER TABLE activities ADD COLUMN gate_lacks_since DATETIME NULL;

-- The figures of a sale without Redis. seen_at is when a process of inventory last began to read the gate, figures_at the
-- time of Redis then, noted_at when the reading had ended; unlanded has the units that had not landed. held_back has the
-- units that are kept for purchases accepted before figures_at, reserve those for later ones. All three are JSON by SKU.
-- sold_count purchases were sold in the second sold_second (Unix time).
CREATE TABLE direct_sales (
  activity_id INTEGER PRIMARY KEY,
  seen_at DATETIME NOT NULL,
  figures_at DATETIME NOT NULL,
  noted_at DATETIME NOT NULL,
  unlanded TEXT NOT NULL,
  held_back TEXT NOT NULL,
  reserve TEXT NOT NULL,
  sold_second BIGINT NOT NULL,
  sold_count BIGINT NOT NULL
);

-- Leases of the worker ids that processes of seckill use while Redis is unavailable. Times are Unix ms.
CREATE TABLE worker_leases (
  worker INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  from_ms BIGINT NOT NULL,
  high_ms BIGINT NOT NULL
);

-- +goose Down
DROP TABLE worker_leases;
DROP TABLE direct_sales;
ALTER TABLE activities DROP COLUMN gate_lacks_since;
ALTER TABLE activities DROP COLUMN mode_changed_at;
ALTER TABLE activities DROP COLUMN mode_epoch;
ALTER TABLE activities DROP COLUMN mode;
ALTER TABLE activities DROP COLUMN degraded_reserve;
ALTER TABLE activities DROP COLUMN degraded_drop;
ALTER TABLE activities DROP COLUMN degraded_per_second;
