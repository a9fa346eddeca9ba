-- +goose Up
-- The table of pkg/outbox.
CREATE TABLE IF NOT EXISTS outbox (
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

-- +goose Down
DROP TABLE outbox;
