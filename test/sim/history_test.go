package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// history records the events of one sale. They are formatted only for a failure report.
type history struct {
	seed    uint64
	began   time.Time
	mu      sync.Mutex
	lines   []line
	checked int // the most overdue reservations that inventory checked at order at once
}

type line struct {
	at      time.Time
	who     string
	what    string
	payload []any
}

func (h *history) note(who, what string, payload ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line{time.Now(), who, what, payload})
	if len(h.lines) == mostLines {
		panic(fmt.Sprintf("seed %d: the sale does not end; its last lines:\n%s", h.seed, h.last(100)))
	}
}

// mostLines is the length of a history at which something spins: sales have fewer than a tenth.
const mostLines = 1_000_000

// last returns the last n lines. The caller holds mu.
func (h *history) last(n int) string {
	var b strings.Builder
	for _, l := range h.lines[len(h.lines)-n:] {
		b.WriteString(h.format(l, l.text()))
	}
	return b.String()
}

func (h *history) format(l line, text string) string {
	if len(text) > 600 {
		text = text[:600] + " ..."
	}
	return fmt.Sprintf("%9.3f %-12s %s%s\n", l.at.Sub(h.began).Seconds(), l.who, l.what, text)
}

func (l line) text() string {
	var b strings.Builder
	for _, p := range l.payload {
		switch p := p.(type) {
		case []byte:
			fmt.Fprintf(&b, " %s", p)
		default:
			fmt.Fprintf(&b, " %v", p)
		}
	}
	return b.String()
}

// about returns the lines that contain one of the words, and those that concern the whole sale.
func (h *history) about(words []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, l := range h.lines {
		text := l.text()
		named := strings.HasPrefix(l.what, "!") ||
			slices.ContainsFunc(words,
				func(w string) bool { return strings.Contains(text, w) || strings.Contains(l.what, w) })
		if !named {
			continue
		}
		b.WriteString(h.format(l, text))
	}
	return b.String()
}

// mostChecked returns how many overdue reservations inventory checked at order at once, at most.
func (h *history) mostChecked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checked
}

// logs puts what a service logs into the history.
type logs struct {
	h     *history
	who   string
	attrs []slog.Attr
}

func (l *logs) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *logs) WithGroup(string) slog.Handler                    { return l }
func (l *logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logs{l.h, l.who, append(slices.Clip(l.attrs), attrs...)}
}

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	payload := []any{r.Message}
	for _, a := range l.attrs {
		payload = append(payload, a.String())
	}
	r.Attrs(func(a slog.Attr) bool { payload = append(payload, a.String()); return true })
	l.h.note(l.who, "logs", payload...)
	if strings.HasPrefix(r.Message, "resending closings of overdue reservations") {
		rows := 0
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "rows" {
				rows = int(a.Value.Int64())
			}
			return true
		})
		l.h.mu.Lock()
		l.h.checked = max(l.h.checked, rows)
		l.h.mu.Unlock()
	}
	return nil
}
