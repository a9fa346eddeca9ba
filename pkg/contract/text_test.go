package contract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTextsThatPeopleRead(t *testing.T) {
	for name, text := range map[string]string{
		"one":                    "a",
		"Chinese":                "秋季特卖",
		"with spaces":            " a b ",
		"Persian with a joiner":  "می\u200cخواهم",
		"an emoji of three":      "👩\u200d👩\u200d👧",
		"an emoji alone":         "❤️",
		"the flag of Scotland":   "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
		"a soft hyphen":          "Donau\u00addampf",
		"a mark of a direction":  "שלום\u200e!",
		"a price":                "-50 %",
		"a decomposed character": "e\u0301",
	} {
		require.Empty(t, Text{Most: 20}.Check(text), name)
	}
	for name, text := range map[string]string{
		"nothing":                "",
		"blanks":                 " \t\u3000",
		"too long":               strings.Repeat("王", 21),
		"not UTF-8":              "a\xff",
		"half a surrogate pair":  "a\ufffd",
		"zero-width space":       "\u200b",
		"... within a word":      "a\u200bb",
		"byte order mark":        "\ufeffa",
		"word joiner":            "a\u2060b",
		"Hangul fillers":         "\u3164\u115f\u1160\uffa0",
		"blank of Braille":       "\u2800",
		"a joiner at the end":    "a\u200d",
		"a joiner after a space": "a \u200db",
		"direction override":     "Phone \u202eRUE 05",
		"direction isolate":      "A\u2067B",
		"tags without a flag":    "a\U000e0067",
		"NUL":                    "a\x00b",
		"escape":                 "a\x1b[31mb",
		"C1 control":             "a\u0085b",
		"line separator":         "a\u2028b",
		"a tab":                  "a\tb",
		"a second line":          "a\nb",
	} {
		require.NotEmpty(t, Text{Most: 20}.Check(text), name)
		require.Equal(t, CodeInvalidRequest, CodeOf(CheckText("title", text, Text{Most: 20})), name)
	}
	require.Empty(t, Text{Most: 20, Optional: true}.Check(""))
	require.NotEmpty(t, Text{Most: 20, Optional: true}.Check(" "))
	require.Empty(t, Text{Most: 20, Lines: true}.Check("a\n\nb\n"))
	require.NotEmpty(t, Text{Most: 20, Lines: true}.Check("\n"))
	require.NotEmpty(t, Text{Most: 20, Lines: true}.Check("a\r\nb"))
}

// A message never has the text: it may be a name or an address, and is logged.
func TestWhatIsWrongWithATextDoesNotRepeatIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "secret" + rapid.String().Draw(t, "text")
		require.NotContains(t, Text{Most: 3}.Check(text), "secret")
		require.NotContains(t, Text{Most: 300}.Check(text), "secret")
	})
}
