// Package allinone is the whole system in one process, for a first look: the three services as they are, on a Redis in
// memory, SQLite and the in-process bus. What was accepted and not yet committed ends with the process; the tables stay
// in DATA_DIR, and a new process rebuilds its gate from them.
package allinone
