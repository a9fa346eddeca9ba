package httpapi

import (
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/eventstream"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// streamTimes are the times of event streams.
var streamTimes = eventstream.Times{For: time.Minute, Heartbeat: 15 * time.Second}

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
	eventstream.Serve(w, r, streamTimes, first, stream, func(out *eventstream.Writer, one core.Reservation) (last bool) {
		out.Event("status", h.toReservation(r.Context(), one))
		return one.Status.Terminal()
	})
}
