-- +goose Up
-- changed_at is the time of the last change of an order's state, for orders:since. It is computed from the times of the
-- states, so that it is right for every row, also for those that the previous release writes meanwhile.
--
-- A virtual column changes only the table's description, and its index is built while orders are written. MySQL commits
-- each ALTER by itself, so the file checks first what a killed process has already done.

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_00' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_00 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_00' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_00 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_01' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_01 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_01' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_01 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_02' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_02 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_02' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_02 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_03' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_03 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_03' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_03 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_04' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_04 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_04' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_04 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_05' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_05 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_05' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_05 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_06' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_06 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_06' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_06 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_07' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_07 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_07' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_07 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_08' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_08 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_08' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_08 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_09' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_09 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_09' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_09 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_10' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_10 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_10' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_10 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_11' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_11 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_11' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_11 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_12' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_12 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_12' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_12 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_13' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_13 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_13' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_13 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_14' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_14 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_14' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_14 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'orders_15' AND column_name = 'changed_at'
  ),
  'DO 0',
  'ALTER TABLE orders_15 ADD COLUMN changed_at DATETIME(3)
    GENERATED ALWAYS AS (COALESCE(refunded_at, closed_at, paid_at, created_at)) VIRTUAL'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;
SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'orders_15' AND index_name = 'by_change'
  ),
  'DO 0',
  'ALTER TABLE orders_15 ADD INDEX by_change (changed_at, order_sn)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- The book of the sandbox provider: the charges that it has made, by payment id, beside its refunds. order_sn and user_id
-- are what a real provider keeps as the reference of a charge. sandbox/migrations has the same tables, for SANDBOX_DSN.
CREATE TABLE IF NOT EXISTS sandbox_charges (
  payment_id BIGINT      NOT NULL,
  order_sn   BIGINT      NOT NULL,
  user_id    VARCHAR(64) NOT NULL,
  amount     BIGINT      NOT NULL,
  currency   VARCHAR(3)  NOT NULL,
  created_at DATETIME(3) NOT NULL,
  PRIMARY KEY (payment_id),
  KEY by_time (created_at, payment_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @change = IF(
  EXISTS (
    SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'sandbox_refunds' AND index_name = 'by_time'
  ),
  'DO 0',
  'ALTER TABLE sandbox_refunds ADD INDEX by_time (created_at, refund_id)'
);
PREPARE migration FROM @change;
EXECUTE migration;
DEALLOCATE PREPARE migration;

-- How far `order migrate up` has copied an older book: rows up to after_id are done; finished_at: all of them.
CREATE TABLE IF NOT EXISTS sandbox_copies (
  step        VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  after_id    BIGINT      NOT NULL,
  finished_at DATETIME(3) NULL,
  PRIMARY KEY (step)
) ENGINE=InnoDB;

-- +goose Down
DROP TABLE sandbox_copies;
ALTER TABLE sandbox_refunds DROP INDEX by_time;
DROP TABLE sandbox_charges;
ALTER TABLE orders_00 DROP INDEX by_change;
ALTER TABLE orders_00 DROP COLUMN changed_at;
ALTER TABLE orders_01 DROP INDEX by_change;
ALTER TABLE orders_01 DROP COLUMN changed_at;
ALTER TABLE orders_02 DROP INDEX by_change;
ALTER TABLE orders_02 DROP COLUMN changed_at;
ALTER TABLE orders_03 DROP INDEX by_change;
ALTER TABLE orders_03 DROP COLUMN changed_at;
ALTER TABLE orders_04 DROP INDEX by_change;
ALTER TABLE orders_04 DROP COLUMN changed_at;
ALTER TABLE orders_05 DROP INDEX by_change;
ALTER TABLE orders_05 DROP COLUMN changed_at;
ALTER TABLE orders_06 DROP INDEX by_change;
ALTER TABLE orders_06 DROP COLUMN changed_at;
ALTER TABLE orders_07 DROP INDEX by_change;
ALTER TABLE orders_07 DROP COLUMN changed_at;
ALTER TABLE orders_08 DROP INDEX by_change;
ALTER TABLE orders_08 DROP COLUMN changed_at;
ALTER TABLE orders_09 DROP INDEX by_change;
ALTER TABLE orders_09 DROP COLUMN changed_at;
ALTER TABLE orders_10 DROP INDEX by_change;
ALTER TABLE orders_10 DROP COLUMN changed_at;
ALTER TABLE orders_11 DROP INDEX by_change;
ALTER TABLE orders_11 DROP COLUMN changed_at;
ALTER TABLE orders_12 DROP INDEX by_change;
ALTER TABLE orders_12 DROP COLUMN changed_at;
ALTER TABLE orders_13 DROP INDEX by_change;
ALTER TABLE orders_13 DROP COLUMN changed_at;
ALTER TABLE orders_14 DROP INDEX by_change;
ALTER TABLE orders_14 DROP COLUMN changed_at;
ALTER TABLE orders_15 DROP INDEX by_change;
ALTER TABLE orders_15 DROP COLUMN changed_at;
