-- The table of package idempotency. Each service that uses the package has it in its own migrations, in the form of its
-- database. status 0: the request that took the key has not finished (only seen inside of its own transaction).

-- mysql/
CREATE TABLE idempotency_keys (
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

-- sqlite/
CREATE TABLE idempotency_keys (
    id         INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
    caller     TEXT     NOT NULL,
    method     TEXT     NOT NULL,
    path       TEXT     NOT NULL,
    idem_key   TEXT     NOT NULL,
    body_hash  TEXT     NOT NULL,
    status     INTEGER  NOT NULL DEFAULT 0,
    body       BLOB     NULL,
    created_at DATETIME NOT NULL,
    UNIQUE (caller, method, path, idem_key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
