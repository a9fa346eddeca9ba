package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"flashsale.internal/pkg/contract"
)

// Lifetimes of paths and tickets.
const (
	PathTTL   = 5 * time.Minute
	TicketTTL = 5 * time.Minute
)

// Deps are the dependencies of a Service.
type Deps struct {
	Purchases Purchases
	Sales     *SaleCache
	Feed      *Feed
	SNs       OrderSNs
	Seal      *Seal
	// AdmitPath reports whether a path of an activity may be issued now; nil: each may.
	AdmitPath func(activityID string) bool
	// CallerWait bounds the time that a caller waits for a list. Purchases itself bounds the wait for a single purchase.
	CallerWait time.Duration
}

// Service implements the rules of the purchase path.
type Service struct{ Deps }

// NewService returns a Service.
func NewService(d Deps) *Service { return &Service{d} }

// ActivityView is an activity as a buyer sees it at ServerTime.
type ActivityView struct {
	Sale
	State      State
	ServerTime time.Time
	Left       map[string]int64
	// MayReturnUntil is the time until which unpaid units may be released, if no unit is left. It is zero if there are
	// none, or units are left.
	MayReturnUntil   time.Time
	Challenge        bool  // buyers solve a challenge
	RoomRate         int64 // of the waiting room; 0 without one
	RoomOpensAt      time.Time
	ChallengeOpensAt time.Time // zero with a waiting room: then challenges open at admission
}

func (v *view) at(now time.Time) ActivityView {
	sale := v.Sale
	// The gate decides by its own window, so that is the one to show.
	sale.StartsAt, sale.EndsAt = v.GateState.StartsAt, v.GateState.EndsAt
	a := ActivityView{Sale: sale, State: v.StateAt(now), ServerTime: now, Left: v.Left, RoomRate: v.GateState.RoomRate}
	a.Challenge = v.GateState.Challenge.On()
	a.RoomOpensAt = v.GateState.RoomOpensAt()
	if v.GateState.Challenge.On() && a.RoomRate == 0 {
		a.ChallengeOpensAt = v.GateState.ChallengesOpenAt()
	}
	if a.State != StateEnded && v.allSoldOut() {
		a.MayReturnUntil = v.mayReturnUntil(now, nil)
	}
	return a
}

// Activities returns a page of the sales: open ones, the one that ends first before the others, then scheduled ones by
// their start. The page starts after the place that cursor names, or with the first sale if cursor is empty.
func (s *Service) Activities(
	ctx context.Context, limit int, cursor string,
) (page []ActivityView, next string, err error) {
	all, err := s.Sales.list(ctx)
	if err != nil {
		return nil, "", s.Sales.Refusal(ctx, "", err)
	}
	now := s.Sales.Now(ctx)
	var shown []ActivityView
	for i := range all {
		if v := all[i].at(now); v.State == StateOpen || v.State == StateScheduled {
			shown = append(shown, v)
		}
	}
	slices.SortFunc(shown, func(a, b ActivityView) int { return placeOf(a).compare(placeOf(b)) })
	if cursor != "" {
		after, err := openCursor(cursor)
		if err != nil {
			return nil, "", contract.InvalidField("cursor", "is not a cursor of this list")
		}
		shown = shown[sort.Search(len(shown), func(i int) bool { return placeOf(shown[i]).compare(after) > 0 }):]
	}
	if len(shown) > limit {
		shown = shown[:limit]
		next = placeOf(shown[limit-1]).cursor()
	}
	return shown, next, nil
}

// Activity returns one sale, at most MaxDisplayAge old.
func (s *Service) Activity(ctx context.Context, activityID string) (ActivityView, error) {
	v, err := s.Sales.get(ctx, activityID, MaxDisplayAge)
	if err != nil {
		return ActivityView{}, s.Sales.Refusal(ctx, activityID, err)
	}
	return v.at(s.Sales.Now(ctx)), nil
}

// Now returns Redis time, which decides whether a sale is open, by the cached offset.
func (s *Service) Now(ctx context.Context) time.Time { return s.Sales.Now(ctx) }

// IssuedPath is the permission for one purchase.
type IssuedPath struct {
	Path, OrderSN string
	ExpiresAt     time.Time
}

// IssuePath issues a path to a user while the sale is open and has units left. It calls CheckAdmission again, because
// the sale may have been paused or sold out while this caller waited for its turn.
func (s *Service) IssuePath(ctx context.Context, userID, activityID string) (IssuedPath, error) {
	if err := s.CheckAdmission(ctx, activityID); err != nil {
		return IssuedPath{}, err
	}
	if s.AdmitPath != nil && !s.AdmitPath(activityID) {
		return IssuedPath{}, contract.Refuse(contract.CodeRateLimited,
			"the sale is slowed down; request a path later").After(time.Second)
	}
	orderSN, err := s.SNs.Next(userID)
	if errors.Is(err, ErrNoLease) {
		return IssuedPath{}, contract.Refuse(contract.CodeUnavailable,
			"no order numbers can be issued now").Because(err)
	}
	if err != nil {
		return IssuedPath{}, fmt.Errorf("issue order_sn: %w", err)
	}
	expires := s.Sales.Now(ctx).Add(PathTTL).Truncate(time.Second).UTC()
	p, err := s.Seal.path(activityID, userID, orderSN, expires)
	if err != nil {
		return IssuedPath{}, fmt.Errorf("seal path: %w", err)
	}
	return IssuedPath{Path: p, OrderSN: orderSN, ExpiresAt: expires}, nil
}

// CheckSoldOut refuses if the cache holds a view of the sale that is fresh enough to decide, and that view is open and
// sold out. It never calls Redis: it refuses the many late buyers of a sale at the lowest cost.
func (s *Service) CheckSoldOut(ctx context.Context, activityID string) error {
	v := s.Sales.fresh(activityID)
	if v == nil || !v.allSoldOut() {
		return nil
	}
	now := s.Sales.Now(ctx)
	if v.StateAt(now) != StateOpen {
		return nil
	}
	return soldOut(v.mayReturnUntil(now, nil), now)
}

// CheckStarted refuses a call before the start of the sale, by the cached sale and the cached offset of Redis time.
func (s *Service) CheckStarted(ctx context.Context, activityID string) error {
	g, err := s.Sales.GateState(ctx, activityID, MaxDecisionAge)
	if err != nil {
		return err
	}
	now := s.Sales.Now(ctx)
	if !now.Before(g.StartsAt) {
		return nil
	}
	return g.checkOpen(now)
}

// CheckAdmission refuses a sale that is not open or is sold out, by the cached sale. The gate decides the purchase
// itself.
func (s *Service) CheckAdmission(ctx context.Context, activityID string) error {
	g, err := s.Sales.GateState(ctx, activityID, MaxDecisionAge)
	if err != nil {
		return err
	}
	now := s.Sales.Now(ctx)
	if err := g.checkOpen(now); err != nil {
		return err
	}
	if g.allSoldOut() {
		return soldOut(g.mayReturnUntil(now, nil), now)
	}
	return nil
}

// CheckAllowance refuses a user who holds as many units as the sale allows, or whose allowance is over for a while. It
// reads the gate and writes nothing. A gate that does not respond refuses no user: it decides the purchase itself, and
// the other checks refuse requests during an outage.
func (s *Service) CheckAllowance(ctx context.Context, userID, activityID string) error {
	a, err := s.Purchases.Allowance(ctx, activityID, userID)
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrBreakerOpen), errors.Is(err, context.DeadlineExceeded):
		return nil
	case err != nil:
		return s.Sales.Refusal(ctx, activityID, err)
	case a.Used:
		return limitReached(a.OrderSNs, a.BarredUntil)
	}
	return nil
}

// checkOpen returns the refusal of a sale that is not open at now, or nil.
func (g GateState) checkOpen(now time.Time) error {
	switch g.StateAt(now) {
	case StateEnded:
		return RefuseEnded()
	case StatePaused:
		return paused()
	case StateScheduled:
		return notStarted(g.StartsAt)
	case StateOpen:
	}
	return nil
}

// Purchased is the result of a purchase.
type Purchased struct {
	Reservation
	Fresh  bool   // accepted by this call, not an earlier one
	Ticket string // for the event stream of its status
}

// Purchase reserves units by a path. For a path that was used before it returns the present state of that purchase,
// also if the path has expired or the sale is sold out or has ended.
func (s *Service) Purchase(
	ctx context.Context, userID, activityID, token string, lines []contract.Line,
) (Purchased, error) {
	p, err := s.Seal.openPath(token, activityID, userID)
	if err != nil || !s.SNs.Belongs(p.orderSN, userID) {
		return Purchased{}, contract.Refuse(contract.CodePathInvalid,
			"this path is not valid for this buyer and activity")
	}
	now := s.Sales.Now(ctx)
	if !now.Before(p.expires) {
		return s.repeated(ctx, activityID, p.orderSN, userID, lines, func() error {
			return contract.Refuse(contract.CodePathExpired, "this path has expired; request a new one")
		})
	}
	if v := s.Sales.fresh(activityID); v != nil && v.StateAt(now) == StateOpen && v.anySoldOut(lines) {
		return s.repeated(ctx, activityID, p.orderSN, userID, lines, func() error {
			return soldOut(v.mayReturnUntil(now, lines), now)
		})
	}
	v, err := s.Purchases.Reserve(ctx, activityID, Purchase{
		OrderSN: p.orderSN, UserID: userID, Lines: lines, IssuedAt: s.SNs.IssuedAt(p.orderSN),
	})
	if err != nil {
		return Purchased{}, s.Sales.Refusal(ctx, activityID, err)
	}
	s.Sales.track(activityID)
	//exhaustive:enforce
	switch v.Outcome {
	case Accepted, Known:
		return s.purchased(ctx, v.Reservation, v.Outcome == Accepted), nil
	case Conflict:
		return Purchased{}, otherLines()
	case NotStarted:
		return Purchased{}, notStarted(v.StartsAt)
	case Ended:
		return Purchased{}, RefuseEnded()
	case Paused:
		return Purchased{}, paused()
	case SoldOut:
		return Purchased{}, soldOut(v.MayReturnUntil, s.Sales.Now(ctx))
	case LimitReached:
		return Purchased{}, limitReached(v.OrderSNs, v.BarredUntil)
	case PathVoid:
		return Purchased{}, pathVoid()
	case JournalFull:
		return Purchased{}, contract.Refuse(contract.CodeJournalFull,
			"too many purchases wait to be processed; no units were taken").After(time.Second)
	case UnknownSKU:
		return Purchased{}, s.unknownSKU(activityID, lines)
	}
	return Purchased{}, fmt.Errorf("unknown outcome %d from the gate", v.Outcome)
}

// repeated returns the purchase of an order_sn that the gate has already, and otherwise the refusal.
func (s *Service) repeated(
	ctx context.Context, activityID, orderSN, userID string, lines []contract.Line, refuse func() error,
) (Purchased, error) {
	r, found, err := s.Purchases.Lookup(ctx, activityID, orderSN)
	if err != nil {
		return Purchased{}, s.Sales.Refusal(ctx, activityID, err)
	}
	if !found {
		return Purchased{}, refuse()
	}
	if r.Status == StatusQueued {
		if r, found, err = s.Purchases.Confirm(ctx, r); err != nil {
			return Purchased{}, s.Sales.Refusal(ctx, activityID, err)
		}
		if !found { // in a failover after Lookup
			return Purchased{}, unknownOutcome(nil)
		}
	}
	if r.UserID != userID || !contract.SameLines(r.Lines, lines) {
		return Purchased{}, otherLines()
	}
	return s.purchased(ctx, r, false), nil
}

func (s *Service) purchased(ctx context.Context, r Reservation, fresh bool) Purchased {
	return Purchased{r, fresh, s.Ticket(ctx, r)}
}

// Ticket returns a new ticket for the event stream of a purchase, which opens it for TicketTTL.
func (s *Service) Ticket(ctx context.Context, r Reservation) string {
	return s.Seal.ticket(r.ActivityID, r.UserID, r.OrderSN, s.Sales.Now(ctx).Add(TicketTTL))
}

// Reservation returns a purchase of this user. It does not look up an order_sn with another user's gene.
func (s *Service) Reservation(ctx context.Context, userID, activityID, orderSN string) (Reservation, error) {
	if !s.SNs.Belongs(orderSN, userID) {
		return Reservation{}, noReservation()
	}
	r, found, err := s.Purchases.Lookup(ctx, activityID, orderSN)
	if err != nil {
		return Reservation{}, s.Sales.Refusal(ctx, activityID, err)
	}
	if !found || r.UserID != userID {
		return Reservation{}, noReservation()
	}
	return r, nil
}

// Reservations returns a page of a user's purchases in an activity, latest first. The page starts after the order_sn in
// cursor, or with the latest purchase if cursor is empty.
func (s *Service) Reservations(
	ctx context.Context, userID, activityID string, limit int, cursor string,
) (OwnPage, error) {
	if cursor != "" && !contract.ValidID(cursor) {
		return OwnPage{}, contract.InvalidField("cursor", "is not a cursor of this list")
	}
	ctx, cancel := context.WithTimeout(ctx, s.CallerWait)
	defer cancel()
	own, err := s.Purchases.OfUser(ctx, activityID, userID)
	if err != nil {
		return OwnPage{}, s.Sales.Refusal(ctx, activityID, err)
	}
	page := OwnPage{CancellationsLeft: own.CancellationsLeft, BarredUntil: own.BarredUntil}
	sns := own.OrderSNs
	// order_sns rise with time: they give the order of the list, and one of them can be the cursor.
	slices.SortFunc(sns, func(a, b string) int { return compareNumbers(b, a) })
	start := 0
	if cursor != "" {
		start = sort.Search(len(sns), func(i int) bool { return compareNumbers(sns[i], cursor) < 0 })
	}
	sns = sns[start:]
	if len(sns) > limit {
		sns = sns[:limit]
		page.Next = sns[limit-1]
	}
	if len(sns) == 0 {
		return page, nil
	}
	found, err := s.Purchases.LookupAll(ctx, activityID, sns)
	if err != nil {
		return OwnPage{}, s.Sales.Refusal(ctx, activityID, err)
	}
	for _, sn := range sns {
		if r, ok := found[sn]; ok && r.UserID == userID {
			page.Items = append(page.Items, r)
		}
	}
	return page, nil
}

// Follow opens a stream of the status of a purchase for the holder of a ticket. If the status is terminal already, it
// returns a nil stream.
func (s *Service) Follow(ctx context.Context, activityID, orderSN, token string) (Reservation, *Stream, error) {
	t, err := s.Seal.openTicket(token, activityID, orderSN)
	if err != nil || !s.Sales.Now(ctx).Before(t.expires) {
		return Reservation{}, nil, contract.Refuse(contract.CodeUnauthenticated,
			"the ticket is missing, wrong or expired; read the reservation instead")
	}
	// The stream is opened before the lookup, so that the bound of streams also bounds the lookups.
	stream, err := s.Feed.newStream(activityID, orderSN, t.userID)
	if err != nil {
		return Reservation{}, nil, err
	}
	r, err := s.Reservation(ctx, t.userID, activityID, orderSN)
	if err != nil || r.Status.Terminal() {
		stream.Close()
		return r, nil, err
	}
	stream.begin(r)
	return r, stream, nil
}
