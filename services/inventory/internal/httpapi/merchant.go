// Package httpapi is the merchants' HTTP API.
package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/core"
)

// callTimeout bounds one request, the wait for the database included.
const callTimeout = 15 * time.Second

// reconcileTimeout is that of a reconciliation, which looks several times; shorter than what an answer may take to write.
const reconcileTimeout = 55 * time.Second

// Merchant is what merchants and operators see.
type Merchant struct {
	core      *core.Service
	limits    *admission.Limits
	tel       *telemetry.Telemetry
	transient func(error) bool // what may succeed later
	now       func() time.Time
}

var _ api.ServerInterface = (*Merchant)(nil)

// NewMerchant routes the merchants' API. transient tells which errors may be gone when the caller asks again.
func NewMerchant(svc *core.Service, tel *telemetry.Telemetry, verifier *auth.Verifier, limits *admission.Limits, transient func(error) bool, now func() time.Time) http.Handler {
	m := &Merchant{core: svc, limits: limits, tel: tel, transient: transient, now: now}
	w := api.ServerInterfaceWrapper{Handler: m, ErrorHandlerFunc: m.refuseParameter}
	r := httpserver.NewRouter(tel)
	// Before the token by address, after it by user, and last what all of a route may do together.
	byAddress := limits.On("merchant-per-ip")
	read, write := limits.On("merchant-per-user", "merchant-read-total"), limits.On("merchant-per-user", "merchant-write-total")
	// What holds the database for long, by how many run at a time.
	export, reconcile := when(wantsCSV, limits.On("merchant-export")), limits.On("merchant-reconcile")
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.Timeout(callTimeout), verifier.Require(auth.Merchant))
		r.With(write).Post("/v1/merchant/products", w.CreateProduct)
		r.With(read).Get("/v1/merchant/products", w.ListProducts)
		r.With(read).Get("/v1/merchant/products/{product_id}", w.GetProduct)
		r.With(write).Patch("/v1/merchant/products/{product_id}", w.PatchProduct)
		r.With(write).Post("/v1/merchant/activities", w.CreateActivity)
		r.With(read).Get("/v1/merchant/activities", w.ListActivities)
		r.With(read).Get("/v1/merchant/activities/{activity_id}", w.GetActivity)
		r.With(write).Patch("/v1/merchant/activities/{activity_id}", w.PatchActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/publish", w.PublishActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/pause", w.PauseActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/resume", w.ResumeActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/end", w.EndActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/stock-adjustments", w.AdjustStock)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/stock", w.GetStock)
		r.With(read, export).Get("/v1/merchant/activities/{activity_id}/orders", w.ListActivityOrders)
	})
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.Timeout(reconcileTimeout), verifier.Require(auth.Operator))
		r.With(write, reconcile).Post("/v1/merchant/activities/{activity_id}/reconciliations", w.Reconcile)
	})
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.Timeout(callTimeout), verifier.Require(auth.Operator))
		r.With(read).Get("/v1/merchant/dead-letters", w.ListDeadLetters)
		r.With(write).Post("/v1/merchant/dead-letters/{dead_letter_id}/replay", w.ReplayDeadLetter)
		r.With(write).Post("/v1/merchant/dead-letters/{dead_letter_id}/reject", w.RejectDeadLetter)
		r.With(read).Get("/v1/merchant/limits", w.ListLimits)
		r.With(read).Get("/v1/merchant/limits/{limit_name}", w.GetLimit)
		r.With(write).Put("/v1/merchant/limits/{limit_name}", w.PutLimit)
		r.With(write).Delete("/v1/merchant/limits/{limit_name}", w.DeleteLimit)
		r.With(write).Post("/v1/merchant/limits/{limit_name}/revert", w.RevertLimit)
		r.With(write).Post("/v1/merchant/limits/{limit_name}/try", w.TryLimit)
	})
	return r
}

// when applies a middleware to the requests that matches takes; the others pass it by.
func when(matches func(*http.Request) bool, middleware func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		through := middleware(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if matches(r) {
				through.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// refuse answers err. What a lost database or a deadlock caused may succeed later and is 503.
func (m *Merchant) refuse(w http.ResponseWriter, r *http.Request, err error) {
	// A request whose own time is over is refused like any other; only who has gone needs no answer.
	gone := errors.Is(r.Context().Err(), context.Canceled)
	if refusal := (*contract.Refusal)(nil); !errors.As(err, &refusal) && !gone && m.transient(err) {
		err = contract.Refuse(contract.CodeUnavailable, "This cannot be answered right now. The outcome may be unknown; ask again.").Because(err).After(time.Second)
	}
	problem.Write(w, r, m.tel.Log, err)
}

// refuseParameter answers what the generated code could not read.
func (m *Merchant) refuseParameter(w http.ResponseWriter, r *http.Request, err error) {
	name := "parameter"
	var format *api.InvalidParamFormatError
	var many *api.TooManyValuesForParamError
	var missing *api.RequiredParamError
	var header *api.RequiredHeaderError
	switch {
	case errors.As(err, &format):
		name = format.ParamName
	case errors.As(err, &many):
		name = many.ParamName
	case errors.As(err, &missing):
		name = missing.ParamName
	case errors.As(err, &header):
		m.refuse(w, r, contract.InvalidField(header.ParamName, "is required"))
		return
	}
	m.refuse(w, r, contract.InvalidField(name, "is not valid"))
}

// known answers 404 for an id that cannot be one.
func (m *Merchant) known(w http.ResponseWriter, r *http.Request, id string) bool {
	if !contract.ValidID(id) {
		m.refuse(w, r, contract.Refuse(contract.CodeNotFound, "no such resource"))
		return false
	}
	return true
}

func who(r *http.Request) string { return auth.From(r.Context()).UserID }

// noBody refuses fields where none are known. No body at all is fine.
func (m *Merchant) noBody(w http.ResponseWriter, r *http.Request) bool {
	if err := httpserver.DecodeOptionalJSON(w, r, &struct{}{}); err != nil {
		m.refuse(w, r, err)
		return false
	}
	return true
}

// page reads limit and cursor, and asks for one row more, which tells whether there is a next page.
func (m *Merchant) page(w http.ResponseWriter, r *http.Request) (core.Page, bool) {
	p, err := httpserver.PageOf(r)
	out := core.Page{Limit: p.Limit + 1}
	if err == nil && r.URL.Query().Has("cursor") {
		raw, derr := base64.RawURLEncoding.DecodeString(p.Cursor)
		out.Cursor = string(raw)
		if derr != nil || !contract.ValidID(out.Cursor) {
			err = contract.InvalidField("cursor", "is not valid")
		}
	}
	if err != nil {
		m.refuse(w, r, err)
		return core.Page{}, false
	}
	return out, true
}

// cut takes the row off that only told of a next page, and makes its cursor.
func cut[T any](list []T, p core.Page, id func(T) string) ([]T, *string) {
	if len(list) < p.Limit {
		return list, nil
	}
	list = list[:p.Limit-1]
	next := base64.RawURLEncoding.EncodeToString([]byte(id(list[len(list)-1])))
	return list, &next
}

func maybe[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func views[T, V any](list []T, view func(T) V) []V {
	out := make([]V, len(list))
	for i, v := range list {
		out[i] = view(v)
	}
	return out
}
