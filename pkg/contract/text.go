package contract

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text bounds a text that a person writes and others read.
type Text struct {
	Most     int  // characters
	Optional bool // it may be empty
	Lines    bool // it may have several lines
}

const (
	zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	blackFlag                           = '\U0001f3f4' // begins the flags that are written with tags
)

// Check returns what is wrong with a text, "" for nothing. The message does not repeat the text. A text without a visible
// character is refused, as are characters that are invisible, change the direction of what surrounds them, or stand for
// others that were lost.
func (t Text) Check(s string) string {
	if s == "" && t.Optional {
		return ""
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError) {
		return "must be valid UTF-8"
	}
	if n := utf8.RuneCountInString(s); n < 1 || n > t.Most || !strings.ContainsFunc(s, visible) {
		return fmt.Sprintf("must have 1 to %d characters, not only white space", t.Most)
	}
	list := []rune(s)
	for i, r := range list {
		if r != '\n' && !t.allows(list, i) || r == '\n' && !t.Lines {
			return fmt.Sprintf("must not have control characters or invisible ones such as U+%04X", r)
		}
	}
	return ""
}

// allows reports whether the character at i may be in a text.
func (t Text) allows(s []rune, i int) bool {
	switch r := s[i]; {
	case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
		return false
	case !unicode.Is(unicode.Cf, r):
		return true
	case r == zeroWidthJoiner || r == zeroWidthNonJoiner: // inside a word, as in Persian and in emoji
		return i > 0 && i < len(s)-1 && !unicode.IsSpace(s[i-1]) && !unicode.IsSpace(s[i+1])
	case r == '\u00ad' || r == '\u200e' || r == '\u200f' || r == '\u061c': // soft hyphen, and marks of a direction
		return true
	case r >= '\U000e0020' && r <= '\U000e007f': // tags, as in the flag of Scotland
		return i > 0 && (s[i-1] == blackFlag || s[i-1] >= '\U000e0020' && s[i-1] <= '\U000e007f')
	default:
		return unicode.Is(unicode.Prepended_Concatenation_Mark, r) // Arabic signs around a number
	}
}

// visible reports whether a character can be seen. By their category the fillers of Hangul and the blank of
// Braille could be.
func visible(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800':
		return false
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
}

// CheckText returns the *Refusal of a text field, or nil.
func CheckText(field, s string, t Text) error {
	if message := t.Check(s); message != "" {
		return InvalidField(field, message)
	}
	return nil
}
