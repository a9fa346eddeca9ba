// Package allinone runs the whole system in one process, for a first try: the unchanged services on an embedded Redis,
// SQLite and the in-process bus. Purchases that are accepted and not yet committed are lost when the process ends. The
// tables stay in DATA_DIR, and a new process rebuilds its gate from them.
package allinone
