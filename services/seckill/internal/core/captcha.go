package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// Times of challenges.
const (
	captchaOpens = 5 * time.Minute // before the start
	// CaptchaTTL is the time that a buyer has to solve a challenge, CaptchaPassTTL that of a pass.
	CaptchaTTL     = 2 * time.Minute
	CaptchaPassTTL = 10 * time.Minute
)

const (
	// alternativeFactor is how much more a proof of work costs where the activity has another kind of challenge.
	alternativeFactor = 8
	// slideTolerance is the greatest distance in pixels between the answer and the place of the part.
	slideTolerance = 5
)

// Errors of the ports of challenges.
var (
	// ErrUnverified means that a provider could not be reached or returned nothing usable.
	ErrUnverified = errors.New("provider of challenges did not respond")
	// ErrTokenRefused means that a provider refused a token.
	ErrTokenRefused = errors.New("provider refused the token")
)

// Pow is a proof of work: the buyer finds the number n up to Max for which SHA-256(Salt + n) is Challenge.
type Pow struct {
	Algorithm, Challenge, Salt, Signature string
	Max                                   int64
}

// Slide is a puzzle: the buyer moves the part to its place in the image, from (PieceX, PieceY) to the right.
type Slide struct {
	Image, Piece                           string // data URLs
	Width, Height, PieceWidth, PieceHeight int64
	PieceX, PieceY                         int64
}

// Widget is the widget of a provider.
type Widget struct{ Provider, SiteKey, Action string }

// Token is the answer of a provider's widget, with what the provider has to confirm.
type Token struct {
	Value, Action, CaptchaID string
}

// Pows makes and verifies proofs of work. Both are cheap and need no state.
type Pows interface {
	New(captchaID string, most int64, expires time.Time) (Pow, error)
	// Solved reports whether the payload is a solution of the challenge of that id.
	Solved(captchaID, payload string) bool
}

// Slides holds puzzles that were drawn before.
type Slides interface {
	// Take returns a puzzle and the x at which its part belongs; false if there is none. It does not wait.
	Take() (Slide, int64, bool)
}

// Provider verifies the tokens of a third party.
type Provider interface {
	Widget(activityID string) Widget
	// Available reports whether the provider responded lately.
	Available() bool
	// Verify returns nil for a token that the provider confirms, ErrTokenRefused or ErrUnverified.
	Verify(ctx context.Context, t Token) error
}

// Spent holds the challenges that were answered.
type Spent interface {
	// Spend returns whether this is the first answer to a challenge, over all processes if Shared.
	Spend(ctx context.Context, captchaID string, until time.Time) (first bool)
	// Shared reports whether all processes share the answers now.
	Shared() bool
}

// Captchas are the ports of challenges. Provider is nil if none is configured.
type Captchas struct {
	Pows     Pows
	Slides   Slides
	Provider Provider
	Spent    Spent
	// WorkByRole is whether only buyers who need it may request a proof of work where the activity has another kind.
	WorkByRole bool
}

// CaptchaTask is a challenge as its buyer sees it. One of Pow, Slide and Widget is set, by Kind.
type CaptchaTask struct {
	ID        string
	Kind      contract.CaptchaKind
	ExpiresAt time.Time
	Pow       *Pow
	Slide     *Slide
	Widget    *Widget
}

// CaptchaAnswer is an answer to a challenge: Payload to a proof of work, X to a puzzle, Token to a widget.
type CaptchaAnswer struct {
	Payload string
	X       *int64
	Token   string
}

// CaptchaPass is the permission of a solved challenge. It is valid for the user and the activity until ExpiresAt.
type CaptchaPass struct {
	Pass      string
	Kind      contract.CaptchaKind
	ExpiresAt time.Time
}

// captchaOpensAt returns when the challenges of an activity open. With a waiting room they open at admission, which is
// not before the start.
func (g GateState) captchaOpensAt() time.Time {
	if g.RoomRate > 0 {
		return g.StartsAt
	}
	return g.StartsAt.Add(-captchaOpens)
}

// CheckCaptchaOpen refuses a call before the challenges of an activity open, and after its end.
func (s *Service) CheckCaptchaOpen(ctx context.Context, activityID string) error {
	v, err := s.Sales.get(ctx, activityID, maxDecisionAge)
	if err != nil {
		return s.refusal(ctx, activityID, err)
	}
	now := s.Sales.Now(ctx)
	switch opens := v.GateState.captchaOpensAt(); {
	case !v.GateState.Captcha.On():
		return contract.Refuse(contract.CodeNotFound, "this activity has no challenge")
	case v.StateAt(now) == StateEnded:
		return ended()
	case now.Before(opens):
		return contract.Refuse(contract.CodeActivityNotStarted, "challenges are not open yet").
			With("starts_at", v.GateState.StartsAt.UTC()).With("opens_at", opens.UTC())
	}
	return nil
}

// NewCaptcha returns a challenge for a user in an activity. kind is the requested one: "" for that of the activity, or
// a proof of work, which all can solve by keyboard and which needs no third party; accessible is whether the user is
// known to need it. It is also what buyers get while there are no puzzles, while single use cannot be ensured, and while the provider does not respond. In a sale with a
// waiting room the user needs an admitted ticket.
func (s *Service) NewCaptcha(
	ctx context.Context, userID, activityID string, kind contract.CaptchaKind, ticket string, accessible bool,
) (CaptchaTask, error) {
	v, err := s.Sales.get(ctx, activityID, maxDecisionAge)
	if err != nil {
		return CaptchaTask{}, s.refusal(ctx, activityID, err)
	}
	if err := s.CheckRoom(ctx, userID, activityID, ticket); err != nil {
		return CaptchaTask{}, err
	}
	of := v.GateState.Captcha
	switch kind {
	case "":
		kind = of.Kind
	case of.Kind:
	case contract.CaptchaPow:
		if s.Captchas.WorkByRole && !accessible {
			return CaptchaTask{}, contract.Refuse(contract.CodeForbidden,
				"only buyers with the role accessible may replace the challenge of this activity by a proof of work")
		}
	default:
		return CaptchaTask{}, contract.InvalidField("kind", "must be pow or the kind of this activity")
	}
	task := CaptchaTask{Kind: kind, ExpiresAt: s.Sales.Now(ctx).Add(CaptchaTTL).Truncate(time.Second).UTC()}
	var x int64
	switch kind {
	case contract.CaptchaSlide:
		if slide, at, ok := s.Captchas.Slides.Take(); ok && s.Captchas.Spent.Shared() {
			task.Slide, x = &slide, at
		}
	case contract.CaptchaProvider:
		if p := s.Captchas.Provider; p != nil && p.Available() {
			widget := p.Widget(activityID)
			task.Widget = &widget
		}
	}
	if task.Slide == nil && task.Widget == nil {
		task.Kind = contract.CaptchaPow
	}
	task.ID = s.Seal.captcha(activityID, userID, captcha{task.Kind, task.ExpiresAt, x})
	if task.Kind == contract.CaptchaPow {
		most := of.Difficulty * 1000
		if of.Kind != contract.CaptchaPow {
			most *= alternativeFactor
		}
		pow, err := s.Captchas.Pows.New(task.ID, most, task.ExpiresAt)
		if err != nil {
			return CaptchaTask{}, err
		}
		task.Pow = &pow
	}
	return task, nil
}

// AnswerCaptcha returns a pass for a right answer. Each challenge takes one answer, right or wrong. The kind of the
// challenge is returned with a refusal, too.
func (s *Service) AnswerCaptcha(
	ctx context.Context, userID, activityID, captchaID string, a CaptchaAnswer,
) (CaptchaPass, error) {
	c, err := s.Seal.openCaptcha(captchaID, activityID, userID)
	if err != nil {
		return CaptchaPass{}, contract.Refuse(contract.CodeNotFound, "no such challenge of this buyer and activity")
	}
	out := CaptchaPass{Kind: c.kind}
	if err := a.complete(c.kind); err != nil {
		return out, err
	}
	now := s.Sales.Now(ctx)
	if !now.Before(c.expires) {
		return out, captchaWrong("the challenge has expired; request a new one")
	}
	if !s.Captchas.Spent.Shared() && c.kind == contract.CaptchaSlide {
		// Without single use, a program could answer with every x.
		return out, contract.Refuse(contract.CodeUnavailable, "request a new challenge").After(time.Second)
	}
	if !s.Captchas.Spent.Spend(ctx, captchaID, now.Add(CaptchaTTL)) {
		return out, captchaWrong("the challenge was answered before; request a new one")
	}
	switch c.kind {
	case contract.CaptchaPow:
		err = wrongUnless(s.Captchas.Pows.Solved(captchaID, a.Payload))
	case contract.CaptchaSlide:
		err = wrongUnless(*a.X >= c.x-slideTolerance && *a.X <= c.x+slideTolerance)
	default:
		err = s.verifyToken(ctx, activityID, captchaID, a)
	}
	if err != nil {
		return out, err
	}
	out.ExpiresAt = now.Add(CaptchaPassTTL).Truncate(time.Second).UTC()
	out.Pass = s.Seal.pass(activityID, userID, out.ExpiresAt)
	return out, nil
}

// complete refuses an answer without the field of this kind.
func (a CaptchaAnswer) complete(kind contract.CaptchaKind) error {
	switch {
	case kind == contract.CaptchaPow && a.Payload == "":
		return contract.InvalidField("payload", "is required for a proof of work")
	case kind == contract.CaptchaSlide && a.X == nil:
		return contract.InvalidField("x", "is required for a puzzle")
	case kind == contract.CaptchaProvider && a.Token == "":
		return contract.InvalidField("token", "is required for a widget")
	}
	return nil
}

func (s *Service) verifyToken(ctx context.Context, activityID, captchaID string, a CaptchaAnswer) error {
	err := ErrUnverified
	if p := s.Captchas.Provider; p != nil {
		err = p.Verify(ctx, Token{a.Token, p.Widget(activityID).Action, captchaID})
	}
	switch {
	case errors.Is(err, ErrTokenRefused):
		return wrongUnless(false)
	case err != nil:
		return contract.Refuse(contract.CodeUnavailable,
			"the challenge cannot be verified now; request a new one").After(time.Second)
	}
	return nil
}

// CheckCaptcha refuses a user without a valid pass, if the activity has a challenge.
func (s *Service) CheckCaptcha(ctx context.Context, userID, activityID, pass string) error {
	v, err := s.Sales.get(ctx, activityID, maxDecisionAge)
	if err != nil {
		return s.refusal(ctx, activityID, err)
	}
	if !v.GateState.Captcha.On() {
		return nil
	}
	if pass == "" {
		return captchaRequired("solve the challenge first")
	}
	expires, err := s.Seal.openPass(pass, activityID, userID)
	if err != nil {
		return captchaRequired("the pass is not valid for this buyer and activity; solve the challenge")
	}
	if !s.Sales.Now(ctx).Before(expires) {
		return captchaRequired("the pass has expired; solve the challenge again")
	}
	return nil
}

func wrongUnless(right bool) error {
	if right {
		return nil
	}
	return captchaWrong("the answer is wrong; request a new challenge")
}

func captchaWrong(why string) error { return contract.Refuse(contract.CodeCaptchaWrong, why) }

func captchaRequired(why string) error { return contract.Refuse(contract.CodeCaptchaRequired, why) }
