package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/sqldb"
)

const (
	passRows       = 1024             // rows claimed at a time
	maxKeys        = 64               // keys of one message; brokers bound a message's properties
	defaultPoll    = time.Second      // interval between polls without Wake
	defaultClaim   = 30 * time.Second // time after which other relays claim the rows of a killed one
	publishTimeout = 10 * time.Second
	queryTimeout   = 15 * time.Second
	minPause       = 200 * time.Millisecond
	maxPause       = time.Second // longest pause after failures, so that publishing resumes soon after an outage
	parkedFor      = time.Hour   // pause for rows that cannot be published
	refusedPauses  = 3           // pauses of its topic for which a row waits that could not be published by itself
	maxRefused     = 1 << 16     // rows whose failed publishes are remembered
	// The first row is published immediately. While more rows arrive, those of one gather time share messages, since
	// each message costs its consumers a transaction. The gather time doubles as long as rows arrive.
	gatherFirst, gatherLast = 10 * time.Millisecond, 160 * time.Millisecond
)

// Relay publishes the rows of one outbox and deletes each after the broker has confirmed it. Any number of relays may
// work on one table: a claim is a compare-and-swap on claimed_until, by the time of the database, so that it ends for
// all relays at the same moment. If a relay is killed between publishing and deleting, the next relay publishes the row
// a second time; consumers are idempotent.
type Relay struct {
	db          *gorm.DB
	pub         bus.Publisher
	log         *slog.Logger
	wake        chan struct{}
	poll, claim time.Duration
	clock       func() time.Time // nil: the database's
	checkClocks func(ctx context.Context) error
	failures    map[string]*lifecycle.Failures // of publishing, by topic
	refused     map[int64]int                  // failed publishes of a row by itself, by id
	unread      string                         // the claim whose rows could not be read; "" for none
}

// RelayOption changes a default of a Relay.
type RelayOption func(*Relay)

// Poll sets the interval at which the relay polls for rows without Wake (1 s).
func Poll(d time.Duration) RelayOption { return func(r *Relay) { r.poll = d } }

// ClaimFor sets the duration of a claim (30 s).
func ClaimFor(d time.Duration) RelayOption { return func(r *Relay) { r.claim = d } }

// Clock replaces the clock of the database, for tests and for SQLite. nil stands for the clock of the database.
func Clock(now func() time.Time) RelayOption { return func(r *Relay) { r.clock = now } }

// CheckClocks sets a check that returns an error while this process must not decide by time. Then the relay claims no
// rows: those of other processes do. The default is a relay that always may.
func CheckClocks(check func(ctx context.Context) error) RelayOption {
	return func(r *Relay) { r.checkClocks = check }
}

// NewRelay returns a relay; Run starts it.
func NewRelay(db *gorm.DB, pub bus.Publisher, log *slog.Logger, opts ...RelayOption) *Relay {
	r := &Relay{
		db: db, pub: pub, log: log, wake: make(chan struct{}, 1),
		poll: defaultPoll, claim: defaultClaim, failures: map[string]*lifecycle.Failures{}, refused: map[int64]int{},
		checkClocks: func(context.Context) error { return nil },
	}
	for _, o := range opts {
		o(r)
	}
	return r
}

// Wake makes the relay poll immediately. It never blocks. Call it after the commit.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx is done and then returns nil. It retries while the database or the broker is unavailable.
func (r *Relay) Run(ctx context.Context) error {
	var failures lifecycle.Failures
	gather := gatherFirst
	for {
		published, more, err := r.pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := r.poll/2 + mathrand.N(r.poll/2+1) //nolint:gosec // no secret depends on it
		wake := r.wake
		failures.Observe(ctx, r.log, "outbox: use of the database", err)
		switch {
		case err != nil:
			wait, wake = pause(failures.InARow()), nil // Wake does not shorten the pause while the database is down
		case more:
			continue
		case published:
			wait, wake = gather, nil
			gather = min(2*gather, gatherLast)
		default:
			gather = max(gather/2, gatherFirst)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// pause returns a time that grows from 200 ms to 1 s with the number of consecutive failures; half of it is random.
func pause(failures int) time.Duration {
	d := min(maxPause, minPause<<min(failures-1, 10))
	return d/2 + mathrand.N(d/2+1) //nolint:gosec // no secret depends on it
}

// pass claims rows, publishes them and deletes them. published reports that some were published, more that there are
// rows for another pass.
func (r *Relay) pass(ctx context.Context) (published, more bool, err error) {
	if r.checkClocks(ctx) != nil {
		return false, false, nil // the check logs the incident
	}
	if err := r.releaseUnread(ctx); err != nil {
		return false, false, err
	}
	token, rows, full, err := r.takeClaim(ctx)
	if err != nil || len(rows) == 0 {
		return false, full && err == nil, err
	}
	// The claim may not last for rows not begun by then; they are released. The time of the database was read before, so
	// this half of the claim ends before the claim does, whatever the clock of this process shows.
	until := time.Now().Add(r.claim / 2)
	// To be claimed again immediately, after a pause, or after a longer one.
	var left, putOff, refused []record
	down := map[string]bool{}
	for _, g := range r.groups(rows) {
		single := min(1, r.failuresOf(g.topic).InARow()) // rows to be published one by one; after a failure the first is a probe
		for len(g.rows) > 0 {
			if ctx.Err() != nil || time.Now().After(until) {
				left = append(left, g.rows...)
				break
			}
			if down[g.topic] {
				putOff = append(putOff, g.rows...)
				break
			}
			most := len(g.rows)
			if single > 0 {
				most = 1
			}
			n, confirmed, err := r.publish(ctx, group{g.topic, g.deliverAt, g.rows[:most]})
			switch {
			case errors.Is(err, errUnpublishable):
				n, err = 1, r.postpone(ctx, token, g.rows[:1], parkedFor)
			case err != nil:
			case !confirmed && n > 1:
				// Either the broker is unavailable, or it refuses one of the rows: the others are published without it.
				single = n
				continue
			case !confirmed:
				down[g.topic] = true
				r.countRefusal(ctx, g.rows[0].ID)
				if len(g.rows) > 1 { // the others of the topic have their turn before this one
					refused = append(refused, g.rows[0])
					g.rows = g.rows[1:]
				}
				continue
			}
			if err != nil {
				return published, false, err
			}
			published = true
			g.rows = g.rows[n:]
			single -= n
		}
	}
	longest := 1
	for topic := range down {
		longest = max(longest, r.failuresOf(topic).InARow())
	}
	stopping := context.WithoutCancel(ctx)
	err = errors.Join(r.release(stopping, token, left, unclaimed),
		r.postpone(stopping, token, putOff, pause(longest)),
		r.postpone(stopping, token, refused, refusedPauses*pause(longest)))
	return published, published && (full || len(left) > 0), err
}

// failuresOf returns the failed publishes of a topic.
func (r *Relay) failuresOf(topic string) *lifecycle.Failures {
	f := r.failures[topic]
	if f == nil {
		f = &lifecycle.Failures{}
		r.failures[topic] = f
	}
	return f
}

// countRefusal remembers that a row could not be published by itself. It drops all if there are too many.
func (r *Relay) countRefusal(ctx context.Context, id int64) {
	if ctx.Err() != nil {
		return // stopping
	}
	if len(r.refused) == maxRefused {
		clear(r.refused)
	}
	r.refused[id]++
}

// errUnpublishable reports that the first row of a group cannot become a message, for example after a manual change.
var errUnpublishable = errors.New("outbox: row cannot be published")

// publish sends one message with the first n rows of the group. If the broker confirms, it deletes them. The error
// comes from the database, or is errUnpublishable.
func (r *Relay) publish(ctx context.Context, g group) (n int, confirmed bool, err error) {
	items := make([]json.RawMessage, len(g.rows))
	for i, row := range g.rows {
		items[i] = json.RawMessage(row.Item)
		if !json.Valid(items[i]) || len(row.Item) > maxItemBytes {
			if i == 0 {
				r.log.ErrorContext(ctx, "outbox: row cannot be published, retry in an hour", "id", row.ID, "topic",
					row.Topic)
				return 0, false, errUnpublishable
			}
			items = items[:i]
			break
		}
	}
	body, n, err := contract.Pack(items)
	if err != nil {
		return 0, false, err
	}
	m := bus.Message{Topic: g.topic, Body: body, DeliverAt: g.deliverAt}
	for _, row := range g.rows[:n] {
		if row.MsgKey != "" && len(m.Keys) < maxKeys {
			m.Keys = append(m.Keys, row.MsgKey)
		}
	}
	pctx, cancel := context.WithTimeout(ctx, publishTimeout)
	err = r.pub.Publish(pctx, m)
	cancel()
	if err != nil && ctx.Err() != nil { // stopping; the outcome is unknown, so the rows will be published again
		return n, false, nil
	}
	r.failuresOf(g.topic).Observe(ctx, r.log.With("topic", g.topic), "outbox: publish", err)
	if err != nil {
		return n, false, nil
	}
	for _, row := range g.rows[:n] {
		delete(r.refused, row.ID)
	}
	// Published rows are deleted also while the process is stopping, which saves consumers a redelivery.
	qctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	args := make([]any, n)
	for i, row := range g.rows[:n] {
		args[i] = row.ID
	}
	if _, err := sqldb.Exec(r.db.WithContext(qctx), "DELETE FROM outbox WHERE id IN "+sqldb.List(n), args...); err != nil {
		return 0, false, fmt.Errorf("delete published rows: %w", err)
	}
	return n, true, nil
}

// takeClaim claims up to passRows rows. full reports that there may be more. It reads the rows and the time by one
// statement, and claims them by another. Only if another relay has claimed some of them meanwhile does it read its rows
// again.
func (r *Relay) takeClaim(ctx context.Context) (token string, rows []record, full bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	db := r.db.WithContext(ctx)
	rows, now, err := r.freeRows(db)
	if err != nil || len(rows) == 0 {
		return "", nil, false, err
	}
	full = len(rows) == passRows
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	token = hex.EncodeToString(random)
	r.unread = token // until it is known which rows it claimed
	args := []any{now.Add(r.claim), token, now}
	for _, row := range rows {
		args = append(args, row.ID)
	}
	claimed, err := sqldb.Exec(db, "UPDATE outbox SET claimed_until = ?, claimed_by = ? WHERE claimed_until <= ? AND id IN "+
		sqldb.List(len(rows)), args...)
	if err != nil {
		return "", nil, false, err
	}
	if claimed < int64(len(rows)) {
		free := ids(rows)
		rows = nil
		if claimed > 0 { // else another relay has claimed them all
			err = db.Where("id IN ? AND claimed_by = ?", free, token).Order("id").Find(&rows).Error
		}
	}
	if err == nil {
		r.unread = ""
	}
	return token, rows, full, err
}

// freeRows reads up to passRows rows that no relay has claimed, by id, and the time of the database at that statement.
// Rows that have waited for longer come first if there are more.
func (r *Relay) freeRows(db *gorm.DB) (rows []record, now time.Time, err error) {
	readAt, expression, args := sqldb.NowColumn, sqldb.NowColumn, []any(nil)
	now, known := sqldb.KnownNow(db, r.clock)
	if known {
		readAt, expression, args = "NULL", "?", []any{now}
	}
	err = sqldb.Query(db, "SELECT "+readAt+", id, topic, msg_key, item, deliver_at FROM outbox WHERE claimed_until <= "+
		expression+" ORDER BY claimed_until, id LIMIT "+strconv.Itoa(passRows), args, func(found *sql.Rows) error {
		var row record
		var at *time.Time
		err := found.Scan(&at, &row.ID, &row.Topic, &row.MsgKey, &row.Item, &row.DeliverAt)
		if at != nil {
			now = at.UTC()
		}
		rows = append(rows, row)
		return err
	})
	slices.SortFunc(rows, func(a, b record) int { return cmp.Compare(a.ID, b.ID) })
	return rows, now, err
}

// releaseUnread ends the last claim if its rows could not be read. They would wait for its end otherwise.
func (r *Relay) releaseUnread(ctx context.Context) error {
	if r.unread == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	db := r.db.WithContext(ctx)
	now, err := sqldb.Now(db, r.clock)
	if err != nil {
		return err
	}
	err = db.Model(&record{}).Where("claimed_until > ? AND claimed_by = ?", now, r.unread).
		Updates(map[string]any{"claimed_until": unclaimed, "claimed_by": ""}).Error
	if err == nil {
		r.unread = ""
	}
	return err
}

// postpone ends the claim of rows. No relay claims them before the pause has passed by the time of the database.
func (r *Relay) postpone(ctx context.Context, token string, rows []record, pause time.Duration) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	now, err := sqldb.Now(r.db.WithContext(ctx), r.clock)
	if err != nil {
		return fmt.Errorf("release claimed rows: %w", err)
	}
	return r.release(ctx, token, rows, now.Add(pause))
}

// release ends the claim of rows. No relay claims them before notBefore.
func (r *Relay) release(ctx context.Context, token string, rows []record, notBefore time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err := r.db.WithContext(ctx).Model(&record{}).Where("id IN ? AND claimed_by = ?", ids(rows), token).
		Updates(map[string]any{"claimed_until": notBefore, "claimed_by": ""}).Error
	if err != nil {
		return fmt.Errorf("release claimed rows: %w", err)
	}
	return nil
}

// group holds rows that may share messages: those with the same topic, delivery time and number of refusals.
type group struct {
	topic     string
	deliverAt time.Time
	rows      []record
}

// groups orders the rows by the number of times that each was refused by itself. So rows that the broker refuses for
// good, however many, come after all others of their topic, and share no message with rows that it never refused.
func (r *Relay) groups(rows []record) []group {
	type key struct {
		topic   string
		at      int64
		refused int
	}
	slices.SortStableFunc(rows, func(a, b record) int { return cmp.Compare(r.refused[a.ID], r.refused[b.ID]) })
	var list []group
	index := map[key]int{}
	for _, row := range rows {
		k, at := key{topic: row.Topic, refused: r.refused[row.ID]}, time.Time{}
		if row.DeliverAt != nil {
			at = *row.DeliverAt
			k.at = at.UnixMilli()
		}
		i, ok := index[k]
		if !ok {
			i = len(list)
			index[k] = i
			list = append(list, group{topic: row.Topic, deliverAt: at})
		}
		list[i].rows = append(list[i].rows, row)
	}
	return list
}

func ids(rows []record) []int64 {
	list := make([]int64, len(rows))
	for i, row := range rows {
		list[i] = row.ID
	}
	return list
}
