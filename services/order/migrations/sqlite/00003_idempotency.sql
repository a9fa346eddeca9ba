-- +goose Up
-- The table of pkg/idempotency.
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

-- +goose Down
DROP TABLE idempotency_keys;
