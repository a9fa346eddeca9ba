-- +goose Up
-- The epochs of this database; the one with the highest id is the present one. Each gate carries the epoch that it was
-- built or renewed under. since is the time from which orders are imported; NULL for the first epoch, which imports
-- nothing.
CREATE TABLE epochs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  epoch TEXT NOT NULL UNIQUE,
  since DATETIME NULL,
  cause TEXT NOT NULL,
  drawn_at DATETIME NOT NULL
);

-- The steps of the import that follows a new epoch. activity_id 0 stands for the orders of all activities. position is
-- where the step goes on, counts its report as JSON.
CREATE TABLE imports (
  epoch_id BIGINT NOT NULL,
  activity_id BIGINT NOT NULL,
  step TEXT NOT NULL,
  position TEXT NOT NULL,
  counts TEXT NOT NULL,
  updated_at DATETIME NOT NULL,
  PRIMARY KEY (epoch_id, activity_id)
);
CREATE INDEX imports_of_activity ON imports (activity_id, step);

-- What an import found, for the operator. subject is an order_sn or the id of an adjustment.
CREATE TABLE import_findings (
  epoch_id BIGINT NOT NULL,
  activity_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,
  found_at DATETIME NOT NULL,
  PRIMARY KEY (epoch_id, activity_id, kind, subject)
);

INSERT INTO epochs (epoch, since, cause, drawn_at)
VALUES (lower(hex(randomblob(16))), NULL, 'first', strftime('%Y-%m-%d %H:%M:%f', 'now'));

-- +goose Down
DROP TABLE import_findings;
DROP TABLE imports;
DROP TABLE epochs;
