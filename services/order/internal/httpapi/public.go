// Package httpapi serves the HTTP APIs of the order service: public.go and callback.go for buyers and payment
// providers, internal.go for inventory.
package httpapi

import (
	"context"
	"encoding/json"
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
	"flashsale.internal/services/order/api"
	"flashsale.internal/services/order/internal/core"
)

// callTimeout bounds one request, the wait for the database included.
const callTimeout = 15 * time.Second

// Sandbox is the sandbox payment provider, which sends callbacks on request.
type Sandbox interface {
	SendCallback(ctx context.Context, p core.Payment, outcome core.Outcome, amount int64) error
}

// Public serves the API for buyers and payment providers.
type Public struct {
	core    *core.Service
	tel     *telemetry.Telemetry
	sandbox Sandbox // nil if the sandbox is off
}

var _ api.ServerInterface = (*Public)(nil)

// NewPublic returns the handler of the public API. sandbox is nil if the sandbox is off.
func NewPublic(
	svc *core.Service, tel *telemetry.Telemetry, verifier *auth.Verifier, sandbox Sandbox, limits *admission.Limits,
) http.Handler {
	p := &Public{core: svc, tel: tel, sandbox: sandbox}
	w := api.ServerInterfaceWrapper{Handler: p, ErrorHandlerFunc: p.refuseParameter}
	r := httpserver.NewRouter(tel)
	r.Use(httpserver.Timeout(callTimeout))
	// Limits by client address apply before the token is verified, limits by user after it, and the limits of a
	// route's total rate last.
	read, write := limits.On("order-per-user", "order-read-total"), limits.On("order-per-user", "order-write-total")
	r.Group(func(r chi.Router) {
		r.Use(limits.On("order-per-ip"), verifier.Require())
		r.With(read).Get("/v1/orders", w.ListOrders)
		r.With(read).Get("/v1/orders/{order_sn}", w.GetOrder)
		r.With(read).Get("/v1/orders/{order_sn}/contact", w.GetContact)
		r.With(write).Put("/v1/orders/{order_sn}/contact", w.PutContact)
		r.With(write).Post("/v1/orders/{order_sn}/payments", w.StartPayment)
		r.With(write).Post("/v1/orders/{order_sn}/cancel", w.CancelOrder)
		r.With(read).Get("/v1/payments/{payment_id}", w.GetPayment)
		if sandbox != nil {
			r.With(write).Post("/v1/payments/{payment_id}/sandbox", w.PlaySandbox)
		}
	})
	// Providers authenticate by signature. They have no limits: a payment that was taken must never be refused.
	r.Post("/v1/payments/callbacks/{provider}", w.PaymentCallback)
	return r
}

func (p *Public) refuse(w http.ResponseWriter, r *http.Request, err error) {
	leave(w, err)
	problem.Write(w, r, p.tel.Log, err)
}

// leave closes the connection of a caller whom another process may serve: over the same one each retry would reach this
// process again.
func leave(w http.ResponseWriter, err error) {
	if errors.Is(err, core.ErrClocks) {
		w.Header().Set("Connection", "close")
	}
}

// refuseParameter responds to a request with a parameter that the generated code could not parse.
func (p *Public) refuseParameter(w http.ResponseWriter, r *http.Request, err error) {
	p.refuse(w, r, parameterRefusal(err))
}

var (
	errNoOrder   = contract.Refuse(contract.CodeNotFound, "There is no such order.")
	errNoPayment = contract.Refuse(contract.CodeNotFound, "There is no such payment.")
)

// ListOrders implements api.ServerInterface.
func (p *Public) ListOrders(w http.ResponseWriter, r *http.Request, params api.ListOrdersParams) {
	page, err := httpserver.PageOf(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	q := core.ListQuery{UserID: auth.From(r.Context()).UserID, Limit: page.Limit}
	if r.URL.Query().Has("state") {
		if params.State != nil {
			q.State = core.State(*params.State)
		}
		switch q.State {
		case core.Pending, core.Paid, core.Closed, core.Refunded:
		default:
			p.refuse(w, r, contract.InvalidField("state", "must be pending, paid, closed or refunded"))
			return
		}
	}
	if page.Cursor != "" {
		if q.Before, err = parseCursor(page.Cursor); err != nil {
			p.refuse(w, r, err)
			return
		}
	}
	orders, more, err := p.core.List(r.Context(), q)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	list := api.OrderList{Items: p.orderViews(r.Context(), orders...)}
	if more {
		last := orders[len(orders)-1]
		next := formatCursor(core.Position{CreatedAt: last.CreatedAt, OrderSN: last.OrderSN})
		list.NextCursor = &next
	}
	httpserver.WriteJSON(w, http.StatusOK, list)
}

// GetOrder implements api.ServerInterface.
func (p *Public) GetOrder(w http.ResponseWriter, r *http.Request, orderSN api.OrderSN) {
	if !contract.ValidID(orderSN) {
		p.refuse(w, r, errNoOrder)
		return
	}
	o, err := p.core.Order(r.Context(), auth.From(r.Context()).UserID, orderSN)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, p.orderViews(r.Context(), o)[0])
}

// orderViews returns the orders as they are shown, with the names of activities and SKUs at their purchases.
func (p *Public) orderViews(ctx context.Context, orders ...core.Order) []api.Order {
	about := descriptions(ctx, p.core, p.tel, orders)
	views := make([]api.Order, len(orders))
	for i, o := range orders {
		views[i] = orderView(o, about[i])
	}
	return views
}

// descriptions returns what was bought with each of the orders. If that cannot be read, it logs the error and returns
// what is known: a call that took effect never fails for names.
func descriptions(
	ctx context.Context, of *core.Service, tel *telemetry.Telemetry, orders []core.Order,
) []contract.ActivityInfo {
	about, err := of.Descriptions(ctx, orders)
	if err != nil {
		tel.Log.WarnContext(ctx, "read names of activities failed", "orders", len(orders), "error", err.Error())
	}
	return about
}

// StartPayment implements api.ServerInterface.
func (p *Public) StartPayment(
	w http.ResponseWriter, r *http.Request, orderSN api.OrderSN, params api.StartPaymentParams,
) {
	if !contract.ValidID(orderSN) {
		p.refuse(w, r, errNoOrder)
		return
	}
	var body api.PaymentRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		p.refuse(w, r, err)
		return
	}
	canonical, err := json.Marshal(body) // independent of the white space in the request
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	user := auth.From(r.Context()).UserID
	started, err := p.core.StartPayment(r.Context(), user, orderSN, body.Provider, core.Call{
		Caller: user, Method: r.Method, Path: r.URL.Path, Key: params.IdempotencyKey, Body: canonical,
	})
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusCreated, started)
}

// CancelOrder implements api.ServerInterface.
func (p *Public) CancelOrder(w http.ResponseWriter, r *http.Request, orderSN api.OrderSN) {
	if !contract.ValidID(orderSN) {
		p.refuse(w, r, errNoOrder)
		return
	}
	if err := httpserver.DecodeOptionalJSON(w, r, &struct{}{}); err != nil {
		p.refuse(w, r, err)
		return
	}
	o, err := p.core.Cancel(r.Context(), auth.From(r.Context()).UserID, orderSN)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, p.orderViews(r.Context(), o)[0])
}

// GetPayment implements api.ServerInterface.
func (p *Public) GetPayment(w http.ResponseWriter, r *http.Request, paymentID string) {
	if !contract.ValidID(paymentID) {
		p.refuse(w, r, errNoPayment)
		return
	}
	pay, err := p.core.Payment(r.Context(), auth.From(r.Context()).UserID, paymentID)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, paymentView(pay))
}

// PlaySandbox implements api.ServerInterface.
func (p *Public) PlaySandbox(w http.ResponseWriter, r *http.Request, paymentID string) {
	if !contract.ValidID(paymentID) {
		p.refuse(w, r, errNoPayment)
		return
	}
	var body api.SandboxRequest
	if err := httpserver.DecodeJSON(w, r, &body); err != nil {
		p.refuse(w, r, err)
		return
	}
	outcome := core.Outcome(body.Outcome)
	if outcome != core.OutcomeSucceeded && outcome != core.OutcomeFailed {
		p.refuse(w, r, contract.InvalidField("outcome", "must be succeeded or failed"))
		return
	}
	if body.Amount != nil && *body.Amount < 1 {
		p.refuse(w, r, contract.InvalidField("amount", "must be at least 1"))
		return
	}
	pay, err := p.core.Payment(r.Context(), auth.From(r.Context()).UserID, paymentID)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	amount := pay.Amount
	if body.Amount != nil {
		amount = *body.Amount
	}
	if err := p.sandbox.SendCallback(r.Context(), pay, outcome, amount); err != nil {
		p.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
