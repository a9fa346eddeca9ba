package contract

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// CaptchaKind is the kind of challenge that buyers solve before they may take a path.
type CaptchaKind string

// The kinds of challenges. CaptchaPow is a proof of work, CaptchaSlide a puzzle with a part to move to its place, and
// CaptchaProvider the widget of a third party.
const (
	CaptchaNone     CaptchaKind = "none"
	CaptchaPow      CaptchaKind = "pow"
	CaptchaSlide    CaptchaKind = "slide"
	CaptchaProvider CaptchaKind = "provider"
)

// CaptchaKinds lists all kinds.
var CaptchaKinds = []CaptchaKind{CaptchaNone, CaptchaPow, CaptchaSlide, CaptchaProvider}

// Bounds of Captcha.Difficulty.
const (
	DefaultCaptchaDifficulty = 50
	MaxCaptchaDifficulty     = 1000
)

// Captcha is the challenge of an activity. The zero value means that it has none.
type Captcha struct {
	Kind CaptchaKind // "" like CaptchaNone
	// Difficulty is the number of hashes, in thousands, that a proof of work takes at most.
	Difficulty int64
}

var errCaptcha = errors.New("malformed challenge of an activity")

// On reports whether the activity has a challenge.
func (c Captcha) On() bool { return c.Kind != "" && c.Kind != CaptchaNone }

// String returns the challenge as the gate stores it: "" for none, else kind:difficulty.
func (c Captcha) String() string {
	if !c.On() {
		return ""
	}
	return string(c.Kind) + ":" + strconv.FormatInt(c.Difficulty, 10)
}

// Validate returns an error unless the kind is known and the difficulty of a challenge in range.
func (c Captcha) Validate() error {
	if c.On() && (!slices.Contains(CaptchaKinds, c.Kind) || c.Difficulty < 1 || c.Difficulty > MaxCaptchaDifficulty) {
		return errCaptcha
	}
	return nil
}

// ParseCaptcha is the inverse of Captcha.String.
func ParseCaptcha(s string) (Captcha, error) {
	if s == "" {
		return Captcha{}, nil
	}
	kind, number, _ := strings.Cut(s, ":")
	difficulty, err := strconv.ParseInt(number, 10, 64)
	c := Captcha{CaptchaKind(kind), difficulty}
	if err != nil || c.Validate() != nil || c.String() != s {
		return Captcha{}, errCaptcha
	}
	return c, nil
}
