-- +goose Up
-- The table of pkg/idempotency.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    caller     VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    method     VARCHAR(8)   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    path       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    idem_key   VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    body_hash  VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    status     INT          NOT NULL DEFAULT 0,
    body       MEDIUMBLOB   NULL,
    created_at DATETIME(3)  NOT NULL,
    UNIQUE KEY idempotency_keys_request (caller, method, path, idem_key),
    KEY idempotency_keys_created (created_at)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE idempotency_keys;
