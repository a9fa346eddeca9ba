package core

import "time"

// Messages match their contract. The values that it leaves open are sanitized here, so that no value of a message can
// keep its transaction from committing for ever.

// sanitizeTime returns t as the tables keep it, or instead if t is outside of 2000 to 2200.
func sanitizeTime(t, instead time.Time) time.Time {
	if t.Year() < 2000 || t.Year() > 2200 {
		return instead
	}
	return t.UTC().Truncate(time.Millisecond)
}

// sanitizeReason returns s if gate and tables take it (1 to 32 of a-z 0-9 _ and -), and expired otherwise.
func sanitizeReason(s string) string {
	if s == "" || len(s) > 32 {
		return ReasonExpired
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return ReasonExpired
		}
	}
	return s
}

func sanitizeTraceparent(s string) string {
	if len(s) > 64 {
		return ""
	}
	return s
}
