package merchants

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// Suspect holds the refused requests of an address or a user, by cause. The counts are lower bounds: the gate keeps a
// bounded number of keys.
type Suspect struct {
	Key                                               string // an IPv4 address, the /64 of an IPv6 address, or a user id
	Early, RateLimited, FailedChallenges, VoidedPaths int64
}

// RefusedRequests are the refused path, challenge and purchase requests to an activity, as the gate counts them.
type RefusedRequests struct {
	ByCode           map[string]int64 // path and purchase requests
	Solved, Failed   int64            // challenges
	Addresses, Users []Suspect        // those with most refused requests
}

// EndedHolds are the reservations of a user that ended unpaid.
type EndedHolds struct {
	UserID             string
	Expired, Cancelled int64
}

// SuspectUser is what is known against a user of an activity.
type SuspectUser struct {
	Suspect
	EndedHolds
	Purchases int64 // reservations that hold units
}

// Suspects are the suspects of an activity, the most severe first.
type Suspects struct {
	AsOf      time.Time
	Requests  *RefusedRequests // nil: Redis is unavailable, and the users are those of the ledger
	Addresses []Suspect
	Users     []SuspectUser
}

// SuspectCause is a cause for which a user is a suspect.
type SuspectCause string

// The causes.
const (
	CauseEarly           SuspectCause = "early"
	CauseRateLimited     SuspectCause = "rate_limited"
	CauseFailedChallenge SuspectCause = "failed_challenges"
	CauseVoidedPaths     SuspectCause = "voided_paths"
	CauseEndedHolds      SuspectCause = "ended_holds" // expired or cancelled
)

// The thresholds of the review: from this number on a cause makes a user a suspect. The page of a buyer stays below
// them: it lights its button at the start, and waits after a refusal for longer than the limits by user require. Ended
// holds are one more than the default reorder limit allows.
var thresholds = []struct {
	cause SuspectCause
	from  int64
	count func(u *SuspectUser) int64
}{
	{CauseEarly, 20, func(u *SuspectUser) int64 { return u.Early }},
	{CauseRateLimited, 50, func(u *SuspectUser) int64 { return u.RateLimited }},
	{CauseFailedChallenge, 10, func(u *SuspectUser) int64 { return u.FailedChallenges }},
	{CauseVoidedPaths, 5, func(u *SuspectUser) int64 { return u.VoidedPaths }},
	{CauseEndedHolds, 3, func(u *SuspectUser) int64 { return u.Expired + u.Cancelled }},
}

// Causes returns the causes for which a user is a suspect, none for most users.
func (u *SuspectUser) Causes() []SuspectCause {
	var list []SuspectCause
	for _, t := range thresholds {
		if t.count(u) >= t.from {
			list = append(list, t.cause)
		}
	}
	return list
}

// severity adds up the counts in units of their thresholds.
func (u *SuspectUser) severity() float64 {
	var sum float64
	for _, t := range thresholds {
		sum += float64(t.count(u)) / float64(t.from)
	}
	return sum
}

const (
	// suspectsRest is how long suspects are cached at least, as seckill adds its counts every 5 s.
	suspectsRest = 5 * time.Second
	// leastEndedHolds is the number of ended holds from which users are read from the ledger.
	leastEndedHolds = 2
	// maxEndedHolds bounds the users that are read from the ledger.
	maxEndedHolds = 500
)

// Suspects returns the suspects of an activity. They may be as old as ReservationCounts, or 5 s if that is
// longer. It refuses with not_found if the scope has no such activity.
func (s *Service) Suspects(ctx context.Context, in core.Scope, activityID string) (Suspects, error) {
	if _, err := s.Activity(ctx, in, activityID); err != nil {
		return Suspects{}, err
	}
	return s.suspects.get(ctx, activityID, s.clock, suspectsRest, func() (Suspects, error) {
		return s.readSuspects(ctx, activityID)
	})
}

func (s *Service) readSuspects(ctx context.Context, activityID string) (a Suspects, err error) {
	if a.AsOf, err = s.Deps.Activities.Now(ctx); err != nil {
		return Suspects{}, err
	}
	holds, err := s.Rows.EndedHolds(ctx, activityID, leastEndedHolds, maxEndedHolds)
	if err != nil {
		return Suspects{}, err
	}
	users := map[string]*SuspectUser{}
	requests, err := s.Gate.RefusedRequests(ctx, activityID)
	if err != nil {
		s.Recorder.Warn(ctx, "refused requests of an activity could not be read", err)
	} else {
		a.Requests, a.Addresses = &requests, slices.Clone(requests.Addresses)
		for _, one := range requests.Users {
			users[one.Key] = &SuspectUser{Suspect: one}
		}
	}
	for _, h := range holds {
		if users[h.UserID] == nil {
			users[h.UserID] = &SuspectUser{Suspect: Suspect{Key: h.UserID}}
		}
		users[h.UserID].EndedHolds = h
	}
	purchases, err := s.Rows.PurchasesOf(ctx, activityID, slices.Sorted(maps.Keys(users)))
	if err != nil {
		return Suspects{}, err
	}
	for id, u := range users {
		u.UserID, u.Purchases = id, purchases[id]
		a.Users = append(a.Users, *u)
	}
	slices.SortFunc(a.Users, func(x, y SuspectUser) int {
		return cmp.Or(cmp.Compare(y.severity(), x.severity()), strings.Compare(x.Key, y.Key))
	})
	slices.SortFunc(a.Addresses, func(x, y Suspect) int {
		of := func(s Suspect) float64 { return (&SuspectUser{Suspect: s}).severity() }
		return cmp.Or(cmp.Compare(of(y), of(x)), strings.Compare(x.Key, y.Key))
	})
	return a, nil
}
