package store

// FeedQueries returns the queries of a feed that read reservations.
func FeedQueries() map[string]string {
	return map[string]string{
		"changed activities": "SELECT id FROM activities WHERE id IN (?) AND " + changedSince,
		"changes":            changesOfStream,
	}
}
