package challenge

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// Counts counts answers by activity. Its methods must not block.
type Counts interface {
	Solved(activityID string)
	Failed(activityID string)
}

// Handlers implements the part of api.ServerInterface that is about challenges.
type Handlers struct {
	challenges *Challenges
	counts     Counts
	// refuse writes a refusal. Refusals of a call that is not empty are counted by it.
	refuse func(w http.ResponseWriter, r *http.Request, call string, err error)
	// address returns the address of a request that limits count.
	address func(r *http.Request) string
	counter metric.Int64Counter // by kind and outcome
}

// NewHandlers returns Handlers.
func NewHandlers(
	c *Challenges, counts Counts, meter metric.Meter, refuse func(http.ResponseWriter, *http.Request, string, error),
	address func(*http.Request) string,
) (*Handlers, error) {
	var series []metric.MeasurementOption
	for _, outcome := range []string{"given", "solved", "failed"} {
		series = append(series, telemetry.Series(attrKind, []contract.ChallengeKind{
			contract.ChallengePow, contract.ChallengeClick, contract.ChallengeProvider,
		}, telemetry.AttrOutcome.String(outcome))...)
	}
	counter, err := telemetry.NewCounter(meter, "flashsale.seckill.challenges", "",
		"Challenges by kind and outcome: given to buyers, solved, failed (answers that got captcha_wrong)", series...)
	return &Handlers{c, counts, refuse, address, counter}, err
}

const attrKind = attribute.Key("flashsale.challenge.kind")

// CheckOpen refuses requests for challenges before these open. It precedes the limits by user, so that an early
// request costs nothing.
func (h *Handlers) CheckOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		activityID := httpserver.PathParam(r, "activity_id")
		if !contract.ValidID(activityID) {
			h.refuse(w, r, "", core.RefuseNotFound())
			return
		}
		if err := h.challenges.CheckOpen(r.Context(), activityID); err != nil {
			h.refuse(w, r, "challenge", err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *Handlers) count(kind contract.ChallengeKind, outcome string) {
	h.counter.Add(context.Background(), 1, metric.WithAttributes(
		attrKind.String(string(kind)), telemetry.AttrOutcome.String(outcome)))
}

// refuseCall writes a refusal and decides whether it counts against the caller.
func (h *Handlers) refuseCall(w http.ResponseWriter, r *http.Request, err error) {
	if errors.As(err, new(uncounted)) {
		httpserver.MarkShared(w)
	}
	h.refuse(w, r, "challenge", err)
}

// CreateCaptcha implements api.ServerInterface.
func (h *Handlers) CreateCaptcha(w http.ResponseWriter, r *http.Request, activityID string) {
	var body struct {
		Kind       string `json:"kind"`
		RoomTicket string `json:"room_ticket"`
	}
	if err := httpserver.DecodeOptionalJSON(w, r, &body); err != nil {
		h.refuse(w, r, "", err)
		return
	}
	caller := auth.From(r.Context())
	c, err := h.challenges.Give(r.Context(), caller.UserID, activityID, Request{
		Kind: contract.ChallengeKind(body.Kind), Ticket: body.RoomTicket, Accessible: caller.Has(auth.Accessible),
		Address: h.address(r),
	})
	if err != nil {
		h.refuseCall(w, r, err)
		return
	}
	h.count(c.Kind, "given")
	out := api.Captcha{CaptchaId: c.ID, Kind: api.CaptchaKind(c.Kind), ExpiresAt: c.ExpiresAt}
	if p := c.Work; p != nil {
		out.Pow = &api.CaptchaPow{
			Algorithm: p.Algorithm, Challenge: p.Challenge, Salt: p.Salt, Signature: p.Signature, MaxNumber: p.Max,
		}
	}
	if i := c.Click; i != nil {
		out.Click = &api.CaptchaClick{
			Image: i.Image, Width: i.Width, Height: i.Height, Prompt: i.Prompt, PromptWidth: i.PromptWidth,
			PromptHeight: i.PromptHeight, Count: clickLetters,
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
func (h *Handlers) AnswerCaptcha(w http.ResponseWriter, r *http.Request, activityID, challengeID string) {
	var body api.CaptchaAnswer
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		h.refuse(w, r, "", err)
		return
	}
	answer := Answer{Address: h.address(r)}
	if body.Points != nil {
		for _, p := range *body.Points {
			answer.Points = append(answer.Points, Point(p))
		}
	}
	if body.Payload != nil {
		answer.Payload = *body.Payload
	}
	if body.Token != nil {
		answer.Token = *body.Token
	}
	pass, err := h.challenges.Verify(r.Context(), auth.From(r.Context()).UserID, activityID, challengeID, answer)
	if err != nil {
		if contract.CodeOf(err) == contract.CodeChallengeWrong {
			h.count(pass.Kind, "failed")
			h.counts.Failed(activityID)
		}
		h.refuseCall(w, r, err)
		return
	}
	h.count(pass.Kind, "solved")
	h.counts.Solved(activityID)
	httpserver.WriteJSON(w, http.StatusCreated, api.CaptchaPass{CaptchaPass: pass.Pass, ExpiresAt: pass.ExpiresAt})
}
