-- +goose Up
-- held_since is when the master of the confirmation last got effects that belong to earlier times: those that were
-- repeated after it became the master, and those of rows that had changed long before. confirmed_at rises only once the
-- master was held for a while since then. The default is for the rows that exist.
ALTER TABLE gate_confirmations ADD COLUMN held_since DATETIME NOT NULL DEFAULT '2000-01-01 00:00:00+00:00';

-- +goose Down
ALTER TABLE gate_confirmations DROP COLUMN held_since;
