package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

// refused asserts the code and returns the refusal.
func refused(t *testing.T, err error, code contract.Code) *contract.Refusal {
	t.Helper()
	var r *contract.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, code, r.Code, r.Error())
	return r
}

// members returns the additional members of a refusal by name.
func members(r *contract.Refusal) (all map[string]any) {
	for _, m := range r.Members {
		if all == nil {
			all = map[string]any{}
		}
		all[m.Name] = m.Value
	}
	return all
}

func TestPathIsIssuedOnlyWhileTheSaleIsOpenAndNotSoldOut(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		code   contract.Code
		member string
	}{
		"open":                    {func(*world) {}, "", ""},
		"one SKU of two left":     {func(w *world) { w.state.Left["2"] = 0 }, "", ""},
		"not started":             {func(w *world) { w.state.StartsAt = noon.Add(time.Second) }, contract.CodeActivityNotStarted, "starts_at"},
		"window has ended":        {func(w *world) { w.state.EndsAt = noon }, contract.CodeActivityEnded, ""},
		"ended by the merchant":   {func(w *world) { w.state.State = StateEnded }, contract.CodeActivityEnded, ""},
		"paused":                  {func(w *world) { w.state.State = StatePaused }, contract.CodeActivityPaused, ""},
		"not started, paused":     {func(w *world) { w.state.State, w.state.StartsAt = StatePaused, noon.Add(time.Hour) }, contract.CodeActivityPaused, ""},
		"sold out":                {func(w *world) { w.state.Left["1"] = 0 }, contract.CodeSoldOut, ""},
		"oversold by an adoption": {func(w *world) { w.state.Left["1"] = -2 }, contract.CodeSoldOut, ""},
		"no gate, no sale":        {func(w *world) { w.state, w.hasSale = nil, false }, contract.CodeNotFound, ""},
		"gate lost":               {func(w *world) { w.state = nil }, contract.CodeGateUnavailable, ""},
		"redis not filled":        {func(w *world) { w.state, w.hasSale, w.ready = nil, false, false }, contract.CodeGateUnavailable, ""},
		"redis unavailable":       {func(w *world) { w.err = fmt.Errorf("%w: dial", ErrUnavailable) }, contract.CodeGateUnavailable, ""},
		"no worker id":            {func(w *world) { w.noLease = true }, contract.CodeUnavailable, ""},
		"redis clock is ahead":    {func(w *world) { w.offset, w.state.StartsAt = 2*time.Second, noon.Add(time.Second) }, "", ""},
		"redis clock is behind":   {func(w *world) { w.offset, w.state.StartsAt = -2*time.Second, noon.Add(-time.Second) }, contract.CodeActivityNotStarted, "starts_at"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t)
			c.change(w)
			p, err := s.IssuePath(t.Context(), "alice", "7")
			if c.code != "" {
				r := refused(t, err, c.code)
				if c.member != "" {
					require.Contains(t, members(r), c.member)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, noon.Add(w.offset).Add(PathTTL), p.ExpiresAt)
			opened, err := s.Seal.openPath(p.Path, "7", "alice")
			require.NoError(t, err)
			require.Equal(t, p.OrderSN, opened.orderSN)
		})
	}
}

func TestSaleIsPausedWhileABuyerWaits(t *testing.T) {
	w, s := newWorld(t)
	require.NoError(t, s.CheckAdmission(t.Context(), "7"))
	w.change(func() { w.now, w.state.State = w.now.Add(time.Second), StatePaused })
	_, err := s.IssuePath(t.Context(), "alice", "7")
	refused(t, err, contract.CodeActivityPaused)
}

func TestCheckSoldOutCallsNoPort(t *testing.T) {
	w, s := newWorld(t)
	require.NoError(t, s.CheckSoldOut(t.Context(), "7"), "nothing is cached yet")
	w.change(func() { w.state.Left["1"], w.state.Left["2"] = 0, 0 })
	refused(t, s.CheckAdmission(t.Context(), "7"), contract.CodeSoldOut)
	reads := w.reads
	refused(t, s.CheckSoldOut(t.Context(), "7"), contract.CodeSoldOut)
	w.change(func() { w.now = w.now.Add(time.Second) })
	require.NoError(t, s.CheckSoldOut(t.Context(), "7"), "the cached view is too old")
	require.Equal(t, reads, w.reads)

	w.change(func() { w.state.State = StatePaused })
	refused(t, s.CheckAdmission(t.Context(), "7"), contract.CodeActivityPaused)
	require.NoError(t, s.CheckSoldOut(t.Context(), "7"), "paused is not sold out")
}

func mustPath(t *testing.T, s *Service, user string) IssuedPath {
	t.Helper()
	p, err := s.IssuePath(t.Context(), user, "7")
	require.NoError(t, err)
	return p
}

func TestEachVerdictHasItsCode(t *testing.T) {
	until := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		verdict Verdict
		code    contract.Code
		members map[string]any
	}{
		"not started":   {Verdict{Outcome: NotStarted, StartsAt: until}, contract.CodeActivityNotStarted, map[string]any{"starts_at": until}},
		"ended":         {Verdict{Outcome: Ended}, contract.CodeActivityEnded, nil},
		"paused":        {Verdict{Outcome: Paused}, contract.CodeActivityPaused, nil},
		"sold out":      {Verdict{Outcome: SoldOut}, contract.CodeSoldOut, nil},
		"may return":    {Verdict{Outcome: SoldOut, MayReturnUntil: until}, contract.CodeSoldOut, map[string]any{"may_return_until": until}},
		"limit reached": {Verdict{Outcome: LimitReached, OrderSNs: []string{"1", "2"}}, contract.CodeLimitReached, map[string]any{"order_sn": "2", "order_sns": []string{"1", "2"}}},
		"no purchases":  {Verdict{Outcome: LimitReached}, contract.CodeLimitReached, nil},
		"barred":        {Verdict{Outcome: LimitReached, BarredUntil: until}, contract.CodeLimitReached, map[string]any{"barred_until": until}},
		"void path":     {Verdict{Outcome: PathVoid}, contract.CodePathExpired, nil},
		"journal full":  {Verdict{Outcome: JournalFull}, contract.CodeJournalFull, nil},
		"unknown SKU":   {Verdict{Outcome: UnknownSKU}, contract.CodeInvalidRequest, nil},
		"conflict":      {Verdict{Outcome: Conflict}, contract.CodeIdempotencyConflict, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t)
			p := mustPath(t, s, "alice")
			w.verdict = c.verdict
			_, err := s.Purchase(t.Context(), "alice", "7", p.Path, lines)
			require.Equal(t, c.members, members(refused(t, err, c.code)))
		})
	}
	t.Run("unknown", func(t *testing.T) {
		w, s := newWorld(t)
		p := mustPath(t, s, "alice")
		w.verdict = Verdict{}
		_, err := s.Purchase(t.Context(), "alice", "7", p.Path, lines)
		require.Equal(t, contract.CodeInternal, contract.CodeOf(err))
	})
}

func TestUnknownSKUIsNamed(t *testing.T) {
	w, s := newWorld(t)
	p := mustPath(t, s, "alice")
	w.verdict = Verdict{Outcome: UnknownSKU}
	unknown := []contract.Line{{SKUID: "1", Qty: 1}, {SKUID: "99", Qty: 1}}
	_, err := s.Purchase(t.Context(), "alice", "7", p.Path, unknown)
	require.Equal(t, "lines[1].sku_id", refused(t, err, contract.CodeInvalidRequest).Fields[0].Field)
}

func TestPurchaseIsAcceptedOnceAndThenKnown(t *testing.T) {
	w, s := newWorld(t)
	p := mustPath(t, s, "alice")
	got, err := s.Purchase(t.Context(), "alice", "7", p.Path, lines)
	require.NoError(t, err)
	require.True(t, got.Fresh)
	require.Equal(t, p.OrderSN, got.OrderSN)
	require.Equal(t, StatusQueued, got.Status)
	require.Equal(t, []Purchase{
		{OrderSN: p.OrderSN, UserID: "alice", Lines: lines, IssuedAt: w.IssuedAt(p.OrderSN)},
	}, w.requests)
	_, err = s.Seal.openTicket(got.Ticket, "7", p.OrderSN)
	require.NoError(t, err)

	w.verdict = Verdict{Outcome: Known}
	again, err := s.Purchase(t.Context(), "alice", "7", p.Path, lines)
	require.NoError(t, err)
	require.False(t, again.Fresh)
	require.Equal(t, got.OrderSN, again.OrderSN)
}

func TestForeignAndMalformedPathsCallNoGate(t *testing.T) {
	w, s := newWorld(t)
	p := mustPath(t, s, "alice")
	for name, try := range map[string][3]string{
		"another buyer's":    {"bob", "7", p.Path},
		"another activity's": {"alice", "8", p.Path},
		"malformed":          {"alice", "7", "x"},
	} {
		_, err := s.Purchase(t.Context(), try[0], try[1], try[2], lines)
		refused(t, err, contract.CodePathInvalid)
		require.Empty(t, w.requests, name)
	}
	t.Run("order_sn of another buyer's gene", func(t *testing.T) {
		token, err := s.Seal.path("7", "alice", "1234", noon.Add(time.Minute))
		require.NoError(t, err)
		_, err = s.Purchase(t.Context(), "alice", "7", token, lines)
		refused(t, err, contract.CodePathInvalid)
	})
	require.Zero(t, w.lookups)
}

func TestAllowanceIsCheckedBeforeAPath(t *testing.T) {
	w, s := newWorld(t)
	require.NoError(t, s.CheckAllowance(t.Context(), "alice", "7"))
	w.change(func() { w.allowed = Allowance{Used: true, OrderSNs: []string{"1", "2"}} })
	refused(t, s.CheckAllowance(t.Context(), "alice", "7"), contract.CodeLimitReached)
	for _, err := range []error{ErrUnavailable, ErrBreakerOpen} {
		w.change(func() { w.err = err })
		require.NoError(t, s.CheckAllowance(t.Context(), "alice", "7"), "the gate decides the purchase itself")
	}
	w.change(func() { w.err = ErrOverloaded })
	refused(t, s.CheckAllowance(t.Context(), "alice", "7"), contract.CodeOverloaded)
	require.Empty(t, w.requests, "nothing is reserved")
}

func TestExpiredPathReturnsKnownPurchasesOnly(t *testing.T) {
	w, s := newWorld(t)
	used, unused := mustPath(t, s, "alice"), mustPath(t, s, "alice")
	_, err := s.Purchase(t.Context(), "alice", "7", used.Path, lines)
	require.NoError(t, err)
	w.advance(PathTTL)

	_, err = s.Purchase(t.Context(), "alice", "7", unused.Path, lines)
	refused(t, err, contract.CodePathExpired)
	got, err := s.Purchase(t.Context(), "alice", "7", used.Path, lines)
	require.NoError(t, err)
	require.Equal(t, used.OrderSN, got.OrderSN)
	require.False(t, got.Fresh)
	_, err = s.Purchase(t.Context(), "alice", "7", used.Path, []contract.Line{{SKUID: "1", Qty: 2}})
	refused(t, err, contract.CodeIdempotencyConflict)
	require.Len(t, w.requests, 1, "only the first purchase calls Reserve")

	w.change(func() { w.unconfirmed = ErrUnavailable })
	_, err = s.Purchase(t.Context(), "alice", "7", used.Path, lines)
	refused(t, err, contract.CodeGateUnavailable)
	w.change(func() { w.unconfirmed, w.lost = nil, true })
	_, err = s.Purchase(t.Context(), "alice", "7", used.Path, lines)
	refused(t, err, contract.CodeGateUnavailable)
	w.change(func() { w.lost = false })

	w.change(func() { w.err = ErrUnavailable })
	_, err = s.Purchase(t.Context(), "alice", "7", unused.Path, lines)
	refused(t, err, contract.CodeGateUnavailable)
}

func TestSoldOutSaleNeedsLookupsOnly(t *testing.T) {
	w, s := newWorld(t)
	used, unused, stale := mustPath(t, s, "alice"), mustPath(t, s, "bob"), mustPath(t, s, "carol")
	_, err := s.Purchase(t.Context(), "alice", "7", used.Path, lines)
	require.NoError(t, err)
	w.verdict = Verdict{Outcome: SoldOut, MayReturnUntil: noon.Add(time.Minute)}
	_, err = s.Purchase(t.Context(), "bob", "7", unused.Path, lines)
	refused(t, err, contract.CodeSoldOut)
	require.Len(t, w.requests, 2)

	w.change(func() {
		w.state = &GateState{State: StateOpen, StartsAt: w.state.StartsAt, EndsAt: w.state.EndsAt, Left: map[string]int64{"1": 0, "2": 0}, Unpaid: map[string]time.Time{"1": noon.Add(2 * time.Minute)}}
	})
	s.Sales.refresh(t.Context())
	_, err = s.Purchase(t.Context(), "bob", "7", unused.Path, lines)
	require.Equal(t, noon.Add(2*time.Minute), members(refused(t, err, contract.CodeSoldOut))["may_return_until"],
		"from the gate state, not from an earlier verdict")
	_, err = s.IssuePath(t.Context(), "dora", "7")
	require.Equal(t, noon.Add(2*time.Minute), members(refused(t, err, contract.CodeSoldOut))["may_return_until"])
	got, err := s.Purchase(t.Context(), "alice", "7", used.Path, lines)
	require.NoError(t, err)
	require.Equal(t, used.OrderSN, got.OrderSN, "a known path returns its purchase while sold out")
	require.Len(t, w.requests, 2, "the cached gate state and a lookup decide without Reserve")
	require.Equal(t, 2, w.lookups)

	// A cached gate state that is too old is not used: the gate decides.
	w.advance(MaxDecisionAge + time.Millisecond)
	w.change(func() { w.verdict = Verdict{Outcome: Accepted} })
	_, err = s.Purchase(t.Context(), "carol", "7", stale.Path, lines)
	require.NoError(t, err)

	// Neither is it used while the sale is not open: the gate returns the right outcome.
	s.Sales.refresh(t.Context())
	w.change(func() { w.state.State = StatePaused; w.verdict = Verdict{Outcome: Paused} })
	w.advance(150 * time.Millisecond)
	s.Sales.refresh(t.Context())
	_, err = s.Purchase(t.Context(), "bob", "7", unused.Path, lines)
	refused(t, err, contract.CodeActivityPaused)
}

func TestErrorsOfTheGateHaveTheirCodes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		code   contract.Code
	}{
		"redis unavailable": {func(w *world) { w.err = fmt.Errorf("%w: x", ErrUnavailable) }, contract.CodeGateUnavailable},
		"unconfirmed":       {func(w *world) { w.err = ErrUnconfirmed }, contract.CodeGateUnavailable},
		"breaker open":      {func(w *world) { w.err = ErrBreakerOpen }, contract.CodeGateUnavailable},
		"time-out":          {func(w *world) { w.err = context.DeadlineExceeded }, contract.CodeGateUnavailable},
		"queue full":        {func(w *world) { w.err = ErrOverloaded }, contract.CodeOverloaded},
		"broken":            {func(w *world) { w.err = errors.New("WRONGTYPE") }, contract.CodeInternal},
		"unknown activity":  {func(w *world) { w.state, w.hasSale = nil, false }, contract.CodeNotFound},
		"gate lost":         {func(w *world) { w.state = nil }, contract.CodeGateUnavailable},
		"redis not filled":  {func(w *world) { w.state, w.hasSale, w.ready = nil, false, false }, contract.CodeGateUnavailable},
		"redis emptied":     {func(w *world) { w.state, w.empties = nil, true }, contract.CodeGateUnavailable},
		"redis filled":      {func(w *world) { w.state, w.hasSale, w.ready, w.fills = nil, false, false, true }, contract.CodeGateUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t)
			p := mustPath(t, s, "alice")
			w.change(func() { c.change(w) })
			_, err := s.Purchase(t.Context(), "alice", "7", p.Path, lines)
			require.Equal(t, c.code, contract.CodeOf(err))
			_, err = s.Reservation(t.Context(), "alice", "7", "1")
			require.Equal(t, c.code, contract.CodeOf(err))
		})
	}
}

// A refusal with a cause is logged. During an outage these are too many.
func TestRefusalsOfAnOutageHaveNoCause(t *testing.T) {
	for _, cause := range []error{ErrUnconfirmed, ErrBreakerOpen, context.DeadlineExceeded} {
		w, s := newWorld(t)
		p := mustPath(t, s, "alice")
		w.change(func() { w.err = cause })
		_, err := s.Purchase(t.Context(), "alice", "7", p.Path, lines)
		require.NoError(t, contract.RefusalOf(err).Cause, "%v", cause)
	}
}

func TestReservationsAreReturnedToTheirBuyerOnly(t *testing.T) {
	w, s := newWorld(t)
	for _, sn := range []string{"8", "9", "10", "11"} {
		w.held[sn] = Reservation{ActivityID: "7", OrderSN: sn, UserID: "alice", Status: StatusQueued}
	}
	w.held["12"] = Reservation{OrderSN: "12", UserID: "bob"}
	w.buyer = []string{"8", "9", "10", "11", "12"}

	_, err := s.Reservation(t.Context(), "alice", "7", "9")
	require.NoError(t, err)
	_, err = s.Reservation(t.Context(), "alice", "7", "12")
	refused(t, err, contract.CodeNotFound)
	_, err = s.Reservation(t.Context(), "alice", "7", "99")
	refused(t, err, contract.CodeNotFound)
	before := w.lookups
	_, err = s.Reservation(t.Context(), "alice", "7", "1000")
	refused(t, err, contract.CodeNotFound)
	require.Equal(t, before, w.lookups, "the order_sn carries another user's gene: no lookup")

	var seen []string
	cursor := ""
	for {
		page, err := s.Reservations(t.Context(), "alice", "7", 2, cursor)
		require.NoError(t, err)
		for _, r := range page.Items {
			seen = append(seen, r.OrderSN)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, []string{"11", "10", "9", "8"}, seen, "latest first, by number")
	_, err = s.Reservations(t.Context(), "alice", "7", 2, "x")
	refused(t, err, contract.CodeInvalidRequest)

	// What is left of the allowance is stated without a purchase too: the orders may have ended a day ago.
	w.buyer, w.allowed = nil, Allowance{BarredUntil: w.now.Add(time.Minute)}
	page, err := s.Reservations(t.Context(), "alice", "7", 2, "")
	require.NoError(t, err)
	require.Equal(t, OwnPage{BarredUntil: w.allowed.BarredUntil}, page)
}

func TestActivitiesListsOpenAndScheduledOnes(t *testing.T) {
	w, s := newWorld(t)
	page, next, err := s.Activities(t.Context(), 20, "")
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, page, 1)
	require.Equal(t, StateOpen, page[0].State)

	w.change(func() { w.state.State = StatePaused })
	page, _, err = s.Activities(t.Context(), 20, "")
	require.NoError(t, err)
	require.Len(t, page, 1, "the list may be a second old")
	w.advance(MaxDisplayAge + time.Millisecond)
	page, _, err = s.Activities(t.Context(), 20, "")
	require.NoError(t, err)
	require.Empty(t, page)

	w.advance(2 * MaxDisplayAge)
	w.change(func() { w.ready = false })
	_, _, err = s.Activities(t.Context(), 20, "")
	refused(t, err, contract.CodeGateUnavailable)
	w.change(func() { w.ready = true })
	_, _, err = s.Activities(t.Context(), 20, "%%")
	refused(t, err, contract.CodeInvalidRequest)
}

// Open sales come before scheduled ones: those that end first, then those that start first.
func TestTheOrderOfTheListOfSales(t *testing.T) {
	view := func(id string, state State, starts, ends int) ActivityView {
		at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
		return ActivityView{Sale: Sale{ActivityID: id, StartsAt: at(starts), EndsAt: at(ends)}, State: state}
	}
	ordered := []ActivityView{
		view("9", StateOpen, -1, 1), view("10", StateOpen, -9, 1), view("2", StateOpen, -9, 5),
		view("3", StateScheduled, 1, 9), view("1", StateScheduled, 2, 3),
	}
	for i, a := range ordered {
		got, err := openCursor(placeOf(a).cursor())
		require.NoError(t, err)
		for j, b := range ordered {
			require.Equal(t, cmp.Compare(i, j), placeOf(a).compare(placeOf(b)), "%s and %s", a.ActivityID, b.ActivityID)
			require.Equal(t, cmp.Compare(i, j), got.compare(placeOf(b)), "by the cursor")
		}
	}
	for _, bad := range []string{"", "x", "MQ", "cw", place{id: "x"}.cursor()} {
		_, err := openCursor(bad)
		require.Error(t, err, bad)
	}
}

func TestMayReturnUntil(t *testing.T) {
	soon, end := noon.Add(time.Minute), noon.Add(time.Hour)
	l := GateState{
		EndsAt: end, Left: map[string]int64{"1": 0, "2": 0, "3": 0, "4": 5},
		Unpaid: map[string]time.Time{"1": soon, "2": {}, "4": noon.Add(-time.Minute)},
	}
	line := func(skus ...string) (list []contract.Line) {
		for _, sku := range skus {
			list = append(list, contract.Line{SKUID: sku, Qty: 1})
		}
		return list
	}
	require.Equal(t, soon, l.mayReturnUntil(noon, line("1")))
	require.Equal(t, end, l.mayReturnUntil(noon, line("2")), "no deadline is known")
	require.Equal(t, soon, l.mayReturnUntil(noon, line("2", "1", "4")), "the earliest of the lines")
	require.Zero(t, l.mayReturnUntil(noon, line("1", "3")), "the third has no unpaid units")
	require.Equal(t, end, l.mayReturnUntil(noon, nil), "the latest of any SKU")
	require.Equal(t, end, l.mayReturnUntil(soon, line("1")), "the known deadline has passed")
	require.Zero(t, GateState{EndsAt: end}.mayReturnUntil(noon, nil))
}
