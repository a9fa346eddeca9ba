package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/pages"
	"flashsale.internal/services/seckill/internal/room"
)

// Deps are the dependencies of the handler.
type Deps struct {
	Core       *core.Service
	Tickets    *room.Tickets
	Challenges *challenge.Challenges
	Verifier   *auth.Verifier
	Limits     *admission.Limits
	Tel        *telemetry.Telemetry
	// DevToken signs a development token; nil means that the route does not exist.
	DevToken func(id auth.Identity, ttl time.Duration) (string, error)
	// Shed, if set, is called for each request that the load shedder refuses. It must not block.
	Shed func()
	// Counts counts path and purchase requests by activity; nil means that they are not counted.
	Counts Counts
	// Suspects counts refused requests by address and user; nil means that they are not counted.
	Suspects Suspects
	// Config is what GET /v1/config returns.
	Config api.PagesConfig
	// Mounts add the routes of the pages and of the sign-in.
	Mounts []func(chi.Router)
}

// Counts counts the outcomes of path and purchase requests. Its methods are called in each of them and must not block.
type Counts interface {
	Path(activityID string)
	Solved(activityID string)
	Failed(activityID string)
	Accepted(activityID string)
	Refused(activityID string, code contract.Code)
}

// uncounted is Counts without an effect.
type uncounted struct{}

func (uncounted) Path(string)                   {}
func (uncounted) Solved(string)                 {}
func (uncounted) Failed(string)                 {}
func (uncounted) Accepted(string)               {}
func (uncounted) Refused(string, contract.Code) {}

// Suspects counts refused path, challenge and purchase requests by which a caller may become a suspect. Its methods
// must not block.
type Suspects interface {
	Address(activityID, address string, c core.Cause)
	User(activityID, userID string, c core.Cause)
}

// unsuspected is Suspects without an effect.
type unsuspected struct{}

func (unsuspected) Address(string, string, core.Cause) {}
func (unsuspected) User(string, string, core.Cause)    {}

// New returns the handler of all public routes.
func New(d Deps) (http.Handler, error) {
	if d.Counts == nil {
		d.Counts = uncounted{}
	}
	if d.Suspects == nil {
		d.Suspects = unsuspected{}
	}
	m, err := newMetrics(d.Tel.Meter)
	if err != nil {
		return nil, err
	}
	shed, err := newShedder(d.Tel.Meter, d.Shed)
	if err != nil {
		return nil, err
	}
	h := &handlers{Deps: d, metrics: m}
	if h.roomHandlers, err = room.NewHandlers(d.Tickets, d.Tel.Meter, h.refuseCall); err != nil {
		return nil, err
	}
	if h.challengeHandlers, err = challenge.NewHandlers(d.Challenges, d.Counts, d.Tel.Meter, h.refuseCall,
		d.Limits.Address); err != nil {
		return nil, err
	}
	if h.config, err = encodeConfig(d.Config); err != nil {
		return nil, err
	}
	wrapped := api.ServerInterfaceWrapper{
		Handler:          h,
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { h.refuse(w, r, badParameter(err)) },
	}

	// Each request passes the checks of its route in order. pathroute.go has those of the path route.
	r := httpserver.NewRouter(d.Tel, httpserver.ErrorPages(pages.Error))
	buyer := d.Verifier.Require()
	on := d.Limits.On
	const activity = "/v1/activities/{activity_id}"

	// Neither has a limit by address: they cost little, and thousands of buyers may share an address.
	r.With(shed.others).Get("/v1/time", wrapped.GetTime)
	r.With(shed.others).Get("/v1/config", wrapped.GetConfig)
	r.With(shed.others, on("browse-per-ip")).Get("/v1/activities", wrapped.ListActivities)
	r.With(shed.others, on("browse-per-ip")).Get(activity, wrapped.GetActivity)
	r.With(h.pathChecks(shed)...).Post(activity+"/paths", h.postPath)
	rooms := r.With(shed.others, on("room-per-ip"), buyer, on("room-per-user"))
	rooms.Post(activity+"/room", wrapped.JoinRoom)
	rooms.Get(activity+"/room", wrapped.GetRoomTicket)
	// Before challenges open, a call charges no rule by user.
	challenges := r.With(h.countAddress, shed.others, on("challenge-per-ip"), buyer, h.countUser, h.CheckOpen,
		on("challenge-per-user"))
	challenges.Post(activity+"/captchas", wrapped.CreateCaptcha)
	challenges.Post(activity+"/captchas/{captcha_id}/answers", wrapped.AnswerCaptcha)
	// The draw is public, so that every reader can verify it.
	r.With(shed.others, on("browse-per-ip")).Get(activity+"/room/draw", wrapped.GetDraw)
	r.With(shed.others, on("browse-per-ip")).Get(activity+"/room/tickets", wrapped.GetDrawTickets)
	r.With(h.counted, h.countAddress, shed.purchases, on("purchase-per-ip"), buyer, h.countUser, on("purchase-per-user")).
		Post(activity+"/paths/{path}/reservations", h.postReservation)
	results := r.With(shed.others, on("result-per-ip"), buyer, on("result-per-user"))
	results.Get(activity+"/reservations", wrapped.ListReservations)
	results.Get(activity+"/reservations/{order_sn}", h.getReservation)
	// A stream lasts a minute and is idle for most of it, so the shedder does not count it; the number of streams has
	// a bound of its own. Only the owner of a purchase has a ticket for it.
	r.With(httpserver.Streaming, on("events-per-ip")).
		Get(activity+"/reservations/{order_sn}/events", wrapped.StreamReservation)
	if d.DevToken != nil {
		r.Post("/v1/dev/tokens", wrapped.CreateDevToken)
	}
	// Pages are in memory and cached at the edge; the sign-in has slots and limits of its own.
	for _, mount := range d.Mounts {
		mount(r)
	}
	return r, nil
}

// badParameter returns a refusal that names the parameter that the generated code could not parse.
func badParameter(err error) error {
	var format *api.InvalidParamFormatError
	if errors.As(err, &format) {
		return contract.InvalidField(format.ParamName, "is not valid")
	}
	return contract.Refuse(contract.CodeInvalidRequest, "a parameter is not valid").Because(err)
}
