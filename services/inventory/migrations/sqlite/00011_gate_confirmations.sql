-- +goose Up
-- At confirmed_at the gate of the activity was on this Redis master, or on these masters of a Cluster, by replication
-- id, and the master had every earlier effect on the gate. A gate without a row gets all effects again.
CREATE TABLE gate_confirmations (
  activity_id BIGINT NOT NULL PRIMARY KEY,
  master TEXT NOT NULL,
  confirmed_at DATETIME NOT NULL
);

-- +goose Down
DROP TABLE gate_confirmations;
