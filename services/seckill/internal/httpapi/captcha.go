package httpapi

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// checkCaptchaOpen refuses requests for challenges before these open. It precedes the limits by user, so that an early
// request costs nothing.
func (h *handlers) checkCaptchaOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		activityID := httpserver.PathParam(r, "activity_id")
		if !contract.ValidID(activityID) {
			h.refuse(w, r, notFound())
			return
		}
		if err := h.Core.CheckCaptchaOpen(r.Context(), activityID); err != nil {
			h.metrics.refuse("captcha", err)
			h.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func byKind(kind contract.CaptchaKind) metric.AddOption {
	return metric.WithAttributes(attribute.String("flashsale.captcha.kind", string(kind)))
}

// CreateCaptcha implements api.ServerInterface.
func (h *handlers) CreateCaptcha(w http.ResponseWriter, r *http.Request, activityID string) {
	var body struct {
		Kind       string `json:"kind"`
		RoomTicket string `json:"room_ticket"`
	}
	if err := httpserver.DecodeOptionalJSON(w, r, &body); err != nil {
		h.refuse(w, r, err)
		return
	}
	caller := auth.From(r.Context())
	c, err := h.Core.NewCaptcha(r.Context(), caller.UserID, activityID, contract.CaptchaKind(body.Kind), body.RoomTicket,
		caller.Has(auth.Accessible))
	if err != nil {
		h.metrics.refuse("captcha", err)
		h.refuse(w, r, err)
		return
	}
	h.metrics.captchas.Add(noExemplar, 1, byKind(c.Kind))
	out := api.Captcha{CaptchaId: c.ID, Kind: api.CaptchaKind(c.Kind), ExpiresAt: c.ExpiresAt}
	if p := c.Pow; p != nil {
		out.Pow = &api.CaptchaPow{
			Algorithm: p.Algorithm, Challenge: p.Challenge, Salt: p.Salt, Signature: p.Signature, MaxNumber: p.Max,
		}
	}
	if s := c.Slide; s != nil {
		out.Slide = &api.CaptchaSlide{
			Image: s.Image, Piece: s.Piece, Width: s.Width, Height: s.Height, PieceWidth: s.PieceWidth,
			PieceHeight: s.PieceHeight, PieceX: s.PieceX, PieceY: s.PieceY,
		}
	}
	if v := c.Widget; v != nil {
		out.Widget = &api.CaptchaWidget{
			Provider: api.CaptchaWidgetProvider(v.Provider), SiteKey: v.SiteKey, Action: v.Action,
		}
	}
	httpserver.WriteJSON(w, http.StatusCreated, out)
}

// AnswerCaptcha implements api.ServerInterface.
func (h *handlers) AnswerCaptcha(w http.ResponseWriter, r *http.Request, activityID, captchaID string) {
	var body api.CaptchaAnswer
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		h.refuse(w, r, err)
		return
	}
	answer := core.CaptchaAnswer{X: body.X}
	if body.Payload != nil {
		answer.Payload = *body.Payload
	}
	if body.Token != nil {
		answer.Token = *body.Token
	}
	pass, err := h.Core.AnswerCaptcha(r.Context(), auth.From(r.Context()).UserID, activityID, captchaID, answer)
	if err != nil {
		if contract.CodeOf(err) == contract.CodeCaptchaWrong {
			h.metrics.failed.Add(noExemplar, 1, byKind(pass.Kind))
			h.Counts.Failed(activityID)
		}
		h.metrics.refuse("captcha", err)
		h.refuse(w, r, err)
		return
	}
	h.metrics.solved.Add(noExemplar, 1, byKind(pass.Kind))
	h.Counts.Solved(activityID)
	httpserver.WriteJSON(w, http.StatusCreated, api.CaptchaPass{CaptchaPass: pass.Pass, ExpiresAt: pass.ExpiresAt})
}
