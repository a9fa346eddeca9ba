-- +goose Up
CREATE TABLE items (
    id   BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL UNIQUE,
    units_left BIGINT NOT NULL DEFAULT 0,
    at   DATETIME(3) NULL,
    CONSTRAINT items_left CHECK (units_left >= 0)
) ENGINE = InnoDB;
-- +goose Down
DROP TABLE items;
