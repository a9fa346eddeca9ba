-- +goose Up
CREATE TABLE items (
    id   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    units_left INTEGER NOT NULL DEFAULT 0 CHECK (units_left >= 0),
    at   DATETIME NULL
);
-- +goose Down
DROP TABLE items;
