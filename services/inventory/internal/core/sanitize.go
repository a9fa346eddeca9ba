package core

import "time"

// Messages are valid where their contract says so. What it leaves open is put right here, since nothing that a message
// says may keep its transaction from ever committing.

// sanitizeTime is t as the tables take it; a time that cannot be meant becomes instead.
func sanitizeTime(t, instead time.Time) time.Time {
	if t.Year() < 2000 || t.Year() > 2200 {
		return instead
	}
	return t.UTC().Truncate(time.Millisecond)
}

// sanitizeReason is a reason as gate and tables take it: 1 to 32 of a-z 0-9 _ and -.
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
