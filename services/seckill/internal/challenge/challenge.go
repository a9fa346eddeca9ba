// Package challenge is the challenges that buyers solve before they may take a path: proofs of work, images with
// characters to click, and the widgets of third parties. The API calls them captchas.
package challenge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

// Times of challenges.
const (
	ttl     = 2 * time.Minute // in which a buyer has to solve a challenge
	passTTL = 10 * time.Minute
	// overloadFor is for how long images are drawn slowly after the load shedder has refused a request.
	overloadFor = 10 * time.Second
	// noImage is when a buyer for whom there is no image may request one again.
	noImage = 2 * time.Second
)

// alternativeFactor is how much more a proof of work costs where the activity has another kind of challenge.
const alternativeFactor = 8

// Deps are the dependencies of Challenges.
type Deps struct {
	Settings Settings
	Host     string   // name of the host of the pages: a provider's token of another one is refused
	Secrets  []string // those of paths
	Sales    *core.SaleCache
	// CheckTicket refuses a user without an admitted ticket, if the activity has a waiting room.
	CheckTicket func(ctx context.Context, userID, activityID, ticket string) error
	// HasClicks reports whether an activity that has not ended has images to click as its challenge.
	HasClicks func(ctx context.Context) (bool, error)
	// Redis of the limits holds which challenges were answered, and pauses; nil means that this process is the only one.
	Redis redis.UniversalClient
	// Transport calls the provider; nil means one of its own.
	Transport http.RoundTripper
}

// Challenges gives challenges to buyers, verifies the answers, and checks the passes of those who have solved one.
type Challenges struct {
	Deps
	seal       seal
	pow        *Pow
	clicks     *Clicks
	held       *held
	spent      *admission.Spent // the ids that were answered
	pauses     *Pauses
	provider   *Provider    // nil without one
	workByRole bool         // only buyers who need it may replace another kind by a proof of work
	shedAt     atomic.Int64 // when the load shedder last refused, Unix ns
}

// New returns Challenges.
func New(d Deps, s *core.Seal, tel *telemetry.Telemetry) (*Challenges, error) {
	shared := admission.NewShared(d.Redis)
	c := &Challenges{
		Deps: d, spent: admission.NewSpent(shared, redisPrefix, ttl), held: newHeld(), pauses: newPauses(shared),
		provider: NewProvider(d.Settings, d.Host, d.Transport), workByRole: d.Settings.Work == WorkForAccessible,
	}
	var err error
	if c.seal, err = newSeal(s, d.Secrets...); err != nil {
		return nil, err
	}
	if c.pow, err = NewPow(d.Secrets...); err != nil {
		return nil, err
	}
	needed := true // until it is known, for a sale may go on without the gates' Redis
	c.clicks = NewClicks(d.Settings.Images, func(ctx context.Context) bool {
		if has, err := d.HasClicks(ctx); err == nil {
			needed = has
		}
		return needed
	}, func() bool { return time.Since(time.Unix(0, c.shedAt.Load())) < overloadFor }, tel.Log)
	if c.provider != nil {
		err := tel.ObserveBreaker("challenge_provider", c.provider.Breaker)
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run draws images until ctx ends.
func (c *Challenges) Run(ctx context.Context) error { return c.clicks.Run(ctx) }

// Shed reports that the load shedder has refused a request. It does not block.
func (c *Challenges) Shed() { c.shedAt.Store(time.Now().UnixNano()) }

// Breaker returns the state of the breaker before the provider; false without a provider.
func (c *Challenges) Breaker() (state string, ok bool) {
	if c.provider == nil {
		return "", false
	}
	return c.provider.Breaker(), true
}

// Close closes the connections to the provider.
func (c *Challenges) Close() {
	if c.provider != nil {
		c.provider.Close()
	}
}

// Task is a challenge as its buyer sees it. One of Work, Click and Widget is set, by Kind.
type Task struct {
	ID        string
	Kind      contract.ChallengeKind
	ExpiresAt time.Time
	Work      *Work
	Click     *Click
	Widget    *Widget
}

// Request is what a buyer requests. Kind is "" for that of the activity, or a proof of work, which all can solve by
// keyboard and which needs no third party. Ticket is that of the waiting room, Accessible whether the user is known to
// need a proof of work, Address that of the buyer, "" if it is not known.
type Request struct {
	Kind       contract.ChallengeKind
	Ticket     string
	Accessible bool
	Address    string
}

// Answer is an answer to a challenge: Payload to a proof of work, Points to an image, Token to a widget. Address is
// that of the buyer, "" if it is not known.
type Answer struct {
	Payload string
	Points  []Point
	Token   string
	Address string
}

// Pass is the permission of a solved challenge. It is valid for the user and the activity until ExpiresAt.
type Pass struct {
	Pass      string
	Kind      contract.ChallengeKind
	ExpiresAt time.Time
}

// CheckOpen refuses a call before the challenges of an activity open, and after its end.
func (c *Challenges) CheckOpen(ctx context.Context, activityID string) error {
	sale, err := c.Sales.GateState(ctx, activityID, core.MaxDecisionAge)
	if err != nil {
		return err
	}
	now := c.Sales.Now(ctx)
	switch opens := sale.ChallengesOpenAt(); {
	case !sale.Challenge.On():
		return contract.Refuse(contract.CodeNotFound, "this activity has no challenge")
	case sale.StateAt(now) == core.StateEnded:
		return core.RefuseEnded()
	case now.Before(opens):
		return contract.Refuse(contract.CodeActivityNotStarted, "challenges are not open yet").
			With("starts_at", sale.StartsAt.UTC()).With("opens_at", opens.UTC())
	}
	return nil
}

// Give returns a challenge for a user in an activity. Buyers get a proof of work also while the provider does not
// respond. A user who gave a wrong answer waits, as does one for whom no image is left. In a sale with a waiting room
// the user needs an admitted ticket.
func (c *Challenges) Give(ctx context.Context, userID, activityID string, r Request) (Task, error) {
	sale, err := c.Sales.GateState(ctx, activityID, core.MaxDecisionAge)
	if err != nil {
		return Task{}, err
	}
	if err := c.CheckTicket(ctx, userID, activityID, r.Ticket); err != nil {
		return Task{}, err
	}
	of, kind := sale.Challenge, r.Kind
	switch kind {
	case "":
		kind = of.Kind
	case of.Kind:
	case contract.ChallengePow:
		if c.workByRole && !r.Accessible {
			return Task{}, contract.Refuse(contract.CodeForbidden,
				"only buyers with the role accessible may replace the challenge of this activity by a proof of work")
		}
	default:
		return Task{}, contract.InvalidField("kind", "must be pow or the kind of this activity")
	}
	now := c.Sales.Now(ctx)
	task := Task{Kind: kind, ExpiresAt: now.Add(ttl).Truncate(time.Second).UTC()}
	switch kind {
	case contract.ChallengeClick:
		return c.giveImage(ctx, now, userID, activityID, r.Address, task)
	case contract.ChallengeProvider:
		if c.provider != nil && c.provider.Available() {
			widget := c.provider.Widget(activityID)
			task.Widget = &widget
		}
	}
	if task.Widget == nil {
		task.Kind = contract.ChallengePow
	}
	task.ID = c.seal.id(activityID, userID, content{kind: task.Kind, expires: task.ExpiresAt})
	if task.Kind == contract.ChallengePow {
		most := of.Difficulty * 1000
		if of.Kind != contract.ChallengePow {
			most *= alternativeFactor
		}
		work, err := c.pow.New(task.ID, most, task.ExpiresAt)
		if err != nil {
			return Task{}, err
		}
		task.Work = &work
	}
	return task, nil
}

// giveImage completes a task by an image, unless none is left, the user or the address holds too many, or is paused.
func (c *Challenges) giveImage(
	ctx context.Context, now time.Time, userID, activityID, address string, task Task,
) (Task, error) {
	// What this process can refuse by itself comes first: Redis gets no more requests than there are images.
	if !c.clicks.Any() {
		return Task{}, errNoImage
	}
	hold, err := c.held.begin(now, task.ExpiresAt, userID, address)
	if err != nil {
		return Task{}, err
	}
	if left := c.pauses.Left(ctx, now, userID, address); left > 0 {
		c.held.end(hold)
		return Task{}, paused(left)
	}
	image, points, ok := c.clicks.Take(userID)
	if !ok {
		c.held.end(hold)
		return Task{}, errNoImage
	}
	task.Click, task.ID = &image, c.seal.id(activityID, userID, content{task.Kind, task.ExpiresAt, points})
	c.held.name(hold, task.ID)
	return task, nil
}

// Verify returns a pass for a right answer. Each challenge takes one answer, right or wrong. The kind of the
// challenge is returned with a refusal, too.
func (c *Challenges) Verify(
	ctx context.Context, userID, activityID, challengeID string, a Answer,
) (Pass, error) {
	of, err := c.seal.openID(challengeID, activityID, userID)
	if err != nil {
		return Pass{}, contract.Refuse(contract.CodeNotFound, "no such challenge of this buyer and activity")
	}
	out := Pass{Kind: of.kind}
	if err := a.complete(of.kind); err != nil {
		return out, err
	}
	now := c.Sales.Now(ctx)
	if !now.Before(of.expires) {
		return out, refuseWrong("the challenge has expired; request a new one")
	}
	switch of.kind {
	case contract.ChallengeClick:
		err = c.verifyPoints(ctx, now, userID, challengeID, a, of.points)
	case contract.ChallengePow:
		if err = c.spend(ctx, challengeID); err == nil {
			err = wrongUnless(c.pow.Solved(challengeID, a.Payload))
		}
	default:
		if err = c.spend(ctx, challengeID); err == nil {
			err = c.verifyToken(ctx, activityID, challengeID, a)
		}
	}
	if err != nil {
		return out, err
	}
	out.ExpiresAt = now.Add(passTTL).Truncate(time.Second).UTC()
	out.Pass = c.seal.pass(activityID, userID, out.ExpiresAt)
	return out, nil
}

// spend refuses every answer to a challenge but the first.
func (c *Challenges) spend(ctx context.Context, challengeID string) error {
	if !c.spent.Spend(ctx, challengeID) {
		return refuseWrong("the challenge was answered before; request a new one")
	}
	return nil
}

// verifyPoints checks an answer to an image, unless its user is paused. Then the challenge stays open.
func (c *Challenges) verifyPoints(
	ctx context.Context, now time.Time, userID, challengeID string, a Answer, points Points,
) error {
	attempt, left := c.pauses.begin(ctx, now, userID, a.Address)
	if left > 0 {
		return paused(left)
	}
	o := void
	defer func() { c.pauses.end(ctx, now, attempt, o) }()
	if err := c.spend(ctx, challengeID); err != nil {
		return err
	}
	c.held.answered(challengeID)
	if o = right; !points.match(a.Points) {
		o = wrong
	}
	return wrongUnless(o == right)
}

// complete refuses an answer without the field of this kind.
func (a Answer) complete(kind contract.ChallengeKind) error {
	switch {
	case kind == contract.ChallengePow && a.Payload == "":
		return contract.InvalidField("payload", "is required for a proof of work")
	case kind == contract.ChallengeClick && len(a.Points) != clickLetters:
		return contract.InvalidField("points", "must be 4 for an image")
	case slices.ContainsFunc(a.Points, Point.outside):
		return contract.InvalidField("points", "must be in the image")
	case kind == contract.ChallengeProvider && a.Token == "":
		return contract.InvalidField("token", "is required for a widget")
	}
	return nil
}

func (c *Challenges) verifyToken(ctx context.Context, activityID, challengeID string, a Answer) error {
	err := errUnverified
	if c.provider != nil {
		err = c.provider.Verify(ctx, Token{a.Token, c.provider.Widget(activityID).Action, challengeID})
	}
	switch {
	case errors.Is(err, errTokenRefused):
		return wrongUnless(false)
	case err != nil:
		return contract.Refuse(contract.CodeUnavailable,
			"the challenge cannot be verified now; request a new one").After(time.Second)
	}
	return nil
}

// CheckPass refuses a user without a valid pass, if the activity has a challenge.
func (c *Challenges) CheckPass(ctx context.Context, userID, activityID, pass string) error {
	sale, err := c.Sales.GateState(ctx, activityID, core.MaxDecisionAge)
	if err != nil {
		return err
	}
	if !sale.Challenge.On() {
		return nil
	}
	if pass == "" {
		return required("solve the challenge first")
	}
	expires, err := c.seal.openPass(pass, activityID, userID)
	if err != nil {
		return required("the pass is not valid for this buyer and activity; solve the challenge")
	}
	if !c.Sales.Now(ctx).Before(expires) {
		return required("the pass has expired; solve the challenge again")
	}
	return nil
}

// uncounted is a refusal that does not count against its caller.
type uncounted struct{ error }

func (u uncounted) Unwrap() error { return u.error }

// errNoImage refuses a buyer for whom no image is left. A proof of work instead would cost a robot less than an image.
var errNoImage = uncounted{contract.Refuse(contract.CodeRateLimited,
	"no image is left now; request a challenge again").After(noImage)}

// paused refuses a user who was wrong. The wrong answer has counted, and the pause of an address is due to others.
func paused(left time.Duration) error {
	return uncounted{contract.Refuse(contract.CodeRateLimited, "the last answer was wrong; wait before the next one").
		After(left)}
}

func wrongUnless(right bool) error {
	if right {
		return nil
	}
	return refuseWrong("the answer is wrong; request a new challenge")
}

func refuseWrong(why string) error { return contract.Refuse(contract.CodeChallengeWrong, why) }

func required(why string) error { return contract.Refuse(contract.CodeChallengeRequired, why) }
