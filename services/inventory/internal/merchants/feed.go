package merchants

import (
	"context"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// A feed has the rows of the ledger by the times of their changes, oldest first, as of the beginning of its first page.
// Later changes are those of the next feed, which begins FeedOverlap before that time: a transaction stamps its rows
// before it commits, so a row may appear behind a page that was read. The rows of an activity are stamped under the
// locks of its stock. So the overlap has to cover the time from the stamp to the commit, and how far the clock of the
// database went back.

// Bounds of one page.
const (
	FeedScan  = 2000 // activities whose latest change is read
	FeedSales = 100  // activities whose rows are merged; the others follow in later pages

	// FeedOverlap is by how much NextSince is before the beginning of a feed.
	FeedOverlap = time.Minute

	feedRows  = 8  // rows of the index that are read for each row of the page, at most
	feedLeast = 20 // rows of the index that are read of an activity and state
)

// ChangedRows reads the ledger by the times of changes.
type ChangedRows interface {
	// ChangedActivities returns at most FeedSales activities after an id, in the order of ids, that end after endAfter and
	// have a row that changed at since or later. It reads at most FeedScan of those that end then. end is the id up to which
	// it has read, "" if there are no more.
	ChangedActivities(
		ctx context.Context, in core.Scope, after string, since, endAfter time.Time,
	) (ids []string, end string, err error)
	// Changes returns for each stream its rows after a place and until a time, by place, at most limit of each.
	Changes(
		ctx context.Context, streams []ChangeStream, after core.ReservationPlace, until time.Time, limit int,
	) (map[ChangeStream][]core.ReservationPlace, error)
	// ReadableReservations returns those that cannot be read completely as broken.
	ReadableReservations(
		ctx context.Context, orderSNs []string,
	) (rows map[string]ledger.Row, broken []ledger.Row, err error)
	ActivitiesByID(ctx context.Context, ids []string) (map[string]core.Activity, error)
}

// ChangeStream is a range of the index by activity, state and time of change.
type ChangeStream struct {
	ActivityID string
	State      ledger.State
}

var feedStates = []ledger.State{ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected}

// FeedRequest selects a page of at most Limit rows.
type FeedRequest struct {
	In         core.Scope
	ActivityID string // of one activity, which belongs to the scope; "" for all of the scope
	Since      time.Time
	EndAfter   time.Time // leaves out activities that ended before
	Limit      int
	From       FeedPlace // the zero value for the first page
	// Unknown returns those of the places of a page whose rows the caller needs; nil for all.
	Unknown func(ctx context.Context, places []core.ReservationPlace) ([]core.ReservationPlace, error)
}

// FeedPlace is where a page begins.
type FeedPlace struct {
	Began    time.Time // of the feed, by the time of the database
	Activity string    // of all activities: the rows up to this one were read
	After    core.ReservationPlace
}

// FeedRow is a row with its activity, which is nil if it does not exist.
type FeedRow struct {
	ledger.Row
	Activity *core.Activity
}

// Amount returns the price of the units in minor units; ok is false if the row has no lines, or one without a price.
func (r FeedRow) Amount() (amount int64, ok bool) {
	for _, l := range r.Lines {
		if r.Activity == nil || r.Activity.Item(l.SKUID) == nil {
			return 0, false
		}
		amount += l.Qty * r.Activity.Item(l.SKUID).Price
	}
	return amount, len(r.Lines) > 0
}

// FeedPage is a page of a feed. It may have fewer rows than the limit, or none, before the last page.
type FeedPage struct {
	Rows []FeedRow
	Next *FeedPlace // nil after the last page
	// NextSince is the Since of the next feed.
	NextSince time.Time
}

// Feed returns a page of a feed. Activities that changed are merged in groups of FeedSales: within each group the oldest
// change comes first.
func (s *Service) Feed(ctx context.Context, r FeedRequest) (FeedPage, error) {
	at := r.From
	if at.Began.IsZero() {
		now, err := s.Deps.Activities.Now(ctx)
		if err != nil {
			return FeedPage{}, err
		}
		at.Began = now
	}
	if at.After.OrderSN == "" {
		at.After = core.ReservationPlace{ChangedAt: core.Milliseconds(r.Since), OrderSN: "0"}
	}
	ids, end := []string{r.ActivityID}, ""
	if r.ActivityID == "" {
		var err error
		if ids, end, err = s.Changed.ChangedActivities(ctx, r.In, at.Activity, r.Since, r.EndAfter); err != nil {
			return FeedPage{}, err
		}
	}
	places, whole, err := s.mergedChanges(ctx, ids, at, r.Limit)
	if err != nil {
		return FeedPage{}, err
	}
	page := FeedPage{NextSince: at.Began.Add(-FeedOverlap)}
	switch {
	case !whole:
		page.Next = &FeedPlace{Began: at.Began, Activity: at.Activity, After: places[len(places)-1]}
	case end != "":
		page.Next = &FeedPlace{Began: at.Began, Activity: end}
	}
	if r.Unknown != nil {
		if places, err = r.Unknown(ctx, places); err != nil {
			return FeedPage{}, err
		}
	}
	page.Rows, err = s.feedRowsAt(ctx, places)
	return page, err
}

// mergedChanges returns the next places of the changes of some activities; whole is true if no more follow until the
// feed began.
func (s *Service) mergedChanges(
	ctx context.Context, activityIDs []string, at FeedPlace, limit int,
) (places []core.ReservationPlace, whole bool, err error) {
	var streams []ChangeStream
	for _, id := range activityIDs {
		for _, state := range feedStates {
			streams = append(streams, ChangeStream{id, state})
		}
	}
	read := map[ChangeStream][]core.ReservationPlace{}
	for most := 0; len(streams) > 0; {
		next := min(limit+1, max(feedLeast, feedRows*limit/len(streams)))
		if next <= most { // the streams have many rows each
			break
		}
		most = next
		part, err := s.Changed.Changes(ctx, streams, at.After, at.Began, most)
		if err != nil {
			return nil, false, err
		}
		for stream, list := range part {
			read[stream] = list
		}
		streams = slices.DeleteFunc(streams, func(stream ChangeStream) bool { return len(read[stream]) < most })
	}
	// What was read of a stream that goes on is complete up to its last place only.
	var horizon *core.ReservationPlace
	for _, stream := range streams {
		last := read[stream][len(read[stream])-1]
		if horizon == nil || last.Compare(*horizon) < 0 {
			horizon = &last
		}
	}
	for _, list := range read {
		places = append(places, list...)
	}
	slices.SortFunc(places, core.ReservationPlace.Compare)
	whole = horizon == nil
	if !whole {
		n, _ := slices.BinarySearchFunc(places, *horizon, core.ReservationPlace.Compare)
		places = places[:n+1]
	}
	if len(places) > limit {
		places, whole = places[:limit], false
	}
	return places, whole, nil
}

// feedRowsAt reads the rows at these places. It leaves out those that have changed since: their later place belongs to
// this feed or to the next one.
func (s *Service) feedRowsAt(ctx context.Context, places []core.ReservationPlace) ([]FeedRow, error) {
	if len(places) == 0 {
		return nil, nil
	}
	sns := make([]string, len(places))
	for i, p := range places {
		sns[i] = p.OrderSN
	}
	rows, broken, err := s.Changed.ReadableReservations(ctx, sns)
	if err != nil {
		return nil, err
	}
	for _, r := range broken {
		rows[r.OrderSN] = r
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ActivityID)
	}
	slices.Sort(ids)
	activities, err := s.Changed.ActivitiesByID(ctx, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	var list []FeedRow
	for _, p := range places {
		row, known := rows[p.OrderSN]
		if !known || !row.ChangedAt.Equal(p.ChangedAt) {
			continue
		}
		of := FeedRow{Row: row}
		if a, known := activities[row.ActivityID]; known {
			of.Activity = &a
		}
		list = append(list, of)
	}
	return list, nil
}
