-- +goose Up
-- The table of pkg/outbox.
CREATE TABLE outbox (
    id            INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
    topic         TEXT     NOT NULL,
    msg_key       TEXT     NOT NULL DEFAULT '',
    item          TEXT     NOT NULL,
    deliver_at    DATETIME NULL,
    created_at    DATETIME NOT NULL,
    claimed_until DATETIME NOT NULL,
    claimed_by    TEXT     NOT NULL DEFAULT ''
);
CREATE INDEX outbox_claimable ON outbox (claimed_until, id);

-- +goose Down
DROP TABLE outbox;
