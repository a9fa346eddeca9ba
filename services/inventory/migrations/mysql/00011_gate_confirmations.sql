-- +goose Up
-- At confirmed_at the gate of the activity was on this Redis master, or on these masters of a Cluster, by replication
-- id, and the master had every earlier effect on the gate. A gate without a row gets all effects again. Pods of the
-- previous release neither read nor write this table: the times of its rows then only grow older.
CREATE TABLE IF NOT EXISTS gate_confirmations (
  activity_id  BIGINT      NOT NULL PRIMARY KEY,
  master       TEXT        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  confirmed_at DATETIME(3) NOT NULL
) DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE gate_confirmations;
