package room

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// ticketsTimeout bounds the time to write the tickets of a draw.
const ticketsTimeout = 5 * time.Minute

// Handlers implements the part of api.ServerInterface that is about waiting rooms.
type Handlers struct {
	tickets *Tickets
	// refuse writes a refusal. Refusals of a call that is not empty are counted by it.
	refuse func(w http.ResponseWriter, r *http.Request, call string, err error)
	joined metric.Int64Counter
}

// NewHandlers returns Handlers.
func NewHandlers(
	tickets *Tickets, meter metric.Meter, refuse func(http.ResponseWriter, *http.Request, string, error),
) (*Handlers, error) {
	joined, err := telemetry.NewCounter(meter, "flashsale.seckill.room.joined", "",
		"Responses with a ticket of a waiting room, new or known")
	return &Handlers{tickets, refuse, joined}, err
}

// JoinRoom implements api.ServerInterface.
func (h *Handlers) JoinRoom(w http.ResponseWriter, r *http.Request, activityID string) {
	if !contract.ValidID(activityID) {
		h.refuse(w, r, "", core.RefuseNotFound())
		return
	}
	var none struct{}
	if err := httpserver.DecodeOptionalJSON(w, r, &none); err != nil {
		h.refuse(w, r, "", err)
		return
	}
	ticket, err := h.tickets.Join(r.Context(), auth.From(r.Context()).UserID, activityID)
	if err != nil {
		h.refuse(w, r, "room", err)
		return
	}
	h.joined.Add(context.Background(), 1) // no exemplar: a search for one costs more
	httpserver.WriteJSON(w, http.StatusCreated, api.RoomTicket{Ticket: ticket})
}

// GetRoomTicket implements api.ServerInterface.
func (h *Handlers) GetRoomTicket(
	w http.ResponseWriter, r *http.Request, activityID string, params api.GetRoomTicketParams,
) {
	if !contract.ValidID(activityID) {
		h.refuse(w, r, "", core.RefuseNotFound())
		return
	}
	v, err := h.tickets.Ticket(r.Context(), auth.From(r.Context()).UserID, activityID, params.Ticket)
	if err != nil {
		h.refuse(w, r, "", err)
		return
	}
	out := api.RoomState{State: api.RoomStateState(v.State), Draw: toDraw(v.Draw)}
	if v.Place > 0 {
		out.Place = &v.Place
	}
	if v.RetryAfter > 0 {
		ahead, estimate := v.Ahead, seconds(v.Estimate)
		out.EstimateS = &estimate
		if v.Place > 0 {
			out.Ahead = &ahead
		}
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(v.RetryAfter), 10))
	}
	if !v.Until.IsZero() {
		until := v.Until.UTC()
		out.AdmittedUntil = &until
	}
	if v.Proof != nil {
		out.Proof = &api.RoomProof{Sequence: v.Proof.Sequence, Commitment: v.Proof.Commitment.String(), Path: []string{}}
		for _, hash := range v.Proof.Path {
			out.Proof.Path = append(out.Proof.Path, hash.String())
		}
	}
	httpserver.WriteJSON(w, http.StatusOK, out)
}

// GetDraw implements api.ServerInterface.
func (h *Handlers) GetDraw(w http.ResponseWriter, r *http.Request, activityID string) {
	if !contract.ValidID(activityID) {
		h.refuse(w, r, "", core.RefuseNotFound())
		return
	}
	p, err := h.tickets.Draw(r.Context(), activityID)
	if err != nil {
		h.refuse(w, r, "", err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, toDraw(p))
}

// GetDrawTickets implements api.ServerInterface. The response changes only if Redis loses the room, which then begins anew.
func (h *Handlers) GetDrawTickets(w http.ResponseWriter, r *http.Request, activityID string) {
	if !contract.ValidID(activityID) {
		h.refuse(w, r, "", core.RefuseNotFound())
		return
	}
	tickets, err := h.tickets.Commitments(r.Context(), activityID)
	if err != nil {
		h.refuse(w, r, "", err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=10")
	w.Header().Set("Content-Length", strconv.Itoa(len(tickets)*(2*draw.HashBytes+1)))
	// A million tickets are 65 MB, which take longer than other responses.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ticketsTimeout))
	_ = draw.WriteTickets(w, tickets) // an error means that the caller has disconnected
}

func toDraw(p draw.Published) api.Draw {
	out := api.Draw{ActivityId: p.ActivityID, KeySha256: p.KeySHA256.String(), EarlyTickets: p.EarlyTickets}
	text := func(h *draw.Hash) *string {
		if h == nil {
			return nil
		}
		s := h.String()
		return &s
	}
	out.Root, out.Key, out.Seed = text(p.Root), text(p.Key), text(p.Seed)
	if len(p.Beacon) > 0 {
		b, _ := p.Beacon.MarshalText() // never fails
		s := string(b)
		out.Beacon = &s
	}
	if p.TicketsURL != "" {
		out.TicketsUrl = &p.TicketsURL
	}
	return out
}
