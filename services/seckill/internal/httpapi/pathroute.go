package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/internal/core"
)

// pathChecks returns the checks of the path route in their order. A refused request is charged only by the limits before
// the check that refuses it.
func (h *handlers) pathChecks(shed *shedder) []func(http.Handler) http.Handler {
	on := h.Limits.On
	return []func(http.Handler) http.Handler{
		// These count the refusals of all checks below.
		h.counted, h.countAddress,

		// 1. The load shedder refuses when too many requests are in flight.
		shed.paths,
		// 2. The sold-out flag of this process, at most 200 ms old. It calls nothing: most buyers of a popular sale come
		// late, and this refuses them at the lowest cost.
		h.checkSoldOut,
		// 3. The limit by address, which needs no token.
		on("path-per-ip"),
		// 4. The token.
		h.Verifier.Require(), h.countUser,
		// 5. Whether the sale has started. An early request does not use the permit that its buyer needs at the start.
		h.checkStarted,
		// 6. The limit by user.
		on("path-per-user"),
		// 7. to 10. What admit checks, before a caller waits for its turn and before a limit in Redis is charged.
		h.checkAdmission,
		// 11. The click rule: one path in a while for a user and activity.
		on("path-click"),

		// All processes and callers share the path buckets, so a refusal counts against no caller. A caller waits up to a
		// second for its turn in each.
		markShared,
		// 12. The path bucket of the activity, and 13. that of all activities. A request that path-total refuses has used a
		// permit of its activity. It gets no refund, which could cost a call to Redis. The loss slows no other activity.
		on("path-activity"), on("path-total"),
	}
}

// admit returns the refusal of a buyer who may not take a path now.
func (h *handlers) admit(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		RoomTicket    string `json:"room_ticket"`
		ChallengePass string `json:"captcha_pass"`
	}
	if err := httpserver.DecodeOptionalJSON(w, r, &body); err != nil {
		return err
	}
	ctx, activityID := r.Context(), httpserver.PathParam(r, "activity_id")
	userID := auth.From(ctx).UserID
	// 7. Whether the sale is open and has units left.
	if err := h.Core.CheckAdmission(ctx, activityID); err != nil {
		return err
	}
	// 8. In a sale with a waiting room, whether the buyer's ticket is admitted. The state of the room is at most a second
	// old.
	if err := h.Tickets.Check(ctx, userID, activityID, body.RoomTicket); err != nil {
		return err
	}
	// 9. In a sale with a challenge, whether the buyer has the pass of a solved one. This compares a MAC.
	if err := h.Challenges.CheckPass(ctx, userID, activityID, body.ChallengePass); err != nil {
		return err
	}
	// 10. Whether the buyer has allowance left, by a read of the gate that many callers share. A gate that does not respond
	// refuses no buyer here.
	return h.Core.CheckAllowance(ctx, userID, activityID)
}

// checkAdmission refuses a buyer if admit does.
func (h *handlers) checkAdmission(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.admit(w, r); err != nil {
			h.refuseCall(w, r, "path", err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkSoldOut refuses path requests of a sale whose cached view is sold out.
func (h *handlers) checkSoldOut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.Core.CheckSoldOut(r.Context(), httpserver.PathParam(r, "activity_id")); err != nil {
			h.refuseCall(w, r, "cached_sale", err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkStarted refuses path requests before the start of the sale.
func (h *handlers) checkStarted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		activityID := httpserver.PathParam(r, "activity_id")
		if !contract.ValidID(activityID) {
			h.refuse(w, r, core.RefuseNotFound())
			return
		}
		if err := h.Core.CheckStarted(r.Context(), activityID); err != nil {
			h.refuseCall(w, r, "path", err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
