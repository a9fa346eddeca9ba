package httpapi

import (
	"errors"
	"net/http"
	"time"

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
	Bucket   *PathBucket
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
	h := &handlers{Deps: d, metrics: m}
	wrapped := api.ServerInterfaceWrapper{Handler: h, ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
		h.refuse(w, r, badParameter(err))
	}}

	// The order on a route is: limits by address, the token, limits by user and route, the handler. The limits are
	// declared here, with With, beside the route they hold for. The path bucket is not one of them: it comes after the
	// sold-out flag, inside the core.
	r := httpserver.NewRouter(d.Tel)
	buyer := d.Verifier.Require()
	const activity = "/v1/activities/{activity_id}"

	r.Get("/v1/activities", wrapped.ListActivities)
	r.Get(activity, wrapped.GetActivity)
	r.With(buyer).Post(activity+"/paths", h.postPath)
	r.With(buyer).Post(activity+"/paths/{path}/reservations", h.postReservation)
	r.With(buyer).Get(activity+"/reservations", wrapped.ListReservations)
	r.With(buyer).Get(activity+"/reservations/{order_sn}", h.getReservation)
	r.With(httpserver.Streaming).Get(activity+"/reservations/{order_sn}/events", wrapped.StreamReservation)
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
