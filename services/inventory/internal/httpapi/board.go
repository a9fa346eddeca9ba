package httpapi

import (
	"context"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/eventstream"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/board"
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
		DegradedReadiness: api.DegradedReadiness(s.Readiness), StartsAt: a.StartsAt, EndsAt: a.EndsAt,
		AsOf: s.AsOf, Currency: a.Currency, CurrencyDigits: contract.CurrencyDigits(a.Currency),
		Units: unitsView(s.Units), Revenue: s.Revenue, Room: roomView(s.Room), Orders: boardOrders(s),
		Totals: requestsView(s.Totals), Stock: stockView(s.Stock), Points: views(s.Points, pointView),
	}
}

func unitsView(u board.Units) api.BoardUnits {
	return api.BoardUnits{Total: u.Total, Left: u.Left, Held: u.Held, Sold: u.Sold}
}

func roomView(r *board.Room) *api.BoardRoom {
	if r == nil {
		return nil
	}
	return &api.BoardRoom{
		Waiting: r.Waiting, Admitted: r.Admitted, Lapsed: r.Lapsed, EstimateS: int64(r.Estimate / time.Second),
	}
}

func boardOrders(s *board.Sample) api.BoardOrders {
	return api.BoardOrders{
		Pending: s.Orders.Reserved, Paid: s.Orders.Sold, Closed: s.Orders.Released, Rejected: s.Orders.Rejected,
		AsOf: s.Orders.AsOf.UTC(),
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
	var sent boardProgress
	times := eventstream.Times{For: m.board.StreamFor, Heartbeat: m.board.Heartbeat}
	eventstream.Serve(w, r, times, first, stream, func(out *eventstream.Writer, s *board.Sample) (last bool) {
		if s == nil {
			return true
		}
		if s == first {
			out.Event("board", m.boardView(s))
			sent = boardProgress{reading: s.Reading, points: lastPoint(s), stock: s.Stock.AsOf}
		} else {
			sent.write(out, s)
		}
		return false
	})
}

// boardProgress is what a stream has sent.
type boardProgress struct {
	reading int64     // of the latest sample
	points  time.Time // the latest point
	stock   time.Time // when the latest stock was compared
}

// write writes what a sample has and the stream has not sent: an event for each new or changed point, or one without a
// point; and the stock, if it was compared again.
func (sent *boardProgress) write(out *eventstream.Writer, s *board.Sample) {
	update := api.BoardUpdate{
		AsOf: s.AsOf, State: api.ActivityState(s.Activity.Phase(s.AsOf)), Units: unitsView(s.Units), Revenue: s.Revenue,
		Room: roomView(s.Room), Orders: boardOrders(s), Totals: requestsView(s.Totals), Mode: api.SaleMode(s.Activity.Mode),
		DegradedReadiness: api.DegradedReadiness(s.Readiness),
	}
	written := false
	for _, p := range s.Points {
		if p.At.After(sent.points) || p.Changed > sent.reading {
			point := pointView(p)
			update.Point = &point
			out.Event("point", update)
			written = true
		}
	}
	if !written {
		out.Event("point", update)
	}
	sent.reading = max(sent.reading, s.Reading)
	if last := lastPoint(s); last.After(sent.points) {
		sent.points = last
	}
	if s.Stock.AsOf.After(sent.stock) {
		sent.stock = s.Stock.AsOf
		out.Event("stock", stockView(s.Stock))
	}
}

// lastPoint returns the time of the latest point, the zero time if there is none.
func lastPoint(s *board.Sample) time.Time {
	if len(s.Points) == 0 {
		return time.Time{}
	}
	return s.Points[len(s.Points)-1].At
}
