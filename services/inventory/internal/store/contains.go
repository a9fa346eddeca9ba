package store

import (
	"strings"
	"unicode"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// contains returns the condition that a column has a part, without case, and its argument. No character of the part is
// a wildcard. SQLite lowers ASCII only, but the patterns of its GLOB have sets of characters.
func contains(db *gorm.DB, column, part string) (condition string, argument any) {
	if sqldb.IsSQLite(db) {
		return column + " GLOB ?", "*" + anyCase(part) + "*"
	}
	// The default collation also ignores accents, and takes all emoji for one.
	return "INSTR(LOWER(" + column + ") COLLATE utf8mb4_bin, LOWER(?)) > 0", part
}

// anyCase returns a pattern of GLOB that matches a text in any case: a set for each character.
func anyCase(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == ']' || r == '^' { // these mean something within a set, and nothing outside
			b.WriteRune(r)
			continue
		}
		b.WriteByte('[')
		b.WriteRune(r)
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			b.WriteRune(other)
		}
		b.WriteByte(']')
	}
	return b.String()
}
