// Package httpapi serves the HTTP API for merchants and operators.
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
	"flashsale.internal/pkg/presence"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/board"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/webhooks"
)

// callTimeout bounds one request, the wait for the database included.
const callTimeout = 15 * time.Second

// reconcileTimeout bounds a reconciliation, which makes several comparisons. It is below the server's write time-out.
const reconcileTimeout = 55 * time.Second

// exportTimeout bounds an export, which reads all pages of a list and looks up their orders. It is below the server's
// write time-out.
const exportTimeout = 55 * time.Second

// pageOrExportTimeout is the time-out of a request for a list that may be an export.
func pageOrExportTimeout(r *http.Request) time.Duration {
	if acceptsCSV(r) {
		return exportTimeout
	}
	return callTimeout
}

// readsMuch reports whether a request is an export or a page of a feed.
func readsMuch(r *http.Request) bool { return acceptsCSV(r) || r.URL.Query().Has("changed_since") }

// Merchant serves the API for merchants and operators.
type Merchant struct {
	core       *core.Service
	merchants  *merchants.Service
	webhooks   *webhooks.Service
	reconciler *reconcile.Reconciler
	board      *board.Board
	presence   *presence.Announcer
	limits     *admission.Limits
	tel        *telemetry.Telemetry
	transient  func(error) bool
	now        func() time.Time
}

// Deps are the dependencies of the handler.
type Deps struct {
	Core       *core.Service
	Merchants  *merchants.Service
	Webhooks   *webhooks.Service
	Reconciler *reconcile.Reconciler
	Board      *board.Board
	Presence   *presence.Announcer // of this process
	Tel        *telemetry.Telemetry
	Verifier   *auth.Verifier
	Limits     *admission.Limits
	Transient  func(error) bool // reports an error after which a retry can succeed
	Now        func() time.Time
}

var _ api.ServerInterface = (*Merchant)(nil)

// NewMerchant returns the handler of the API.
func NewMerchant(d Deps) http.Handler {
	m := &Merchant{
		core: d.Core, merchants: d.Merchants, webhooks: d.Webhooks, reconciler: d.Reconciler, board: d.Board,
		presence: d.Presence, limits: d.Limits, tel: d.Tel, transient: d.Transient, now: d.Now,
	}
	w := api.ServerInterfaceWrapper{Handler: m, ErrorHandlerFunc: m.refuseParameter}
	r := httpserver.NewRouter(d.Tel)
	limits, verifier := d.Limits, d.Verifier
	// Limits by client address apply before the token is verified, limits by user and merchant after it, and the limits of
	// a route's total rate last.
	byAddress := limits.On("merchant-per-ip")
	read := limits.On("merchant-per-user", "merchant-per-merchant", "merchant-read-total")
	write := limits.On("merchant-per-user", "merchant-per-merchant", "merchant-write-total")
	// These requests load the database for a long time, so their concurrency is limited.
	export := when(readsMuch, limits.On("merchant-export-per-merchant", "merchant-export"))
	oneReconciliation := limits.On("merchant-reconcile")
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.Timeout(callTimeout), verifier.Require(auth.Merchant))
		r.With(write).Post("/v1/merchant/products", w.CreateProduct)
		r.With(read).Get("/v1/merchant/products", w.ListProducts)
		r.With(write).Put("/v1/merchant/products/by-ref/{ref}", w.PutProduct)
		r.With(read).Get("/v1/merchant/currencies", w.ListCurrencies)
		r.With(read).Get("/v1/merchant/products/{product_id}", w.GetProduct)
		r.With(write).Patch("/v1/merchant/products/{product_id}", w.PatchProduct)
		r.With(write).Post("/v1/merchant/products/{product_id}/archive", w.ArchiveProduct)
		r.With(write).Post("/v1/merchant/products/{product_id}/unarchive", w.UnarchiveProduct)
		r.With(read, export).Get("/v1/merchant/orders", w.ListOrders)
		r.With(write).Post("/v1/merchant/webhooks", w.CreateWebhook)
		r.With(read).Get("/v1/merchant/webhooks", w.ListWebhooks)
		r.With(read).Get("/v1/merchant/webhooks/{webhook_id}", w.GetWebhook)
		r.With(write).Patch("/v1/merchant/webhooks/{webhook_id}", w.PatchWebhook)
		r.With(write).Delete("/v1/merchant/webhooks/{webhook_id}", w.DeleteWebhook)
		r.With(write).Post("/v1/merchant/webhooks/{webhook_id}/secret", w.ReplaceWebhookSecret)
		r.With(write).Post("/v1/merchant/webhooks/{webhook_id}/test", w.TestWebhook)
		r.With(write).Post("/v1/merchant/webhooks/{webhook_id}/replay", w.ReplayWebhook)
		r.With(read).Get("/v1/merchant/webhooks/{webhook_id}/deliveries", w.ListDeliveries)
		r.With(read).Get("/v1/merchant/profile", w.GetProfile)
		r.With(write).Put("/v1/merchant/profile", w.PutProfile)
		r.With(write).Post("/v1/merchant/activities", w.CreateActivity)
		r.With(read).Get("/v1/merchant/activities", w.ListActivities)
		r.With(read).Get("/v1/merchant/activities/{activity_id}", w.GetActivity)
		r.With(write).Patch("/v1/merchant/activities/{activity_id}", w.PatchActivity)
		r.With(write).Delete("/v1/merchant/activities/{activity_id}", w.DeleteActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/duplicate", w.DuplicateActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/publish", w.PublishActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/pause", w.PauseActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/resume", w.ResumeActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/end", w.EndActivity)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/stock-adjustments", w.AdjustStock)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/stock", w.GetStock)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/orders/{order_sn}", w.GetActivityOrder)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/changes", w.ListChanges)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/adjustments", w.ListAdjustments)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/reconciliations", w.ListReconciliations)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/board", w.GetBoard)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/abuse", w.GetAbuse)
		r.With(read).Get("/v1/merchant/activities/{activity_id}/review", w.ListReview)
		r.With(write).Post("/v1/merchant/activities/{activity_id}/review/cancel", w.CancelReviewed)
	})
	// A stream lasts ten minutes and is idle for most of them. The number of streams has bounds of its own.
	r.With(httpserver.Streaming, byAddress, verifier.Require(auth.Merchant), read).
		Get("/v1/merchant/activities/{activity_id}/board/events", w.StreamBoard)
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.TimeoutOf(pageOrExportTimeout), verifier.Require(auth.Merchant))
		r.With(read, export).Get("/v1/merchant/activities/{activity_id}/orders", w.ListActivityOrders)
	})
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.Timeout(reconcileTimeout), verifier.Require(auth.Operator))
		r.With(write, oneReconciliation).Post("/v1/merchant/activities/{activity_id}/reconciliations", w.Reconcile)
	})
	r.Group(func(r chi.Router) {
		r.Use(byAddress, httpserver.Timeout(callTimeout), verifier.Require(auth.Operator))
		r.With(read).Get("/v1/merchant/dead-letters", w.ListDeadLetters)
		r.With(write).Post("/v1/merchant/dead-letters/{dead_letter_id}/replay", w.ReplayDeadLetter)
		r.With(write).Post("/v1/merchant/dead-letters/{dead_letter_id}/reject", w.RejectDeadLetter)
		r.With(read).Get("/v1/merchant/payment-differences", w.ListPaymentDifferences)
		r.With(read).Get("/v1/merchant/refunds", w.ListRefunds)
		r.With(write).Post("/v1/merchant/refunds/{refund_id}/retry", w.RetryRefund)
		r.With(write).Post("/v1/merchant/refunds/{refund_id}/settle", w.SettleRefund)
		r.With(read).Get("/v1/merchant/overview", w.GetOverview)
		r.With(read).Get("/v1/merchant/health", w.GetHealth)
		r.With(read).Get("/v1/merchant/limits", w.ListLimits)
		r.With(read).Get("/v1/merchant/limits/{limit_name}", w.GetLimit)
		r.With(write).Put("/v1/merchant/limits/{limit_name}", w.PutLimit)
		r.With(write).Patch("/v1/merchant/limits/{limit_name}", w.PatchLimit)
		r.With(write).Delete("/v1/merchant/limits/{limit_name}", w.DeleteLimit)
		r.With(read).Get("/v1/merchant/limits/{limit_name}/changes", w.ListLimitChanges)
		r.With(write).Post("/v1/merchant/limits/{limit_name}/revert", w.RevertLimit)
		r.With(write).Post("/v1/merchant/limits/{limit_name}/try", w.TryLimit)
	})
	return r
}

// when applies a middleware only to requests for which matches returns true.
func when(
	matches func(*http.Request) bool, middleware func(http.Handler) http.Handler,
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		wrapped := middleware(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if matches(r) {
				wrapped.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// refuse responds with the problem document of err. A transient error, such as an unreachable database or a deadlock,
// gets 503.
func (m *Merchant) refuse(w http.ResponseWriter, r *http.Request, err error) {
	// A request that exceeded its time-out gets a response too. Only a client that hung up does not.
	hungUp := errors.Is(r.Context().Err(), context.Canceled)
	if refusal := (*contract.Refusal)(nil); !errors.As(err, &refusal) && !hungUp && m.transient(err) {
		err = contract.Refuse(contract.CodeUnavailable,
			"The service is temporarily unavailable. The outcome may be unknown; try again.").
			Because(err).After(time.Second)
	}
	problem.Write(w, r, m.tel.Log, err)
}

// refuseParameter responds to a request with a parameter that the generated code could not parse.
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

// validID responds with 404 and returns false for a malformed id.
func (m *Merchant) validID(w http.ResponseWriter, r *http.Request, id string) bool {
	if !contract.ValidID(id) {
		m.refuse(w, r, contract.Refuse(contract.CodeNotFound, "no such resource"))
		return false
	}
	return true
}

// caller returns the caller of a request. Its merchant is that of the token, never one that the request names.
func caller(r *http.Request) core.Caller {
	id := auth.From(r.Context())
	return core.Caller{UserID: id.UserID, MerchantID: id.MerchantID, Operator: id.Has(auth.Operator)}
}

// listed returns the objects that a list shows: those of the caller's scope, reduced to one merchant by the parameter
// merchant_id. Only operators may name another merchant than their own.
func (m *Merchant) listed(w http.ResponseWriter, r *http.Request) (core.Scope, bool) {
	by := caller(r)
	query := r.URL.Query()
	if !query.Has("merchant_id") {
		return by.Scope(), true
	}
	merchantID := query.Get("merchant_id")
	var err error
	switch {
	case !contract.ValidMerchantID(merchantID):
		err = contract.InvalidField("merchant_id", "must be 1 to 64 of A-Z a-z 0-9 _ . -")
	case !by.Operator && merchantID != by.MerchantID:
		err = contract.Refuse(contract.CodeForbidden, "only operators see objects of other merchants")
	default:
		return core.OfMerchant(merchantID), true
	}
	m.refuse(w, r, err)
	return core.Scope{}, false
}

// requireNoFields refuses a request whose body has fields. It accepts an empty object and no body.
func (m *Merchant) requireNoFields(w http.ResponseWriter, r *http.Request) bool {
	if err := httpserver.DecodeOptionalJSON(w, r, &struct{}{}); err != nil {
		m.refuse(w, r, err)
		return false
	}
	return true
}

// page parses limit and cursor. The Limit that it returns is one row higher than the request's; cutPage uses the
// additional row to find out whether there is a next page.
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

// cutPage removes the additional row of page from a list. It returns the cursor of the next page, nil if there is
// none.
func cutPage[T any](list []T, p core.Page, id func(T) string) ([]T, *string) {
	if len(list) < p.Limit {
		return list, nil
	}
	list = list[:p.Limit-1]
	next := base64.RawURLEncoding.EncodeToString([]byte(id(list[len(list)-1])))
	return list, &next
}

// optional returns nil for the zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// given returns the zero value for nil.
func given[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// views applies view to each element of a list.
func views[T, V any](list []T, view func(T) V) []V {
	out := make([]V, len(list))
	for i, v := range list {
		out[i] = view(v)
	}
	return out
}
