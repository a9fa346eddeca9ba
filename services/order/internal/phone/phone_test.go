package phone_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/internal/phone"
)

func TestNormalize(t *testing.T) {
	for text, want := range map[string]string{
		"13812345678":             "+8613812345678",
		" 138 1234 5678 ":         "+8613812345678",
		"138-1234-5678":           "+8613812345678",
		"+8613812345678":          "+8613812345678",
		"+86 138-1234-5678":       "+8613812345678",
		"008613812345678":         "+8613812345678",
		"0086 138 1234 5678":      "+8613812345678",
		"(010) 6552 9988":         "+861065529988",
		"010-65529988":            "+861065529988",
		"+4915112345678":          "+4915112345678",
		"0049 151 12345678":       "+4915112345678",
		"+1 (202) 555-0101":       "+12025550101",
		"+39 06 6982 1234":        "+390669821234",
		"+85291234567":            "+85291234567",
		"":                        "",
		" ":                       "",
		"+":                       "",
		"-":                       "",
		"12345":                   "",
		"1381234567":              "", // ten digits
		"138123456789":            "",
		"23812345678":             "",
		"+861381234567":           "",
		"+86013812345678901":      "",
		"110":                     "",
		"95588":                   "",
		"+999123456789":           "",
		"+1234":                   "",
		"+491511234567890123":     "",
		"++8613812345678":         "",
		"86+13812345678":          "",
		"13812345678+":            "",
		"tel:13812345678":         "",
		"13812345678 ext. 5":      "",
		"13812345678;ext=5":       "",
		"1-800-FLOWERS":           "",
		"１３８１２３４５６７８":             "", // full-width digits
		"138\u00a01234\u00a05678": "",
		"138\t12345678":           "",
		"13812345678\n":           "",
		"138\x001234567":          "",
		"-13812345678":            "",
		"=13812345678":            "",
		"138  1234  5678 --- ((( ))) ------------------": "",
	} {
		got, err := phone.Normalize(text)
		if want == "" {
			require.ErrorIs(t, err, phone.ErrInvalid, "%q -> %s", text, got)
			continue
		}
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

// Whatever the text is, the result is E.164, and normalizing it again changes nothing.
func FuzzNormalize(f *testing.F) {
	for _, text := range []string{"13812345678", "+4915112345678", "0086 138-1234 5678", "(010) 65529988", "+39 06 6982 1234", "x", "+00861"} {
		f.Add(text)
	}
	e164 := regexp.MustCompile(`^\+[1-9][0-9]{1,14}$`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := phone.Normalize(text)
		if err != nil {
			require.Empty(t, got)
			return
		}
		require.Regexp(t, e164, got, "%q", text)
		again, err := phone.Normalize(got)
		require.NoError(t, err, "%q -> %s", text, got)
		require.Equal(t, got, again, "%q", text)
	})
}
