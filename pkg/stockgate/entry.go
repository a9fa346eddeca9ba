package stockgate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// Line is one SKU of a purchase and its number of units.
type Line = contract.Line

// Status is the status of a purchase, as its buyer sees it. It only rises: queued < created < paid | closed, or failed
// from queued.
type Status string

// The statuses of a purchase. Closed and failed are final. Paid is final unless the purchase is refunded.
const (
	StatusQueued  Status = "queued"
	StatusCreated Status = "created"
	StatusPaid    Status = "paid"
	StatusClosed  Status = "closed"
	StatusFailed  Status = "failed"
)

// Entry is the state of one purchase in the gate.
type Entry struct {
	OrderSN     string
	Broken      bool // the stored form cannot be decoded: only OrderSN is set, its state has to come from the ledger
	UserID      string
	Lines       []Line // sorted by SKU
	Status      Status
	Landed      bool      // queued: committed in the ledger; created, paid: true; else false
	Reason      string    // of closed and failed
	ExpiresAt   time.Time // of created: end of the pay window; else zero
	EndedAt     time.Time // of closed and failed
	ReservedAt  time.Time // by Redis time; zero for entries that were adopted or preloaded without it
	JournaledAt time.Time // when it was last journaled; set by Unlanded only
	Traceparent string    // of the purchase, when it is sampled
}

// terminal reports whether the purchase has ended: the entry holds no units.
func (e Entry) terminal() bool { return e.Status == StatusClosed || e.Status == StatusFailed }

// Stages are the single characters that stored entries use for their status. lua/prelude.lua has the same list.
const (
	stageQueued  = "q" // not known to be in the ledger
	stageLanded  = "l"
	stageCreated = "c"
	stagePaid    = "p"
	stageClosed  = "x"
	stageFailed  = "f"
)

// entryFields is the number of fields of a stored entry: stage|user|lines|reason|expires|ended|reserved|journal|trace.
// Times are Unix milliseconds, empty when zero. journal is the id of the purchase's last entry in the journal, which may
// be acked; empty if there was none.
const entryFields = 9

var errEntry = errors.New("stockgate: malformed entry")

func (e Entry) encode() (string, error) {
	stage, err := e.stage()
	if err != nil {
		return "", err
	}
	return strings.Join([]string{
		stage, e.UserID, encodeLines(e.Lines), e.Reason, encodeTime(e.ExpiresAt),
		encodeTime(e.EndedAt), encodeTime(e.ReservedAt), "", e.Traceparent,
	}, "|"), nil
}

func (e Entry) stage() (string, error) {
	switch e.Status {
	case StatusQueued:
		if e.Landed {
			return stageLanded, nil
		}
		return stageQueued, nil
	case StatusCreated:
		return stageCreated, nil
	case StatusPaid:
		return stagePaid, nil
	case StatusClosed:
		return stageClosed, nil
	case StatusFailed:
		return stageFailed, nil
	}
	return "", fmt.Errorf("%w: status %q", errEntry, e.Status)
}

// readEntry is decodeEntry for callers that read many entries: it marks one that cannot be decoded as Broken, so that
// it does not hide the others.
func readEntry(orderSN, stored string) Entry {
	e, err := decodeEntry(orderSN, stored)
	if err != nil {
		return Entry{OrderSN: orderSN, Broken: true}
	}
	return e
}

func decodeEntry(orderSN, stored string) (Entry, error) {
	f := strings.Split(stored, "|")
	if len(f) != entryFields {
		return Entry{}, fmt.Errorf("%w: %d fields", errEntry, len(f))
	}
	e := Entry{OrderSN: orderSN, UserID: f[1], Reason: f[3], Traceparent: f[8]}
	switch f[0] {
	case stageQueued:
		e.Status = StatusQueued
	case stageLanded:
		e.Status, e.Landed = StatusQueued, true
	case stageCreated:
		e.Status, e.Landed = StatusCreated, true
	case stagePaid:
		e.Status, e.Landed = StatusPaid, true
	case stageClosed:
		e.Status = StatusClosed
	case stageFailed:
		e.Status = StatusFailed
	default:
		return Entry{}, fmt.Errorf("%w: stage %q", errEntry, f[0])
	}
	var err error
	if e.Lines, err = decodeLines(f[2]); err != nil {
		return Entry{}, err
	}
	for _, t := range []struct {
		dst *time.Time
		src string
	}{{&e.ExpiresAt, f[4]}, {&e.EndedAt, f[5]}, {&e.ReservedAt, f[6]}} {
		if *t.dst, err = decodeTime(t.src); err != nil {
			return Entry{}, err
		}
	}
	return e, nil
}

// encodeLines writes lines as "sku:qty,sku:qty", sorted by SKU, so that equal purchases are equal strings.
func encodeLines(lines []Line) string {
	sorted := sortLines(lines)
	var b strings.Builder
	for i, l := range sorted {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.SKUID)
		b.WriteByte(':')
		b.WriteString(strconv.FormatInt(l.Qty, 10))
	}
	return b.String()
}

func sortLines(lines []Line) []Line {
	sorted := slices.Clone(lines)
	slices.SortFunc(sorted, func(a, b Line) int { return compareIDs(a.SKUID, b.SKUID) })
	return sorted
}

func decodeLines(s string) ([]Line, error) {
	parts := strings.Split(s, ",")
	lines := make([]Line, len(parts))
	for i, p := range parts {
		sku, qty, ok := strings.Cut(p, ":")
		n, err := strconv.ParseInt(qty, 10, 64)
		if !ok || err != nil || !contract.ValidID(sku) || n < 1 || qty[0] == '+' {
			return nil, fmt.Errorf("%w: lines %q", errEntry, s)
		}
		lines[i] = Line{SKUID: sku, Qty: n}
	}
	return lines, nil
}

// compareIDs orders decimal ids by their numeric value.
func compareIDs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func encodeTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func decodeTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: time %q", errEntry, s)
	}
	return time.UnixMilli(ms).UTC(), nil
}

func validatePurchase(orderSN, userID string, lines []Line) error {
	switch {
	case !contract.ValidID(orderSN):
		return fmt.Errorf("stockgate: order_sn %q is malformed", orderSN)
	case !contract.ValidUserID(userID):
		return fmt.Errorf("stockgate: order_sn %s: user id is malformed", orderSN)
	}
	if err := contract.ValidateLines(lines); err != nil {
		return fmt.Errorf("stockgate: order_sn %s: %w", orderSN, err)
	}
	return nil
}

// validToken reports whether s may be stored in an entry: 1 to limit characters of a-z 0-9 _ and -.
func validToken(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// maxTraceparent is the length of a W3C traceparent of version 00, with room for a later one.
const maxTraceparent = 64

// storableTraceparent returns s, or "" if s is malformed: a bad traceparent must not fail a purchase.
func storableTraceparent(s string) string {
	if !validToken(s, maxTraceparent) {
		return ""
	}
	return s
}

const maxReason = 32

func validateReason(orderSN, reason string) error {
	if !validToken(reason, maxReason) {
		return fmt.Errorf("stockgate: order_sn %s: reason %q is malformed", orderSN, reason)
	}
	return nil
}
