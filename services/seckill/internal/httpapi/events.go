package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// Timing of event streams.
const (
	streamFor    = 60 * time.Second
	heartbeat    = 15 * time.Second
	eventTimeout = 10 * time.Second // of writing one event
	reconnectMS  = 2000             // delay before an EventSource reconnects
)

// StreamReservation implements api.ServerInterface.
func (h *handlers) StreamReservation(
	w http.ResponseWriter, r *http.Request, activityID, orderSN string, params api.StreamReservationParams,
) {
	if !contract.ValidID(activityID) || !contract.ValidID(orderSN) {
		h.refuse(w, r, core.RefuseNotFound())
		return
	}
	var ticket string
	if params.Ticket != nil {
		ticket = *params.Ticket
	}
	first, stream, err := h.Core.Follow(r.Context(), activityID, orderSN, ticket)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	if stream == nil {
		w.WriteHeader(http.StatusNoContent)
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
	h.follow(r, &events{w: w, control: http.NewResponseController(w)}, first, stream)
}

// follow writes status events until the status is terminal, StreamFor has passed, the buyer disconnects or the process
// stops. In the first two cases it writes event: end.
func (h *handlers) follow(r *http.Request, out *events, first core.Reservation, stream *core.Stream) {
	out.printf("retry: %d\n\n", reconnectMS)
	h.status(r.Context(), out, first)
	end := time.NewTimer(h.StreamFor)
	defer end.Stop()
	beat := time.NewTicker(h.Heartbeat)
	defer beat.Stop()
	for out.err == nil {
		select {
		case update := <-stream.Updates():
			h.status(r.Context(), out, update)
			if update.Status.Terminal() {
				out.printf("event: end\ndata: {}\n\n")
				return
			}
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

// events writes server-sent events. After an error it writes nothing.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (h *handlers) status(ctx context.Context, out *events, r core.Reservation) {
	data, err := json.Marshal(h.toReservation(ctx, r))
	if err != nil {
		out.err = err
		return
	}
	out.printf("event: status\ndata: %s\n\n", data)
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
