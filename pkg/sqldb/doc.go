// Package sqldb opens and migrates the database of a service, runs transactions, and distinguishes transient from
// permanent errors. It supports MySQL 8.4 and 9.7, MariaDB 10.11 and later, and SQLite (pure Go).
//
// Rules for tables and statements, so that they work on all of them:
//   - key columns of text are declared CHARACTER SET utf8mb4 COLLATE utf8mb4_bin (MySQL): the default collation folds
//     case, and two users or two idempotency keys would be equal;
//   - times are DATETIME(3) in MySQL and DATETIME in SQLite (the SQLite driver reads a column as a time only with
//     exactly that type name); they are truncated to milliseconds and converted to UTC when written;
//   - no statement that only one database supports: no RETURNING, no SKIP LOCKED;
//   - read from RowsAffected whether a guarded UPDATE matched: it counts changed rows, not found ones.
package sqldb
