-- +goose Up
-- Each product and activity belongs to a merchant, and so does everything below it: SKUs to the merchant of their
-- product; stocks, reservations, adjustments, dead letters and Idempotency-Keys to that of their activity. Rows from
-- before, and rows of pods of the previous release, belong to 'default'.
--
-- One change of a table in a file, which MySQL and MariaDB execute while pods of the previous release read and write
-- the table: only its begin and its end need the table alone, for an instant. Their wait for it is bounded
-- (sqldb.Migrate).
SET @step = (
  SELECT IF(COUNT(*) > 0, 'DO 0', '
    ALTER TABLE products
      ADD COLUMN merchant_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''default'',
      ADD KEY products_of_merchant (merchant_id, id)')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'products' AND column_name = 'merchant_id');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- +goose Down
ALTER TABLE products DROP KEY products_of_merchant, DROP COLUMN merchant_id;
