package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCaptchaAsText(t *testing.T) {
	for _, c := range []Captcha{{}, {CaptchaPow, 50}, {CaptchaSlide, 1}, {CaptchaProvider, MaxCaptchaDifficulty}} {
		got, err := ParseCaptcha(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	require.Empty(t, Captcha{CaptchaNone, 50}.String())
	require.Error(t, Captcha{"other", 50}.Validate())
	require.Error(t, Captcha{CaptchaPow, 0}.Validate())
	require.NoError(t, Captcha{CaptchaNone, 0}.Validate())
}

// A parsed challenge is valid and has one form only.
func FuzzParseCaptcha(f *testing.F) {
	for _, s := range []string{"", "pow:50", "slide:1000", "provider:1", "pow:0", "pow:01", "none:5", "pow", "pow:+5", "x:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCaptcha(s)
		if err != nil {
			require.Zero(t, c)
			return
		}
		require.NoError(t, c.Validate())
		require.Equal(t, s, c.String())
	})
}
