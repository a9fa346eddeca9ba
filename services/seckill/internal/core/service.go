package core

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"flashsale.internal/pkg/contract"
)

// How long a path and a ticket live.
const (
	PathTTL   = 5 * time.Minute
	TicketTTL = 5 * time.Minute
)

// Deps is what the rules need.
type Deps struct {
	Gate  Gate
	Watch *Watch
	Feed  *Feed
	SNs   OrderSNs
	Seal  *Seal
	// CallerWait bounds how long a caller waits for a list. Gate bounds the waiting for a single purchase by itself.
	CallerWait time.Duration
}

// Service answers buyers.
type Service struct{ Deps }

// NewService starts nothing.
func NewService(d Deps) *Service { return &Service{d} }

// ActivityView is an activity as a buyer sees it at a moment.
type ActivityView struct {
	Sale
	State      State
	ServerTime time.Time
	Left       map[string]int64
}

func (v *view) at(now time.Time) ActivityView {
	shown := v.Sale
	// The gate's window is the one that holds.
	shown.StartsAt, shown.EndsAt = v.Level.StartsAt, v.Level.EndsAt
	return ActivityView{Sale: shown, State: v.StateAt(now), ServerTime: now, Left: v.Left}
}

// Activities lists open and scheduled sales by their start, from after the sale named by cursor.
func (s *Service) Activities(ctx context.Context, limit int, cursor string) (page []ActivityView, next string, err error) {
	all, err := s.Watch.sales(ctx)
	if err != nil {
		return nil, "", s.refusal(ctx, "", err)
	}
	now := s.Watch.clock(ctx)
	var shown []ActivityView
	for i := range all {
		if v := all[i].at(now); v.State == StateOpen || v.State == StateScheduled {
			shown = append(shown, v)
		}
	}
	sort.Slice(shown, func(i, j int) bool { return earlier(shown[i].Sale, shown[j].Sale) })
	if cursor != "" {
		after, err := openCursor(cursor)
		if err != nil {
			return nil, "", contract.InvalidField("cursor", "is not a cursor of this list")
		}
		shown = shown[sort.Search(len(shown), func(i int) bool { return earlier(after, shown[i].Sale) }):]
	}
	if len(shown) > limit {
		shown = shown[:limit]
		next = cursorOf(shown[limit-1].Sale)
	}
	return shown, next, nil
}

// Activity shows one sale.
func (s *Service) Activity(ctx context.Context, activityID string) (ActivityView, error) {
	v, err := s.Watch.get(ctx, activityID, showAge)
	if err != nil {
		return ActivityView{}, s.refusal(ctx, activityID, err)
	}
	return v.at(s.Watch.clock(ctx)), nil
}

// IssuedPath is the permission for one purchase.
type IssuedPath struct {
	Path, OrderSN string
	ExpiresAt     time.Time
}

// IssuePath gives a user a path while the sale is open and something is left. The sale may have been paused or sold out
// while this caller waited for its turn, so it is asked again whether the sale Admits.
func (s *Service) IssuePath(ctx context.Context, userID, activityID string) (IssuedPath, error) {
	if err := s.Admits(ctx, activityID); err != nil {
		return IssuedPath{}, err
	}
	orderSN, err := s.SNs.Next(userID)
	if errors.Is(err, ErrNoLease) {
		return IssuedPath{}, contract.Refuse(contract.CodeUnavailable, "no order numbers can be issued at the moment").Because(err)
	}
	if err != nil {
		return IssuedPath{}, fmt.Errorf("issue order_sn: %w", err)
	}
	expires := s.Watch.clock(ctx).Add(PathTTL).Truncate(time.Second).UTC()
	p, err := s.Seal.path(activityID, userID, orderSN, expires)
	if err != nil {
		return IssuedPath{}, fmt.Errorf("seal path: %w", err)
	}
	return IssuedPath{Path: p, OrderSN: orderSN, ExpiresAt: expires}, nil
}

// Flagged says that nothing is left of a sale, if this process knows it for certain without asking anybody. It is what the
// many are told who come when all is over, before anything else is spent on them.
func (s *Service) Flagged(ctx context.Context, activityID string) error {
	v := s.Watch.fresh(activityID)
	if v == nil || !v.lacksAll() {
		return nil
	}
	now := s.Watch.clock(ctx)
	if v.StateAt(now) != StateOpen {
		return nil
	}
	return soldOut(v.mayReturn(now, nil), now)
}

// Begun refuses a call that comes before the sale starts, by the cached activity and the cached offset to Redis time.
func (s *Service) Begun(ctx context.Context, activityID string) error {
	v, err := s.Watch.get(ctx, activityID, flagAge)
	if err != nil {
		return s.refusal(ctx, activityID, err)
	}
	now := s.Watch.clock(ctx)
	if !now.Before(v.Level.StartsAt) {
		return nil
	}
	return v.closed(now)
}

// Admits decides by what this process knows of the sale. The gate has the last word on the purchase itself.
func (s *Service) Admits(ctx context.Context, activityID string) error {
	v, err := s.Watch.get(ctx, activityID, flagAge)
	if err != nil {
		return s.refusal(ctx, activityID, err)
	}
	now := s.Watch.clock(ctx)
	if err := v.closed(now); err != nil {
		return err
	}
	if v.lacksAll() {
		return soldOut(v.mayReturn(now, nil), now)
	}
	return nil
}

// closed is the refusal of a sale that is not open at now; nil when it is open.
func (v *view) closed(now time.Time) error {
	switch v.StateAt(now) {
	case StateEnded:
		return ended()
	case StatePaused:
		return paused()
	case StateScheduled:
		return notStarted(v.Level.StartsAt)
	case StateOpen:
	}
	return nil
}

// Purchased is the answer to a purchase.
type Purchased struct {
	Reservation
	Fresh  bool   // accepted by this very call
	Ticket string // for the stream of its results
}

// Purchase asks for the pieces of a path. Posting a known path again answers what became of it, whatever has happened
// to the path or the sale meanwhile.
func (s *Service) Purchase(ctx context.Context, userID, activityID, token string, lines []contract.Line) (Purchased, error) {
	p, err := s.Seal.openPath(token, activityID, userID)
	if err != nil || !s.SNs.Belongs(p.orderSN, userID) {
		return Purchased{}, contract.Refuse(contract.CodePathInvalid, "this path is not valid for this buyer and activity")
	}
	now := s.Watch.clock(ctx)
	if !now.Before(p.expires) {
		return s.known(ctx, activityID, p.orderSN, userID, lines, func() error {
			return contract.Refuse(contract.CodePathExpired, "this path has expired; ask for another one")
		})
	}
	if v := s.Watch.fresh(activityID); v != nil && v.StateAt(now) == StateOpen && v.lacksAny(lines) {
		return s.known(ctx, activityID, p.orderSN, userID, lines, func() error {
			return soldOut(v.mayReturn(now, lines), now)
		})
	}
	v, err := s.Gate.Reserve(ctx, activityID, Purchase{OrderSN: p.orderSN, UserID: userID, Lines: lines})
	if err != nil {
		return Purchased{}, s.refusal(ctx, activityID, err)
	}
	s.Watch.learn(activityID)
	switch v.Outcome {
	case Accepted, Known:
		return s.purchased(ctx, v.Reservation, v.Outcome == Accepted), nil
	case Conflict:
		return Purchased{}, otherPurchase()
	case NotStarted:
		return Purchased{}, notStarted(v.StartsAt)
	case Ended:
		return Purchased{}, ended()
	case Paused:
		return Purchased{}, paused()
	case SoldOut:
		return Purchased{}, soldOut(v.MayReturnUntil, s.Watch.clock(ctx))
	case LimitReached:
		return Purchased{}, limitReached(v.OrderSNs)
	case JournalFull:
		return Purchased{}, contract.Refuse(contract.CodeJournalFull, "too many purchases wait to be processed; nothing was taken").After(time.Second)
	case UnknownSKU:
		return Purchased{}, s.unknownSKU(activityID, lines)
	}
	return Purchased{}, fmt.Errorf("the gate answered outcome %d", v.Outcome)
}

// known answers a purchase that may only be a repetition.
func (s *Service) known(ctx context.Context, activityID, orderSN, userID string, lines []contract.Line, otherwise func() error) (Purchased, error) {
	r, found, err := s.Gate.Lookup(ctx, activityID, orderSN)
	if err != nil {
		return Purchased{}, s.refusal(ctx, activityID, err)
	}
	if !found {
		return Purchased{}, otherwise()
	}
	if r.UserID != userID || !contract.SameLines(r.Lines, lines) {
		return Purchased{}, otherPurchase()
	}
	return s.purchased(ctx, r, false), nil
}

func (s *Service) purchased(ctx context.Context, r Reservation, fresh bool) Purchased {
	expires := s.Watch.clock(ctx).Add(TicketTTL)
	return Purchased{r, fresh, s.Seal.ticket(r.ActivityID, r.UserID, r.OrderSN, expires)}
}

// Reservation shows a purchase to its buyer. An order_sn that carries another user's gene is not looked up.
func (s *Service) Reservation(ctx context.Context, userID, activityID, orderSN string) (Reservation, error) {
	if !s.SNs.Belongs(orderSN, userID) {
		return Reservation{}, noReservation()
	}
	r, found, err := s.Gate.Lookup(ctx, activityID, orderSN)
	if err != nil {
		return Reservation{}, s.refusal(ctx, activityID, err)
	}
	if !found || r.UserID != userID {
		return Reservation{}, noReservation()
	}
	return r, nil
}

// Reservations shows a buyer's purchases in an activity, latest first, from after the order_sn named by cursor.
func (s *Service) Reservations(ctx context.Context, userID, activityID string, limit int, cursor string) (page []Reservation, next string, err error) {
	if cursor != "" && !contract.ValidID(cursor) {
		return nil, "", contract.InvalidField("cursor", "is not a cursor of this list")
	}
	ctx, cancel := context.WithTimeout(ctx, s.CallerWait)
	defer cancel()
	sns, err := s.Gate.Buyer(ctx, activityID, userID)
	if err != nil {
		return nil, "", s.refusal(ctx, activityID, err)
	}
	// Order numbers rise with time, so their order is the order of the list and one of them can be its cursor.
	sort.Slice(sns, func(i, j int) bool { return numberLess(sns[j], sns[i]) })
	start := 0
	if cursor != "" {
		start = sort.Search(len(sns), func(i int) bool { return numberLess(sns[i], cursor) })
	}
	sns = sns[start:]
	if len(sns) > limit {
		sns = sns[:limit]
		next = sns[limit-1]
	}
	if len(sns) == 0 {
		return nil, "", nil
	}
	held, err := s.Gate.LookupAll(ctx, activityID, sns)
	if err != nil {
		return nil, "", s.refusal(ctx, activityID, err)
	}
	for _, sn := range sns {
		if r, ok := held[sn]; ok && r.UserID == userID {
			page = append(page, r)
		}
	}
	return page, next, nil
}

// Follow opens the stream of a purchase's results to the holder of a ticket. A purchase that is over has none: it
// comes back with a nil stream.
func (s *Service) Follow(ctx context.Context, activityID, orderSN, token string) (Reservation, *Stream, error) {
	t, err := s.Seal.openTicket(token, activityID, orderSN)
	if err != nil || !s.Watch.clock(ctx).Before(t.expires) {
		return Reservation{}, nil, contract.Refuse(contract.CodeUnauthenticated, "the ticket is missing, wrong or expired; ask for the reservation instead")
	}
	// The place comes first, so that the look-up is bounded with it.
	stream, err := s.Feed.open(activityID, orderSN, t.userID)
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
