package contract

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ChallengeKind is the kind of challenge that buyers solve before they may take a path.
type ChallengeKind string

// The kinds of challenges. ChallengePow is a proof of work, ChallengeClick an image with characters to click in order,
// and ChallengeProvider the widget of a third party.
const (
	ChallengeNone     ChallengeKind = "none"
	ChallengePow      ChallengeKind = "pow"
	ChallengeClick    ChallengeKind = "click"
	ChallengeProvider ChallengeKind = "provider"
)

// ChallengeKinds lists all kinds.
var ChallengeKinds = []ChallengeKind{ChallengeNone, ChallengePow, ChallengeClick, ChallengeProvider}

// Bounds of Challenge.Difficulty.
const (
	DefaultChallengeDifficulty = 50
	MaxChallengeDifficulty     = 1000
)

// What images cost robots. seckill imposes it, and the model of docs/fairness.md computes with it.
const (
	// ChallengeImageUses is how many buyers may get one image. A robot may use a solution again for that many accounts.
	ChallengeImageUses = 4
	// ChallengePauseLeast and ChallengePauseMost bound the pause after a wrong answer.
	ChallengePauseLeast = 2 * time.Second
	ChallengePauseMost  = 5 * time.Minute
)

// ChallengePause returns the pause after a wrong answer that follows this many wrong ones.
func ChallengePause(before int64) time.Duration {
	const doublings = 8 // reach ChallengePauseMost
	return min(ChallengePauseLeast<<min(before, doublings), ChallengePauseMost)
}

// Challenge is the challenge of an activity. The zero value means that it has none.
type Challenge struct {
	Kind ChallengeKind // "" like ChallengeNone
	// Difficulty is the number of hashes, in thousands, that a proof of work takes at most.
	Difficulty int64
}

var errChallenge = errors.New("malformed challenge of an activity")

// On reports whether the activity has a challenge.
func (c Challenge) On() bool { return c.Kind != "" && c.Kind != ChallengeNone }

// String returns the challenge as the gate stores it: "" for none, else kind:difficulty.
func (c Challenge) String() string {
	if !c.On() {
		return ""
	}
	return string(c.Kind) + ":" + strconv.FormatInt(c.Difficulty, 10)
}

// Validate returns an error unless the kind is known and the difficulty of a challenge in range.
func (c Challenge) Validate() error {
	if c.On() && (!slices.Contains(ChallengeKinds, c.Kind) || c.Difficulty < 1 || c.Difficulty > MaxChallengeDifficulty) {
		return errChallenge
	}
	return nil
}

// ParseChallenge is the inverse of Challenge.String.
func ParseChallenge(s string) (Challenge, error) {
	if s == "" {
		return Challenge{}, nil
	}
	kind, number, _ := strings.Cut(s, ":")
	difficulty, err := strconv.ParseInt(number, 10, 64)
	c := Challenge{ChallengeKind(kind), difficulty}
	if err != nil || c.Validate() != nil || c.String() != s {
		return Challenge{}, errChallenge
	}
	return c, nil
}
