-- +goose Up
CREATE TABLE items (
    id   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    left_pieces INTEGER NOT NULL DEFAULT 0 CHECK (left_pieces >= 0),
    at   DATETIME NULL
);
-- +goose Down
DROP TABLE items;
