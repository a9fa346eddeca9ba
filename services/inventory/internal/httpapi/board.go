package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/board"
)

const (
	eventTimeout = 10 * time.Second // of writing one event
	reconnectMS  = 2000             // delay before an EventSource reconnects
)

// GetBoard implements api.ServerInterface.
func (m *Merchant) GetBoard(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	s, err := m.board.Snapshot(r.Context(), caller(r).Scope(), id)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, m.boardView(s))
}

func (m *Merchant) boardView(s *board.Sample) api.Board {
	a := s.Activity
	return api.Board{
		ActivityId: a.ID, Title: a.Title, State: api.ActivityState(a.Phase(s.AsOf)), Mode: api.SaleMode(a.Mode),
		StartsAt: a.StartsAt, EndsAt: a.EndsAt,
		AsOf: s.AsOf, Currency: a.Currency, Units: unitsView(s.Units), Orders: boardOrders(s), Totals: requestsView(s.Totals),
		Stock: stockView(s.Stock), Points: views(s.Points, pointView),
	}
}

func unitsView(u board.Units) api.BoardUnits {
	return api.BoardUnits{Total: u.Total, Left: u.Left, Held: u.Held, Sold: u.Sold}
}

func boardOrders(s *board.Sample) api.BoardOrders {
	return api.BoardOrders{
		Pending: s.Orders.Reserved, Paid: s.Orders.Sold, Closed: s.Orders.Released, Rejected: s.Orders.Rejected,
	}
}

func requestsView(q board.Requests) api.BoardRequests {
	return api.BoardRequests{
		Accepted: q.Accepted, Paths: q.Paths, Solved: q.Solved, Failed: q.Failed, Refused: refusedView(q),
	}
}

func refusedView(q board.Requests) map[string]int64 {
	if q.Refused == nil {
		return map[string]int64{}
	}
	return q.Refused
}

func pointView(p board.Point) api.BoardPoint {
	v := api.BoardPoint{At: p.At, Accepted: p.Accepted, Paths: p.Paths, Refused: refusedView(p.Requests)}
	if u := p.Units; u != nil {
		v.Left, v.Held, v.Sold = &u.Left, &u.Held, &u.Sold
	}
	return v
}

// StreamBoard implements api.ServerInterface.
func (m *Merchant) StreamBoard(w http.ResponseWriter, r *http.Request, id string) {
	if !m.validID(w, r, id) {
		return
	}
	by := caller(r)
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	first, stream, err := m.board.Follow(ctx, by.Scope(), by.UserID, id)
	cancel()
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	defer stream.Close()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // so that a reverse proxy does not buffer
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	httpserver.LiftDeadlines(w)
	m.follow(r, &events{w: w, control: http.NewResponseController(w)}, first, stream)
}

// follow writes the events of a board until its time is over, the viewer disconnects or the process stops.
func (m *Merchant) follow(r *http.Request, out *events, first *board.Sample, stream *board.Stream) {
	out.printf("retry: %d\n\n", reconnectMS)
	out.event("board", m.boardView(first))
	sent := boardProgress{reading: first.Reading, points: lastPoint(first), stock: first.Stock.AsOf}
	end := time.NewTimer(m.board.StreamFor)
	defer end.Stop()
	beat := time.NewTicker(m.board.Heartbeat)
	defer beat.Stop()
	for out.err == nil {
		select {
		case s := <-stream.Updates():
			sent.write(out, s)
		case <-beat.C:
			out.printf(": \n\n")
		case <-end.C:
			out.printf("event: end\ndata: {}\n\n")
			return
		case <-stream.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// boardProgress is what a stream has sent.
type boardProgress struct {
	reading int64     // of the latest sample
	points  time.Time // the latest point
	stock   time.Time // when the latest stock was compared
}

// write writes what a sample has and the stream has not sent: an event for each new or changed point, or one without a
// point; and the stock, if it was compared again.
func (sent *boardProgress) write(out *events, s *board.Sample) {
	update := api.BoardUpdate{
		AsOf: s.AsOf, State: api.ActivityState(s.Activity.Phase(s.AsOf)), Units: unitsView(s.Units), Orders: boardOrders(s),
		Totals: requestsView(s.Totals), Mode: api.SaleMode(s.Activity.Mode),
	}
	written := false
	for _, p := range s.Points {
		if p.At.After(sent.points) || p.Changed > sent.reading {
			point := pointView(p)
			update.Point = &point
			out.event("point", update)
			written = true
		}
	}
	if !written {
		out.event("point", update)
	}
	sent.reading = max(sent.reading, s.Reading)
	if last := lastPoint(s); last.After(sent.points) {
		sent.points = last
	}
	if s.Stock.AsOf.After(sent.stock) {
		sent.stock = s.Stock.AsOf
		out.event("stock", stockView(s.Stock))
	}
}

// lastPoint returns the time of the latest point, the zero time if there is none.
func lastPoint(s *board.Sample) time.Time {
	if len(s.Points) == 0 {
		return time.Time{}
	}
	return s.Points[len(s.Points)-1].At
}

// events writes server-sent events. After an error it writes nothing.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (e *events) event(name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		e.err = err
		return
	}
	e.printf("event: %s\ndata: %s\n\n", name, text)
}

func (e *events) printf(format string, args ...any) {
	if e.err != nil {
		return
	}
	// It fails in tests only, where there is no connection.
	_ = e.control.SetWriteDeadline(time.Now().Add(eventTimeout))
	if _, e.err = fmt.Fprintf(e.w, format, args...); e.err == nil {
		e.err = e.control.Flush()
	}
}
