package core_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/phone"
)

const goodPhone = "+8613812345678"

func newContact(name, number string, lines []string) (core.Contact, error) {
	return core.NewContact(name, number, lines, phone.Normalize)
}

func TestNewContact(t *testing.T) {
	t.Parallel()
	c, err := newContact("  王小明 ", "138-1234-5678", []string{" 1 Renmin Road ", "Shanghai"})
	require.NoError(t, err)
	require.True(t, c.Name == "王小明" && c.Phone == goodPhone && c.AddressLines[0] == "1 Renmin Road" && len(c.AddressLines) == 2)
	_, err = newContact(strings.Repeat("王", 64), goodPhone, []string{strings.Repeat("路", 120), "b", "c", "d"})
	require.NoError(t, err, "bounds are in characters")

	for name, tt := range map[string]struct {
		name, phone string
		lines       []string
		fields      []string
	}{
		"nothing":               {"", "", nil, []string{"name", "phone"}},
		"blank name":            {" \u3000 ", goodPhone, nil, []string{"name"}},
		"invisible name":        {"\u200b\u200d", goodPhone, nil, []string{"name"}},
		"long name":             {strings.Repeat("n", 65), goodPhone, nil, []string{"name"}},
		"newline in a name":     {"a\nb", goodPhone, nil, []string{"name"}},
		"newline after a name":  {"a\n", goodPhone, nil, []string{"name"}},
		"NUL":                   {"a\x00", goodPhone, nil, []string{"name"}},
		"escape":                {"\x1b[31mred", goodPhone, nil, []string{"name"}},
		"C1 control":            {"a\u0085b", goodPhone, nil, []string{"name"}},
		"line separator":        {"a\u2028b", goodPhone, nil, []string{"name"}},
		"direction override":    {"a\u202eb", goodPhone, nil, []string{"name"}},
		"not UTF-8":             {"a\xff", goodPhone, nil, []string{"name"}},
		"half a surrogate pair": {"a\ufffd", goodPhone, nil, []string{"name"}},
		"wrong phone":           {"a", "12345", nil, []string{"phone"}},
		"five lines":            {"a", goodPhone, []string{"1", "2", "3", "4", "5"}, []string{"address_lines"}},
		"blank line":            {"a", goodPhone, []string{"1", " "}, []string{"address_lines[1]"}},
		"empty line":            {"a", goodPhone, []string{""}, []string{"address_lines[0]"}},
		"long line":             {"a", goodPhone, []string{strings.Repeat("x", 121)}, []string{"address_lines[0]"}},
		"tab in a line":         {"a", goodPhone, []string{"1\t2"}, []string{"address_lines[0]"}},
		"all":                   {"\t", "x", []string{"ok", "\r"}, []string{"name", "phone", "address_lines[1]"}},
	} {
		_, err := newContact(tt.name, tt.phone, tt.lines)
		refusal := contract.RefusalOf(err)
		require.NotNil(t, refusal, name)
		require.Equal(t, contract.CodeInvalidRequest, refusal.Code, name)
		var fields []string
		for _, f := range refusal.Fields {
			fields = append(fields, f.Field)
		}
		require.Equal(t, tt.fields, fields, name)
	}
}

// An accepted contact keeps the bounds, is accepted unchanged when it is given again, and its refusal repeats no text.
func TestContactsAreNormalized(t *testing.T) {
	t.Parallel()
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ a-z王\x{202e}]{0,130}`))
	rapid.Check(t, func(t *rapid.T) {
		name, number := texts.Draw(t, "name"), rapid.OneOf(rapid.Just("13812345678"), rapid.StringMatching(`[+0-9 -]{0,20}`)).Draw(t, "phone")
		lines := rapid.SliceOfN(texts, 0, 6).Draw(t, "lines")
		c, err := newContact(name, number, lines)
		if err != nil {
			require.Equal(t, contract.CodeInvalidRequest, contract.CodeOf(err))
			if len(name) > 12 {
				require.NotContains(t, err.Error(), name)
			}
			return
		}
		for i, text := range append([]string{c.Name}, c.AddressLines...) {
			require.True(t, utf8.ValidString(text))
			require.LessOrEqual(t, utf8.RuneCountInString(text), map[bool]int{true: 64, false: 120}[i == 0])
			require.Equal(t, strings.TrimSpace(text), text)
			require.NotEmpty(t, text)
			require.False(t, strings.ContainsFunc(text, unicode.IsControl))
		}
		again, err := newContact(c.Name, c.Phone, c.AddressLines)
		require.NoError(t, err)
		require.True(t, again.Name == c.Name && again.Phone == c.Phone && len(again.AddressLines) == len(c.AddressLines))
	})
}

func TestContactsAreHiddenWhenPrinted(t *testing.T) {
	t.Parallel()
	c, err := newContact("Secret Name", goodPhone, []string{"Secret Road"})
	require.NoError(t, err)
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "contact", c, "in", core.LookedUp{Contact: &c})
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "contact", c, "pointer", &c)
	_, _ = fmt.Fprintf(&out, "%v %+v %#v %s %v", c, c, c, &c, []core.Contact{c})
	require.NotContains(t, out.String(), "Secret")
	require.NotContains(t, out.String(), goodPhone)
}
