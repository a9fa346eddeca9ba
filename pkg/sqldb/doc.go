// Package sqldb opens the database of a service, migrates it, runs transactions on it, and tells transient errors from
// permanent ones. It works with MySQL 8.4 and 9.7, MariaDB 10.11 and later, and SQLite (pure Go).
//
// Rules for tables and statements that hold on all of them:
//   - key columns of text are declared CHARACTER SET utf8mb4 COLLATE utf8mb4_bin (MySQL): the default collation folds case,
//     and two users or two idempotency keys would become one;
//   - times are DATETIME(3) in MySQL and DATETIME in SQLite (the SQLite driver reads a column as a time only under
//     exactly that name); they are cut to milliseconds and turned into UTC on their way in;
//   - no statement that only one of them knows: no RETURNING, no SKIP LOCKED;
//   - whether a guarded UPDATE took hold is read from RowsAffected, which counts changed rows (not found ones).
package sqldb
