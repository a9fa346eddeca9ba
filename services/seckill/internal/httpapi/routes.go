package httpapi

import (
	"errors"
	"net/http"
	"time"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/api"
	"flashsale.internal/services/seckill/internal/core"
)

// Deps is what the surface stands on.
type Deps struct {
	Core     *core.Service
	Verifier *auth.Verifier
	Limits   *admission.Limits
	Tel      *telemetry.Telemetry
	// OpenStreams counts the event streams, for the metrics.
	OpenStreams func() int
	// DevToken signs a developer's token; nil where they are off.
	DevToken func(id auth.Identity, ttl time.Duration) (string, error)
	// StreamFor and Heartbeat are those of an event stream; 0 means as documented.
	StreamFor, Heartbeat time.Duration
}

// New makes the handler of all public routes.
func New(d Deps) (http.Handler, error) {
	if d.StreamFor == 0 {
		d.StreamFor = streamFor
	}
	if d.Heartbeat == 0 {
		d.Heartbeat = heartbeat
	}
	m, err := newMetrics(d.Tel.Meter, d.OpenStreams)
	if err != nil {
		return nil, err
	}
	shed, err := newShedder(d.Tel.Meter)
	if err != nil {
		return nil, err
	}
	h := &handlers{Deps: d, metrics: m}
	wrapped := api.ServerInterfaceWrapper{Handler: h, ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
		h.refuse(w, r, badParameter(err))
	}}

	// What stands before a handler, in this order: the load shedder; the sold-out flag; limits by address, which need no
	// token; the token; on the path route whether the sale has begun; limits by user; on the path route whether the sale is
	// open, and last the limits that are worth waiting for. A refused request has been charged only what stands before.
	// path-activity and path-total are charged one after the other: a request that path-total refuses has used up a permit
	// of its activity, which costs neither a call to Redis nor anything to another activity.
	r := httpserver.NewRouter(d.Tel)
	buyer := d.Verifier.Require()
	on := d.Limits.On
	const activity = "/v1/activities/{activity_id}"

	r.With(shed.others, on("browse-per-ip")).Get("/v1/activities", wrapped.ListActivities)
	r.With(shed.others, on("browse-per-ip")).Get(activity, wrapped.GetActivity)
	r.With(shed.paths, h.soldOut, on("path-per-ip"), buyer, h.begun, on("path-per-user", "path-click"),
		h.admit, on("path-activity"), on("path-total")).Post(activity+"/paths", h.postPath)
	r.With(shed.purchases, on("purchase-per-ip"), buyer, on("purchase-per-user")).Post(activity+"/paths/{path}/reservations", h.postReservation)
	r.With(shed.others, on("result-per-ip"), buyer, on("result-per-user")).Get(activity+"/reservations", wrapped.ListReservations)
	r.With(shed.others, on("result-per-ip"), buyer, on("result-per-user")).Get(activity+"/reservations/{order_sn}", h.getReservation)
	// A stream lasts a minute, in which nothing is done for it: it is bounded by its own number. Who has its ticket has a purchase.
	r.With(httpserver.Streaming, on("events-per-ip")).Get(activity+"/reservations/{order_sn}/events", wrapped.StreamReservation)
	if d.DevToken != nil {
		r.Post("/v1/dev/tokens", wrapped.CreateDevToken)
	}
	return r, nil
}

// badParameter names the parameter that the generated code could not read.
func badParameter(err error) error {
	var format *api.InvalidParamFormatError
	if errors.As(err, &format) {
		return contract.InvalidField(format.ParamName, "is not valid")
	}
	return contract.Refuse(contract.CodeInvalidRequest, "a parameter is not valid").Because(err)
}
