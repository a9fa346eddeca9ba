package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/room"
)

type (
	roomHandlers      = room.Handlers
	challengeHandlers = challenge.Handlers
)

type handlers struct {
	Deps
	*roomHandlers
	*challengeHandlers
	metrics metrics
	config  encodedConfig
}

var _ api.ServerInterface = (*handlers)(nil)

func (h *handlers) refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem.Write(w, r, h.Tel.Log, err)
}

// refuseCall writes a refusal and counts it by call, unless that is empty.
func (h *handlers) refuseCall(w http.ResponseWriter, r *http.Request, call string, err error) {
	if call != "" {
		h.metrics.refuse(call, err)
	}
	h.refuse(w, r, err)
}

// ListActivities implements api.ServerInterface.
func (h *handlers) ListActivities(w http.ResponseWriter, r *http.Request, _ api.ListActivitiesParams) {
	page, err := httpserver.PageOf(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	views, next, err := h.Core.Activities(r.Context(), page.Limit, page.Cursor)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	list := api.ActivityList{Items: make([]api.Activity, 0, len(views))}
	for _, v := range views {
		list.Items = append(list.Items, toActivity(v))
	}
	if next != "" {
		list.NextCursor = &next
	}
	writeSales(w, r, list, views)
}

// GetActivity implements api.ServerInterface.
func (h *handlers) GetActivity(w http.ResponseWriter, r *http.Request, activityID string) {
	if !contract.ValidID(activityID) {
		h.refuse(w, r, core.RefuseNotFound())
		return
	}
	v, err := h.Core.Activity(r.Context(), activityID)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	writeSales(w, r, toActivity(v), []core.ActivityView{v})
}

// counted counts the refusals of path and purchase requests by code, whichever check refuses.
func (h *handlers) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if code := httpserver.RefusalCode(w); code != "" {
			h.Counts.Refused(httpserver.PathParam(r, "activity_id"), code)
		}
	})
}

// countAddress counts refused requests by the address that limits count, also those that are refused before the token.
func (h *handlers) countAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if c, ok := causeOf(w); ok {
			h.Suspects.Address(httpserver.PathParam(r, "activity_id"), h.Limits.Address(r), c)
		}
	})
}

// causeOf returns the cause that a refused request counts for. A refusal by a limit that all callers share
// does not count against the caller.
func causeOf(w http.ResponseWriter) (core.Cause, bool) {
	c, ok := core.CauseOf(httpserver.RefusalCode(w))
	return c, ok && (c != core.RateLimited || !httpserver.IsShared(w))
}

// markShared follows the limits of a caller and precedes those that all callers share.
func markShared(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpserver.MarkShared(w)
		next.ServeHTTP(w, r)
	})
}

// countUser counts refused requests by user. It follows the check of the token.
func (h *handlers) countUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if c, ok := causeOf(w); ok {
			h.Suspects.User(httpserver.PathParam(r, "activity_id"), auth.From(r.Context()).UserID, c)
		}
	})
}

// CreatePath implements api.ServerInterface. checkStarted and checkAdmission have validated the request.
func (h *handlers) CreatePath(w http.ResponseWriter, r *http.Request, activityID string) {
	p, err := h.Core.IssuePath(r.Context(), auth.From(r.Context()).UserID, activityID)
	if err != nil {
		h.refuseCall(w, r, "path", err)
		return
	}
	h.metrics.paths.Add(noExemplar, 1)
	h.Counts.Path(activityID)
	httpserver.WriteJSON(w, http.StatusCreated, api.Path{Path: p.Path, OrderSn: p.OrderSN, ExpiresAt: p.ExpiresAt})
}

// CreateReservation implements api.ServerInterface.
func (h *handlers) CreateReservation(w http.ResponseWriter, r *http.Request, activityID, path string) {
	ctx := r.Context()
	if !contract.ValidID(activityID) {
		h.refuse(w, r, core.RefuseNotFound())
		return
	}
	lines, err := readPurchase(w, r)
	var p core.Purchased
	if err == nil {
		p, err = h.Core.Purchase(ctx, auth.From(ctx).UserID, activityID, path, lines)
	}
	if err != nil {
		h.refuseCall(w, r, "purchase", err)
		return
	}
	if p.Fresh {
		h.metrics.purchases.Add(noExemplar, 1, accepted)
		h.Counts.Accepted(activityID)
	} else {
		h.metrics.purchases.Add(noExemplar, 1, repeated)
	}
	writeAccepted(w, p)
}

// ListReservations implements api.ServerInterface.
func (h *handlers) ListReservations(
	w http.ResponseWriter, r *http.Request, activityID string, _ api.ListReservationsParams,
) {
	if !contract.ValidID(activityID) {
		h.refuse(w, r, core.RefuseNotFound())
		return
	}
	page, err := httpserver.PageOf(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	userID := auth.From(r.Context()).UserID
	own, err := h.Core.Reservations(r.Context(), userID, activityID, page.Limit, page.Cursor)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	list := api.ReservationList{
		Items: make([]api.Reservation, 0, len(own.Items)), CancellationsLeft: own.CancellationsLeft,
	}
	if !own.BarredUntil.IsZero() {
		at := own.BarredUntil.UTC()
		list.BarredUntil = &at
	}
	for _, one := range own.Items {
		list.Items = append(list.Items, h.toReservation(r.Context(), one))
	}
	if own.Next != "" {
		list.NextCursor = &own.Next
	}
	httpserver.WriteJSON(w, http.StatusOK, list)
}

// GetReservation implements api.ServerInterface.
func (h *handlers) GetReservation(w http.ResponseWriter, r *http.Request, activityID, orderSN string) {
	if !contract.ValidID(activityID) || !contract.ValidID(orderSN) {
		h.refuse(w, r, core.RefuseNotFound())
		return
	}
	one, err := h.Core.Reservation(r.Context(), auth.From(r.Context()).UserID, activityID, orderSN)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, h.toReservation(r.Context(), one))
}
