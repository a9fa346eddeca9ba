-- The table of package outbox. Each service that uses the package has it in its own migrations, in the form of its
-- database. claimed_until: no relay claims the row before this time; claimed_by: the last claim.

-- mysql/
CREATE TABLE outbox (
    id            BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    topic         VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    msg_key       VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    item          MEDIUMTEXT  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    deliver_at    DATETIME(3) NULL,
    created_at    DATETIME(3) NOT NULL,
    claimed_until DATETIME(3) NOT NULL,
    claimed_by    VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    KEY outbox_claimable (claimed_until, id)
) ENGINE = InnoDB;

-- sqlite/
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
